"""The figures that the RegionFed paper prints, to be set beside ours and never taken for them.

Another team's numbers, on data that is not available in that form (benchmark section 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

SOURCE = "published: Nguyen et al., arXiv 2609.05403, other data"


@dataclass(frozen=True)
class Published:
    """Percent, as printed; None where the paper gives no figure."""

    overall: float | None = None
    worst: float | None = None
    tasks: Mapping[str, float] = field(default_factory=dict)


def _tasks(intent: float, spell: float, ner: float) -> dict[str, float]:
    return {"intent": intent, "spell": spell, "ner": ner}


ESCI: Mapping[str, Published] = MappingProxyType(
    {
        "centralized": Published(91.72, None, _tasks(96.35, 78.89, 99.93)),
        "centralized-regional": Published(92.04, 91.54, _tasks(96.72, 79.84, 99.55)),
        "fedavg": Published(80.18, 80.04, _tasks(78.79, 75.94, 85.81)),
        "fedprox": Published(67.18, 67.13, _tasks(59.03, 75.47, 67.05)),
        "region-aware": Published(83.47, 83.21, _tasks(81.52, 76.89, 92.01)),
        "finetune": Published(None, 79.53),
        "fedbabu": Published(None, 84.12),
        "fedtp": Published(91.54),
        "scaffold": Published(8.73),
        "pfedme": Published(0.00),
        "ditto": Published(8.92),
        "apfl": Published(9.15),
        "regionfed-grad": Published(91.92, 91.5),
        "regionfed-interp": Published(92.13, 86.1),
        "regionfed-meta": Published(92.27, 91.62),
        "regionfed-dynamic-paper": Published(91.92, 90.2),
    }
)

REVIEWS: Mapping[str, Published] = MappingProxyType(
    {"regionfed-meta": Published(93.18), "fedavg": Published(82.45)}
)

HANDWRITING: Mapping[str, Published] = MappingProxyType(
    {"regionfed-meta": Published(92.41), "scaffold": Published(79.52)}
)

TABLES: Mapping[str, Mapping[str, Published]] = MappingProxyType(
    {"none": {}, "esci": ESCI, "reviews": REVIEWS, "handwriting": HANDWRITING}
)
"""Figures by system, for each `bench.published`."""

COLLAPSED = ("scaffold", "pfedme", "ditto", "apfl")
"""Systems that the paper reports at 0 to 9 percent on T5-small."""

COLLAPSED_RHO = 0.618033988749895**7
"""The rho = 0.0344 to which the paper's regions 'converge'."""
