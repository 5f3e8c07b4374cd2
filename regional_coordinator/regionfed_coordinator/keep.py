"""Models that stay on the devices after a private run: what is served, and the user's own part.

theta_u is trained and served on the device, so it costs no budget (privacy section 3). The devices
answer only that they are done.
"""

from __future__ import annotations

from regionfed.errors import QuorumError, UpdateError
from regionfed.messages import EvaluateOrder, Kept, RegionOrder, Vector, WireMessage
from regionfed_coordinator.region import Region, Traffic
from regionfed_coordinator.state import RegionState


def keep_on_devices(
    region: Region, order: RegionOrder, state: RegionState, *, part: Vector | None, traffic: Traffic
) -> str:
    """Ask every client to keep theta + part, with its own part at the user level.

    Everybody is asked, not only the round's cohort: nothing leaves, so no participation is used.
    Returns what the report says of it.
    """
    user = region.config.serves_users
    message = EvaluateOrder(
        run=order.run,
        region=region.name,
        round=order.round,
        digest=order.digest,
        layout=order.layout,
        base=order.theta,
        levels=(),
        direction=part,
        serve=0.0 if part is None else 1.0,
        user=user,
        region_update=state.update if region.config.client.user.enabled else None,
        keep=True,
    )

    def on_answer(name: str, answer: WireMessage) -> None:
        assert isinstance(answer, Kept)
        if answer.client != name or answer.round != order.round:
            raise UpdateError(f"an answer of {answer.client} for round {answer.round}")

    what = "the user's own part" if user else "the served model"
    try:
        answers = region.exchange(
            order,
            dict.fromkeys(sorted(region.clients), message),
            message_type="evaluate",
            phase="keep",
            traffic=traffic,
            on_answer=on_answer,
            reply=Kept,
        )
    except QuorumError as error:
        return f"region {region.name}: {what} is on too few devices: {error}"
    count = f"{len(answers.answered)} of {len(region.clients)} devices"
    if not user:
        return f"region {region.name}: {what} is kept on {count}"
    return (
        f"region {region.name}: {what} was trained on {count} and stays there, which costs no "
        f"budget; {_scored(region)}"
    )


def _scored(region: Region) -> str:
    privacy = region.config.privacy
    if privacy.example_level:
        return "nothing about it leaves, since it has no noise of DP-SGD in it"
    if privacy.budget.evaluation_share:
        return "its scores leave only inside the noised, charged vector of scores"
    return "nothing about it leaves, since scores have no share of the budget"
