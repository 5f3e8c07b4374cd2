"""d_r as the region may use it: as measured without noise, debiased and averaged under it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regionfed.privacy.conflict_gate import ConflictGate, conflict_gate
from regionfed.privacy.modes import Mode
from regionfed.privacy.terms import RegionTerms


@dataclass(frozen=True)
class MeasuredConflict:
    """d_r, this round's unbiased estimate of its square, and what may act on it."""

    conflict: float
    squared: float
    gate: ConflictGate


def measured_conflict(
    raw: float,
    *,
    region: str,
    shared: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    terms: RegionTerms | None,
) -> MeasuredConflict:
    """The conflict of a round (privacy section 4).

    `raw` is the distance of the released vectors. The server knows the noise of all regions and
    sends the energy that it adds to the square of that distance as `noise_energy`. Correlated
    noise has no such figure that holds over rounds, so there conflict is not acted on.
    """
    squared = raw * raw
    if terms is None or not terms.mode.private:
        open_gate = conflict_gate(clients_per_region=1, private=False)
        return MeasuredConflict(raw, squared, open_gate)
    energy = dict(shared.get("noise_energy", {})).get(region)
    estimates = [float(entry["squared"]) for entry in history if "squared" in entry]
    if energy is not None:
        squared -= float(energy)
        estimates = [*estimates, squared]
    if energy is None or terms.mode is Mode.CLIENT_MF:
        reason = "conflict under this noise cannot be debiased: routing is off, alpha_r is constant"
        return MeasuredConflict(raw, squared, ConflictGate(False, False, 0, reason))
    gate = conflict_gate(
        clients_per_region=terms.cohort, private=True, rounds_measured=len(estimates)
    )
    recent = estimates[-gate.window :] if gate.window else estimates[-1:]
    return MeasuredConflict(math.sqrt(max(0.0, math.fsum(recent) / len(recent))), squared, gate)
