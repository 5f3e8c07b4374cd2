"""The status of a federation as values; `show` prints it, `--json` dumps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

RunState = Literal["unknown", "waiting", "running", "done", "stopped", "failed", "dead"]
ENDED: frozenset[RunState] = frozenset({"done", "stopped", "failed", "dead"})
"""States that do not change by themselves."""
BAD: frozenset[RunState] = frozenset({"failed", "dead"})


@dataclass(frozen=True, kw_only=True)
class RegionStatus:
    """One region.

    `coordinator` is 'up', 'away' (asked, no answer) or 'not asked'; `uplink` is 'online',
    'offline', or empty where the global SuperLink was not asked. `progress_age_s` is seconds since
    the region's last report, None where there was none. `clients_live` are connected now,
    `clients_counted` are those whose answers are in the region's last update, `clients_late` those
    left out of the last round with the reason. `privacy` is the mode that
    was promised; `epsilon` was spent and `epsilon_left` is what the budget still allows.
    """

    name: str
    coordinator: str = "not asked"
    uplink: str = ""
    round: int = 0
    phase: str = ""
    progress_age_s: float | None = None
    clients: int = 0
    clients_live: int | None = None
    clients_counted: int | None = None
    clients_offline: tuple[str, ...] = ()
    clients_late: dict[str, str] = field(default_factory=dict)
    privacy: str = ""
    epsilon: float | None = None
    epsilon_left: float | None = None
    last_error: str = ""


@dataclass(frozen=True, kw_only=True)
class FederationStatus:
    """The whole federation; `reason` says why it is failed or dead.

    `progress_age_s` is seconds since the global tier last made something durable, `patience_s`
    how long one phase may take. `processes` are those of `regionfed up`, name to process id; None
    where they run elsewhere.
    """

    run: str
    folder: str
    state: RunState
    reason: str = ""
    round: int = 0
    rounds: int = 0
    phase: str = ""
    progress_age_s: float | None = None
    patience_s: float | None = None
    last_error: str = ""
    processes: dict[str, int] | None = None
    regions: tuple[RegionStatus, ...] = ()
