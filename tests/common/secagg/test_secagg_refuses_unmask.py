"""Exchange 3: when a client keeps its shares to itself (privacy section 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from secagg_rig import ME, Rig, masked, names, refused

from regionfed.secagg import (
    ClientState,
    RoundContext,
    UnmaskRequest,
)
from regionfed.secagg import errors as e
from regionfed.secagg.keys import seal_share


@pytest.fixture
def rig() -> Rig:
    return Rig.create(5)


def test_a_second_unmask_request_is_refused(rig: Rig) -> None:
    coordinator = masked(rig, dropped=("client-004",))
    message = coordinator.unmask_message(ME)
    rig.unmask(ME, message)
    refused(rig, e.SecondUnmaskRequest, lambda: rig.unmask(ME, message))
    other = replace(message, survivors=tuple(names(5)), dropped=())
    refused(rig, e.SecondUnmaskRequest, lambda: rig.unmask(ME, other))


def test_nothing_secret_is_left_after_the_answer(rig: Rig) -> None:
    coordinator = masked(rig)
    before = ClientState.from_bytes(rig.states[ME]).rounds[-1]
    rig.unmask(ME, coordinator.unmask_message(ME))
    saved = rig.states[ME]
    for secret in (before.seed, before.mask_private, before.own_shares):
        assert secret.hex().encode() not in saved


@pytest.mark.parametrize(
    "change",
    [
        {"dropped": ("client-003", "client-004")},
        {"survivors": (*names(4), "client-003")},
        {"survivors": tuple(names(5))},
    ],
)
def test_a_node_both_alive_and_dead_is_refused(rig: Rig, change: dict[str, object]) -> None:
    message = masked(rig, dropped=("client-004",)).unmask_message(ME)
    refused(rig, e.AliveAndDead, lambda: rig.unmask(ME, replace(message, **change)))


def test_survivors_that_are_not_the_roster_are_refused(rig: Rig) -> None:
    message = masked(rig, dropped=("client-004",)).unmask_message(ME)
    for change in ({"dropped": ()}, {"dropped": ("client-004", "stranger")}):
        request = replace(message, **change)
        refused(rig, e.RosterMismatch, lambda request=request: rig.unmask(ME, request))


def test_a_client_called_dropped_does_not_answer(rig: Rig) -> None:
    message = masked(rig).unmask_message(ME)
    request = replace(
        message, survivors=tuple(name for name in names(5) if name != ME), dropped=(ME,)
    )
    refused(rig, e.RosterMismatch, lambda: rig.unmask(ME, request))


def test_too_few_survivors_get_no_share(rig: Rig) -> None:
    message = masked(rig).unmask_message(ME)
    request = replace(message, survivors=tuple(names(3)), dropped=("client-003", "client-004"))
    refused(rig, e.TooFewSurvivors, lambda: rig.unmask(ME, request))


def test_a_survivor_without_its_receipt_is_refused(rig: Rig) -> None:
    coordinator = masked(rig, dropped=("client-004",))
    message = coordinator.unmask_message(ME)
    request = replace(message, survivors=tuple(names(5)), dropped=())
    refused(rig, e.UnsignedKey, lambda: rig.unmask(ME, request))
    copied = replace(request, receipts=(*message.receipts, ("client-004", message.receipts[0][1])))
    refused(rig, e.UnsignedKey, lambda: rig.unmask(ME, copied))


def test_survivors_of_two_rosters_are_not_mixed() -> None:
    """A peer masked against a smaller roster: its receipt does not fit this client's."""
    rig = Rig.create(6)
    coordinator = rig.opened()
    vectors = rig.vectors()
    replies = {}
    for name in rig.keys:
        message = coordinator.mask_message(name)
        if name == "client-002":
            message = replace(
                message, roster=message.roster[:5], advertisements=message.advertisements[:5]
            )
        replies[name] = rig.mask(name, message, vectors[name])
    receipts = tuple((name, reply.receipt) for name, reply in replies.items() if name != ME)
    sealed = tuple((name, coordinator.state.sealed[name][ME]) for name in rig.keys if name != ME)
    request = UnmaskRequest(coordinator.state.context, tuple(rig.keys), (), receipts, sealed)
    with pytest.raises(e.UnsignedKey, match="client-002"):
        rig.unmask(ME, request)


