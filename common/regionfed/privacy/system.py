"""Epsilon of the whole system from the regions' ledgers (privacy section 3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from regionfed.errors import PrivacyError
from regionfed.privacy.accountant import Cost


@dataclass(frozen=True)
class SystemEpsilon:
    """The largest epsilon of any client, and the regions that it comes from."""

    epsilon: float
    regions: tuple[str, ...]


def system_epsilon(
    costs: Mapping[str, Cost], *, delta: float, moved: Iterable[tuple[str, ...]] = ()
) -> SystemEpsilon:
    """Regions hold disjoint clients, so the maximum over regions is what any client has spent.

    `moved` lists, for each client that changed region, all regions it was in: their costs add up.
    Raises PrivacyError when `moved` names a region without a ledger.
    """
    groups = [(region,) for region in costs] + [tuple(sorted(set(group))) for group in moved]
    best = SystemEpsilon(0.0, ())
    for group in groups:
        unknown = [region for region in group if region not in costs]
        if unknown:
            raise PrivacyError(
                f"a client moved through region {unknown[0]}, which has no ledger here; "
                f"ledgers: {', '.join(sorted(costs))}"
            )
        total = Cost(
            math.fsum(costs[region].mu_squared for region in group),
            any(costs[region].skellam for region in group),
        )
        spent = total.epsilon(delta)
        if spent > best.epsilon or not best.regions:
            best = SystemEpsilon(spent, group)
    return best
