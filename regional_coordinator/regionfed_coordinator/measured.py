"""d_r as the region may use it: as measured without noise, debiased and averaged under it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regionfed.privacy.conflict_gate import ConflictGate, conflict_gate
from regionfed.privacy.modes import Mode
from regionfed.privacy.quantities import Quantity
from regionfed.privacy.sketch import ConflictEstimate, average_conflict
from regionfed.privacy.terms import RegionTerms


@dataclass(frozen=True)
class MeasuredConflict:
    """d_r, this round's unbiased estimate of its square, and what may act on it.

    From sketches, `energy` is what noise alone makes of this round's square, `raw` the root mean
    square before it is taken off and `floor` that of the noise, both over the gate's window.
    """

    conflict: float
    squared: float
    gate: ConflictGate
    energy: float | None = None
    raw: float = 0.0
    floor: float | None = None

    def entry(self) -> dict[str, float]:
        """What later rounds average over."""
        known = {} if self.energy is None else {"energy": self.energy}
        return {"squared": self.squared, **known}


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
    sends the energy that it adds to the square of that distance as `noise_energy`, or, where
    sketches were released, their debiased square and its energy as `sketch`. Correlated noise has
    no such figure that holds over rounds, so there only sketches are acted on.
    """
    squared = raw * raw
    if terms is None or not terms.mode.private:
        open_gate = conflict_gate(clients_per_region=1, private=False)
        return MeasuredConflict(raw, squared, open_gate)
    if Quantity.SKETCH in terms.beside.asked:
        return _from_sketches(region, shared, history, terms)
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


def _from_sketches(
    region: str,
    shared: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    terms: RegionTerms,
) -> MeasuredConflict:
    """The estimates of the window averaged; alpha_r is left alone where they are within noise."""
    pairs = [(float(e["squared"]), float(e["energy"])) for e in history if "energy" in e]
    found = dict(shared.get("sketch", {})).get(region)
    if found is not None:
        pairs.append((float(found[0]), float(found[1])))
    gate = conflict_gate(clients_per_region=terms.cohort, private=True, rounds_measured=len(pairs))
    if not pairs:
        return MeasuredConflict(0.0, 0.0, gate)
    recent = pairs[-gate.window :]
    spread = math.sqrt(2.0 / terms.config.privacy.sketch_width)
    averaged = average_conflict(
        [ConflictEstimate(np.array([s]), np.array([e * spread])) for s, e in recent],
        window=len(recent),
    )
    if gate.measured_alpha and not averaged.above_noise[0]:
        gate = replace(
            gate,
            measured_alpha=False,
            reason=f"the conflict of region {region} does not stand out of its noise over "
            f"{len(recent)} rounds: alpha_r is constant",
        )
    floor = math.fsum(energy for _, energy in recent) / len(recent)
    squared = math.fsum(value for value, _ in recent) / len(recent)
    return MeasuredConflict(
        conflict=float(averaged.conflict[0]) if averaged.above_noise[0] else 0.0,
        squared=pairs[-1][0],
        gate=gate,
        energy=None if found is None else pairs[-1][1],
        raw=math.sqrt(max(0.0, squared + floor)),
        floor=math.sqrt(floor),
    )