def test_the_share_of_another_round_is_refused(rig: Rig) -> None:
    old = masked(rig, round=1).unmask_message(ME)
    message = masked(rig, round=2).unmask_message(ME)
    refused(rig, e.ShareUnreadable, lambda: rig.unmask(ME, replace(message, sealed=old.sealed)))


def test_shares_of_others_or_changed_ones_are_refused(rig: Rig) -> None:
    coordinator = masked(rig)
    message = coordinator.unmask_message(ME)
    rows = dict(message.sealed)
    swapped = rows | {"client-002": rows["client-003"], "client-003": rows["client-002"]}
    flipped = rows | {"client-002": bytes([rows["client-002"][0] ^ 1]) + rows["client-002"][1:]}
    to_other = rows | {"client-002": coordinator.state.sealed["client-002"]["client-003"]}
    cut = rows | {"client-002": b""}
    for table in (swapped, flipped, to_other, cut):
        request = replace(message, sealed=tuple(table.items()))
        refused(rig, e.ShareUnreadable, lambda request=request: rig.unmask(ME, request))
    missing = replace(message, sealed=message.sealed[1:])
    refused(rig, e.RosterMismatch, lambda: rig.unmask(ME, missing))


@pytest.mark.parametrize("index", [0, 1, 3, 1 << 40])
def test_a_sealed_share_with_a_foreign_index_is_refused(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, index: int
) -> None:
    """A dishonest client seals a share whose index is 0, a duplicate or out of range."""
    _refuse_sealed(
        rig, monkeypatch, e.ShareIndexInvalid, lambda plain: index.to_bytes(8, "big") + plain[8:]
    )


@pytest.mark.parametrize("change", [lambda plain: plain[:-1], lambda plain: plain + b"\0"])
def test_a_sealed_share_of_wrong_length_is_refused(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes]
) -> None:
    _refuse_sealed(rig, monkeypatch, e.ShareLengthInvalid, change)


def test_a_sealed_share_beyond_the_field_is_refused(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    _refuse_sealed(
        rig, monkeypatch, e.ShareLengthInvalid, lambda plain: plain[:8] + b"\xff" * 33 + plain[41:]
    )


def _refuse_sealed(
    rig: Rig,
    monkeypatch: pytest.MonkeyPatch,
    error: type[e.SecureAggregationError],
    change: Callable[[bytes], bytes],
) -> None:
    def seal(key: bytes, plain: bytes, *, binding: bytes) -> bytes:
        return seal_share(key, change(plain), binding=binding)

    monkeypatch.setattr("regionfed.secagg.shares.seal_share", seal)
    coordinator = masked(rig)
    refused(rig, error, lambda: rig.unmask(ME, coordinator.unmask_message(ME)))


def test_a_round_not_masked_is_not_unmasked(rig: Rig) -> None:
    message = masked(rig).unmask_message(ME)
    rig2 = rig.opened(round=2)
    request = replace(message, context=rig2.state.context)
    refused(rig, e.StageRegression, lambda: rig.unmask(ME, request))


@pytest.mark.parametrize("field", ["run", "region", "round", "nonce"])
def test_a_message_of_another_context_is_refused(rig: Rig, field: str) -> None:
    coordinator = masked(rig)
    message = coordinator.unmask_message(ME)
    other = RoundContext.fresh(run="x", region="x", round=1, configuration=bytes(32))
    changed = replace(message.context, **{field: 9 if field == "round" else getattr(other, field)})
    error = e.StageRegression if field == "round" else e.WrongContext
    refused(rig, error, lambda: rig.unmask(ME, replace(message, context=changed)))


def test_a_round_long_over_is_not_unmasked(rig: Rig) -> None:
    old = masked(rig, round=1).unmask_message(ME)
    for number in (2, 3):
        rig.open(ME, rig.start(round=number).open_message())
    refused(rig, e.ReplayedRound, lambda: rig.unmask(ME, old))
