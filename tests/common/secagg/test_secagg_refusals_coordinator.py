"""Dishonest, late or broken clients, as the coordinator meets them (privacy section 5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from secagg_rig import Rig, names, plain_sum

from regionfed.secagg import SecAggCoordinator, UnmaskReply
from regionfed.secagg import errors as e

HIM = "client-001"


@pytest.fixture
def rig() -> Rig:
    return Rig.create(5)


def unmasking(rig: Rig, *, dropped: tuple[str, ...] = ()) -> SecAggCoordinator:
    coordinator = rig.opened()
    for name, (reply, words) in rig.masked(coordinator, rig.vectors()).items():
        if name not in dropped:
            coordinator.receive_masked(name, reply, words)
    coordinator.close_masking()
    return coordinator


def test_a_client_in_anothers_name_is_refused(rig: Rig) -> None:
    coordinator = rig.start()
    reply = rig.open(HIM, coordinator.open_message())
    with pytest.raises(e.UnknownClient, match="in the name of"):
        coordinator.receive_open("client-002", reply)
    coordinator.receive_open(HIM, reply)
    with pytest.raises(e.StageRegression, match="opened this round already"):
        coordinator.receive_open(HIM, reply)


def test_a_key_that_is_not_the_enrolled_identitys_is_refused(rig: Rig) -> None:
    coordinator = rig.start()
    reply = rig.open(HIM, coordinator.open_message())
    entry = replace(reply.advertisement, mask_key=bytes(range(32)))
    with pytest.raises(e.UnsignedKey, match=HIM):
        coordinator.receive_open(HIM, replace(reply, advertisement=entry))


def test_a_copied_key_is_refused(rig: Rig) -> None:
    coordinator = rig.start()
    first = rig.open("client-000", coordinator.open_message())
    coordinator.receive_open("client-000", first)
    reply = rig.open(HIM, coordinator.open_message())
    entry = replace(reply.advertisement, mask_key=first.advertisement.mask_key)
    entry = replace(entry, signature=rig.keys[HIM].identity.sign(entry.signed_bytes))
    with pytest.raises(e.DuplicateKey, match="client-000"):
        coordinator.receive_open(HIM, replace(reply, advertisement=entry))


def test_an_answer_to_another_attempt_is_refused(rig: Rig) -> None:
    reply = rig.open(HIM, rig.start().open_message())
    with pytest.raises(e.WrongContext, match="another nonce"):
        rig.start().receive_open(HIM, reply)


def test_shares_for_others_than_the_neighbours_are_refused(rig: Rig) -> None:
    coordinator = rig.start()
    reply = rig.open(HIM, coordinator.open_message())
    with pytest.raises(e.RosterMismatch):
        coordinator.receive_open(HIM, replace(reply, sealed=reply.sealed[1:]))


def test_an_unknown_name_cannot_be_in_a_cohort(rig: Rig) -> None:
    with pytest.raises(e.UnknownClient, match="enrol it first"):
        rig.start(cohort=[*names(3), "stranger"])
    with pytest.raises(e.RosterMismatch):
        rig.start(cohort=[*names(3), "client-000"])
    with pytest.raises(e.CohortTooSmall):
        rig.start(cohort=names(2))


def test_a_late_vector_does_not_enter(rig: Rig) -> None:
    """Case 17: what arrives after the deadline is discarded, in this round and in the next."""
    coordinator = rig.opened()
    vectors = rig.vectors()
    replies = rig.masked(coordinator, vectors)
    for name in names(4):
        coordinator.receive_masked(name, *replies[name])
    coordinator.close_masking()
    with pytest.raises(e.StageRegression, match="late answer"):
        coordinator.receive_masked("client-004", *replies["client-004"])
    for name in names(4):
        coordinator.receive_unmask(name, rig.unmask(name, coordinator.unmask_message(name)))
    np.testing.assert_array_equal(coordinator.finish(), plain_sum(vectors, names(4)))
    following = rig.opened(round=2)
    with pytest.raises(e.WrongContext, match="another round"):
        following.receive_masked("client-004", *replies["client-004"])


def test_a_vector_delivered_twice_is_counted_once(rig: Rig) -> None:
    coordinator = rig.opened()
    replies = rig.masked(coordinator, rig.vectors())
    coordinator.receive_masked(HIM, *replies[HIM])
    before = coordinator.total.copy()
    with pytest.raises(e.StageRegression, match="already"):
        coordinator.receive_masked(HIM, *replies[HIM])
    np.testing.assert_array_equal(coordinator.total, before)


@pytest.mark.parametrize(
    "words",
    [np.zeros(5, dtype=np.int64), np.zeros(6, dtype=np.uint32), np.zeros((1, 5), dtype=np.uint32)],
    ids=str,
)
def test_a_vector_of_wrong_type_length_or_shape_is_refused(rig: Rig, words: np.ndarray) -> None:
    coordinator = rig.opened()
    reply = rig.masked(coordinator, rig.vectors())[HIM][0]
    with pytest.raises(e.VectorInvalid):
        coordinator.receive_masked(HIM, reply, words)
    assert HIM in coordinator.dropped


def test_a_vector_without_its_receipt_is_refused(rig: Rig) -> None:
    coordinator = rig.opened()
    reply, vector = rig.masked(coordinator, rig.vectors())[HIM]
    with pytest.raises(e.UnsignedKey):
        coordinator.receive_masked(HIM, replace(reply, receipt=bytes(64)), vector)


def test_a_client_outside_the_roster_delivers_nothing() -> None:
    rig = Rig.create(6)
    coordinator = rig.opened(absent=["client-005"])
    reply, vector = rig.masked(coordinator, rig.vectors())[HIM]
    with pytest.raises(e.UnknownClient, match="did not open"):
        coordinator.receive_masked("client-005", replace(reply, name="client-005"), vector)


def _answers(rig: Rig, coordinator: SecAggCoordinator) -> dict[str, UnmaskReply]:
    return {
        name: rig.unmask(name, coordinator.unmask_message(name)) for name in coordinator.survivors
    }


@pytest.mark.parametrize("index", [0, 1, 6, 1 << 50])
def test_a_share_index_that_is_not_the_senders_is_refused(rig: Rig, index: int) -> None:
    coordinator = unmasking(rig)
    reply = _answers(rig, coordinator)[HIM]
    shares = (replace(reply.seed_shares[0], index=index), *reply.seed_shares[1:])
    with pytest.raises(e.ShareIndexInvalid):
        coordinator.receive_unmask(HIM, replace(reply, seed_shares=shares))


def test_a_share_of_wrong_length_is_refused(rig: Rig) -> None:
    coordinator = unmasking(rig, dropped=("client-004",))
    reply = _answers(rig, coordinator)[HIM]
    for value in (b"", bytes(32), bytes(34), b"\xff" * 33):
        shares = (replace(reply.key_shares[0], value=value),)
        with pytest.raises(e.ShareLengthInvalid):
            coordinator.receive_unmask(HIM, replace(reply, key_shares=shares))
    coordinator.receive_unmask(HIM, reply)


def test_both_shares_of_one_client_are_refused(rig: Rig) -> None:
    coordinator = unmasking(rig, dropped=("client-004",))
    reply = _answers(rig, coordinator)[HIM]
    both = replace(reply, seed_shares=(*reply.seed_shares, *reply.key_shares))
    with pytest.raises(e.RosterMismatch):
        coordinator.receive_unmask(HIM, both)
    twice = replace(reply, seed_shares=(*reply.seed_shares, reply.seed_shares[0]))
    with pytest.raises(e.RosterMismatch):
        coordinator.receive_unmask(HIM, twice)


def test_a_second_answer_or_one_of_a_dropped_client_is_refused(rig: Rig) -> None:
    coordinator = unmasking(rig, dropped=("client-004",))
    reply = _answers(rig, coordinator)[HIM]
    coordinator.receive_unmask(HIM, reply)
    with pytest.raises(e.StageRegression):
        coordinator.receive_unmask(HIM, reply)
    with pytest.raises(e.UnknownClient, match="no survivor"):
        coordinator.receive_unmask("client-004", replace(reply, name="client-004"))


@pytest.mark.parametrize("kind", ["seed_shares", "key_shares"])
def test_a_reconstructed_key_that_is_not_the_advertised_one_aborts(rig: Rig, kind: str) -> None:
    coordinator = unmasking(rig, dropped=("client-004",))
    for name, reply in _answers(rig, coordinator).items():
        if name == HIM:
            first, *rest = getattr(reply, kind)
            wrong = replace(first, value=bytes([first.value[0]]) + bytes(32))
            reply = replace(reply, **{kind: (wrong, *rest)})
        coordinator.receive_unmask(name, reply)
    masked = coordinator.total.copy()
    with pytest.raises(e.KeyMismatch):
        coordinator.finish()
    np.testing.assert_array_equal(coordinator.total, masked)


def test_a_client_that_leaves_its_range_is_noticed_in_the_sum(rig: Rig) -> None:
    vectors = rig.vectors()
    vectors[HIM][3] = 1 << 30
    with pytest.raises(e.ValueOutOfRange, match="sum of 5 clients"):
        rig.run(vectors)


def test_steps_out_of_order_are_refused(rig: Rig) -> None:
    coordinator = rig.start()
    for step in (
        lambda: coordinator.mask_message(HIM),
        lambda: coordinator.unmask_message(HIM),
        coordinator.close_masking,
        coordinator.finish,
    ):
        with pytest.raises(e.StageRegression):
            step()
