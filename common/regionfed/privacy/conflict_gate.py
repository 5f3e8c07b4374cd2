"""Whether alpha_r and routing may act on measured conflict at all (privacy section 4)."""

from __future__ import annotations

from dataclasses import dataclass

from regionfed.errors import PrivacyError

TOO_FEW = 50
PLENTY = 100
LONG_WINDOW = 20
SHORT_WINDOW = 10


@dataclass(frozen=True)
class ConflictGate:
    """What the coordinator may do with conflict this round.

    `routing`: Dynamic may choose a strategy by d_r. `measured_alpha`: alpha_r may follow d_r,
    else it is a constant. `window`: rounds to average over. `reason` goes into the report.
    """

    routing: bool
    measured_alpha: bool
    window: int
    reason: str


def conflict_gate(
    *, clients_per_region: int, private: bool, rounds_measured: int | None = None
) -> ConflictGate:
    """Decide from the smallest cohort over the regions.

    `rounds_measured` is how many estimates there are; until the window is full the answer is no.
    None means the question is asked before the run, as planning does.
    """
    if clients_per_region < 1:
        raise PrivacyError(f"clients per region = {clients_per_region} must be at least 1")
    if not private:
        return ConflictGate(True, True, 1, "no noise: conflict is measured each round")
    if clients_per_region < TOO_FEW:
        return ConflictGate(
            routing=False,
            measured_alpha=False,
            window=0,
            reason=(
                f"{clients_per_region} clients per region are fewer than {TOO_FEW}: under this "
                "noise conflict cannot be told from chance, so routing is off and alpha_r is constant"
            ),
        )
    window = LONG_WINDOW if clients_per_region < PLENTY else SHORT_WINDOW
    if rounds_measured is not None and rounds_measured < window:
        return ConflictGate(
            routing=False,
            measured_alpha=False,
            window=window,
            reason=(
                f"{rounds_measured} of the {window} rounds that conflict is averaged over: "
                "routing is off and alpha_r is constant until then"
            ),
        )
    return ConflictGate(
        routing=True,
        measured_alpha=True,
        window=window,
        reason=f"{clients_per_region} clients per region: conflict averaged over {window} rounds",
    )
