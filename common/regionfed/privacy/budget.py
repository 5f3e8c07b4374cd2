"""Splitting one budget over the releases of a run (privacy section 3, default budget).

A budget (epsilon, delta) is a total mu^2. A release that takes `share` of it and touches one
client `uses` times gets the noise multiplier sqrt(uses/(share*mu^2)).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from regionfed.config.federation import FederationConfig
from regionfed.errors import PrivacyError
from regionfed.privacy.events import (
    EVENT_KINDS,
    ClipBit,
    ConflictSketch,
    DatasetSize,
    IntentHistogram,
    LossGrid,
    NoisedRelease,
    TrainingUpdate,
)
from regionfed.privacy.gdp import epsilon_to_mu

DEFAULT_EPSILON = 2.0
DEFAULT_DELTA = 1e-5
DEFAULT_ROUNDS = 50
DEFAULT_PARTICIPATIONS = 5
LOOKS_AHEAD = ("interp", "meta", "dynamic", "dynamic-paper")
"""Strategies that look, or may look, at the clients' data a second time."""

DEFAULT_SHARES: Mapping[str, float] = MappingProxyType(
    {
        TrainingUpdate.kind: 0.78,
        ConflictSketch.kind: 0.10,
        LossGrid.kind: 0.05,
        ClipBit.kind: 0.01,
        IntentHistogram.kind: 0.04,
        DatasetSize.kind: 0.02,
    }
)


@dataclass(frozen=True)
class Allocation:
    """One release's part of the budget; `uses` is how often it touches one client in the run."""

    release: str
    uses: int
    share: float
    noise_multiplier: float


def split_budget(
    *,
    epsilon: float = DEFAULT_EPSILON,
    delta: float = DEFAULT_DELTA,
    participations: int = DEFAULT_PARTICIPATIONS,
    shares: Mapping[str, float] = DEFAULT_SHARES,
    unused: Collection[str] = (),
) -> list[Allocation]:
    """Noise multipliers that together spend exactly `epsilon`.

    What the `unused` releases would have had goes to the training update. Releases of the kinds
    that happen once per run (intent histogram, dataset size) are used once, the others
    `participations` times. Raises PrivacyError for an unknown release or shares that do not sum
    to 1.
    """
    if participations < 1:
        raise PrivacyError(f"participations = {participations} must be at least 1")
    for name in [*shares, *unused]:
        if not issubclass(EVENT_KINDS.get(name, object), NoisedRelease):
            raise PrivacyError(f"{name!r} is no release that a budget can be split over")
    if any(share <= 0.0 for share in shares.values()) or abs(sum(shares.values()) - 1.0) > 1e-9:
        raise PrivacyError(f"budget shares {dict(shares)} must be positive and sum to 1")
    if TrainingUpdate.kind not in shares or TrainingUpdate.kind in unused:
        raise PrivacyError("the training update must have a share of the budget")
    kept = {name: share for name, share in shares.items() if name not in unused}
    kept[TrainingUpdate.kind] += 1.0 - math.fsum(kept.values())
    mu_squared = epsilon_to_mu(epsilon, delta) ** 2
    allocations = []
    for name, share in kept.items():
        uses = participations if EVENT_KINDS[name].per_participation else 1
        multiplier = math.sqrt(uses / (share * mu_squared))
        allocations.append(Allocation(name, uses, share, multiplier))
    return allocations


def training_multiplier(allocations: list[Allocation]) -> float:
    """The noise multiplier of the training update among `allocations`."""
    return next(a.noise_multiplier for a in allocations if a.release == TrainingUpdate.kind)


def training_uses(config: FederationConfig) -> int:
    """How often a run releases sums of one client's updates: its rounds, and a look-ahead.

    A client takes part in at most `max_participations` rounds. Interp and Meta, and Dynamic which
    may choose them, look at the clients once more after the last round.
    """
    participations = min(config.privacy.budget.max_participations, config.run.rounds)
    return participations + (config.method.strategy in LOOKS_AHEAD)
