"""Attacks of a coordinator on a client, each met with its named error (privacy section 5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from secagg_rig import REGION, RUN, Rig, names

from regionfed.secagg import (
    Advertisement,
    ClientState,
    DeviceKeys,
    Directory,
    MaskRequest,
    RoundContext,
    SecAggClient,
    SecAggCoordinator,
    SignedConfig,
    UnmaskRequest,
)
from regionfed.secagg import errors as e
from regionfed.secagg.keys import seal_share

ME = "client-001"
LOW_ORDER = [
    bytes(32),
    (1).to_bytes(32, "little"),
    ((1 << 255) - 20).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
]
NOT_CANONICAL = ((1 << 255) - 19 + 9).to_bytes(32, "little")


@pytest.fixture
def rig() -> Rig:
    return Rig.create(5)


def vector(rig: Rig) -> np.ndarray:
    return np.zeros(rig.config.length, dtype=np.uint32)


def masked(rig: Rig, *, round: int = 1, dropped: tuple[str, ...] = ()) -> SecAggCoordinator:
    coordinator = rig.opened(round=round)
    for name, (reply, words) in rig.masked(coordinator, rig.vectors()).items():
        if name not in dropped:
            coordinator.receive_masked(name, reply, words)
    coordinator.close_masking()
    return coordinator


def refused(rig: Rig, error: type[e.SecureAggregationError], call: Callable[[], object]) -> None:
    """The named error, and the device's state stays as it was."""
    before = rig.states.get(ME)
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert rig.states.get(ME) == before


# Exchange 1


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": 0.1},
        {"clip": 2.0},
        {"scale": 2.0**16},
        {"length": 6},
    ],
)
def test_a_changed_block_under_the_old_signature_is_refused(
    rig: Rig, change: dict[str, float]
) -> None:
    config = replace(rig.config, blocks=(replace(rig.config.blocks[0], **change),))
    message = replace(rig.start().open_message(), signed=SignedConfig(config, rig.signed.signature))
    refused(rig, e.UnsignedKey, lambda: rig.open(ME, message))


def test_a_configuration_signed_by_another_operator_is_refused(rig: Rig) -> None:
    other = Rig.create(3).operator.sign(rig.config)
    message = replace(rig.start().open_message(), signed=other)
    refused(rig, e.UnsignedKey, lambda: rig.open(ME, message))


@pytest.mark.parametrize(
    ("change", "term"),
    [
        ({"noise_multiplier": 0.1}, "noise_multiplier"),
        ({"clip": 2.0}, "clip"),
        ({"scale": 2.0**16}, "scale"),
    ],
)
def test_a_configuration_that_changes_within_the_run_is_refused(
    rig: Rig, change: dict[str, float], term: str
) -> None:
    masked(rig)
    block = replace(rig.config.blocks[0], **change)
    rig.signed = rig.operator.sign(replace(rig.config, blocks=(block,)))
    with pytest.raises(e.ConfigurationMismatch, match=term):
        rig.open(ME, rig.start(round=2).open_message())


def test_a_threshold_rule_that_changes_within_the_run_is_refused(rig: Rig) -> None:
    masked(rig)
    rig.signed = rig.operator.sign(
        replace(rig.config, threshold_numerator=9, threshold_denominator=10)
    )
    with pytest.raises(e.ConfigurationMismatch, match=r"threshold: 4 .* 5 in this round"):
        rig.open(ME, rig.start(round=2).open_message())


def test_another_threshold_is_refused(rig: Rig) -> None:
    message = replace(rig.start().open_message(), threshold=2)
    with pytest.raises(e.ConfigurationMismatch, match="threshold: 4"):
        rig.open(ME, message)


def test_another_directory_is_refused(rig: Rig) -> None:
    signed = rig.operator.sign(replace(rig.config, directory=bytes(32)))
    message = replace(rig.start().open_message(), signed=signed)
    refused(rig, e.ConfigurationMismatch, lambda: rig.open(ME, message))


def test_a_cohort_below_the_minimum_is_refused() -> None:
    rig = Rig.create(6)
    message = replace(rig.start().open_message(), cohort=tuple(names(2)), threshold=2)
    refused(rig, e.CohortTooSmall, lambda: rig.open(ME, message))


def test_a_cohort_so_large_that_the_sum_could_wrap_is_refused() -> None:
    rig = Rig.create(4)
    block = replace(rig.config.blocks[0], scale=2.0**30)
    rig.signed = rig.operator.sign(replace(rig.config, blocks=(block,)))
    with pytest.raises(e.ValueOutOfRange, match="can pass 2147483647 and wrap"):
        rig.start()
    coordinator = Rig.create(4).start()
    context = replace(coordinator.state.context, configuration=rig.config.digest)
    message = replace(coordinator.open_message(), signed=rig.signed, context=context)
    refused(rig, e.ValueOutOfRange, lambda: rig.open(ME, message))


@pytest.mark.parametrize(
    "cohort",
    [
        ("client-001", "client-000", "client-002"),
        ("client-000", "client-001", "client-001", "client-002"),
    ],
)
def test_a_cohort_in_disorder_is_refused(rig: Rig, cohort: tuple[str, ...]) -> None:
    message = replace(rig.start().open_message(), cohort=cohort)
    refused(rig, e.RosterMismatch, lambda: rig.open(ME, message))


@pytest.mark.parametrize("cohort", [[*names(3), "stranger"], ["client-000", *names(5)[2:]]])
def test_a_stranger_or_a_cohort_without_this_client_is_refused(rig: Rig, cohort: list[str]) -> None:
    message = replace(rig.start().open_message(), cohort=tuple(cohort))
    refused(rig, e.UnknownClient, lambda: rig.open(ME, message))


@pytest.mark.parametrize("field", ["run", "region", "configuration"])
def test_a_round_of_another_run_or_region_is_refused(rig: Rig, field: str) -> None:
    message = rig.start().open_message()
    context = replace(message.context, **{field: bytes(32) if field == "configuration" else "x"})
    refused(rig, e.WrongContext, lambda: rig.open(ME, replace(message, context=context)))


def test_a_replayed_opening_is_refused(rig: Rig) -> None:
    first, second = rig.start().open_message(), rig.start().open_message()
    rig.open(ME, first)
    refused(rig, e.ReplayedRound, lambda: rig.open(ME, first))
    rig.open(ME, second)  # a new attempt has a fresh nonce
    refused(rig, e.ReplayedRound, lambda: rig.open(ME, first))


def test_a_completed_round_is_not_opened_again(rig: Rig) -> None:
    coordinator = masked(rig)
    rig.unmask(ME, coordinator.unmask_message(ME))
    refused(rig, e.ReplayedRound, lambda: rig.open(ME, rig.start().open_message()))


def test_an_older_round_is_not_opened(rig: Rig) -> None:
    rig.open(ME, rig.start(round=5).open_message())
    refused(rig, e.StageRegression, lambda: rig.open(ME, rig.start(round=4).open_message()))


def test_a_device_whose_enrolled_key_was_exchanged_does_not_start(rig: Rig) -> None:
    forged = [DeviceKeys.create(ME).enrolment]
    kept = [entry for name, entry in rig.directory.entries.items() if name != ME]
    with pytest.raises(e.OwnKeyAltered):
        SecAggClient(
            keys=rig.keys[ME],
            directory=Directory.of([*kept, *forged]),
            operator=rig.operator.public,
            state=ClientState(RUN, REGION),
        )


# Exchange 2


def swap(message: MaskRequest, name: str, entry: Advertisement) -> MaskRequest:
    return replace(
        message,
        advertisements=tuple(
            entry if other.name == name else other for other in message.advertisements
        ),
        roster=tuple(
            (other, entry.digest if other == name else digest) for other, digest in message.roster
        ),
    )


def entry_of(message: MaskRequest, name: str) -> Advertisement:
    return next(entry for entry in message.advertisements if entry.name == name)


def signed_by(rig: Rig, signer: str, entry: Advertisement) -> Advertisement:
    return replace(entry, signature=rig.keys[signer].identity.sign(entry.signed_bytes))


def test_a_swapped_key_is_refused(rig: Rig) -> None:
    message = rig.opened().mask_message(ME)
    forged = replace(entry_of(message, "client-002"), mask_key=bytes(range(32)))
    refused(
        rig,
        e.UnsignedKey,
        lambda: rig.mask(ME, swap(message, "client-002", forged), vector(rig)),
    )
    by_other = signed_by(rig, "client-003", forged)
    refused(
        rig,
        e.UnsignedKey,
        lambda: rig.mask(ME, swap(message, "client-002", by_other), vector(rig)),
    )


@pytest.mark.parametrize("key", [*LOW_ORDER, NOT_CANONICAL])
@pytest.mark.parametrize("field", ["mask_key", "share_key"])
def test_a_low_order_key_is_refused_even_when_signed(rig: Rig, key: bytes, field: str) -> None:
    message = rig.opened().mask_message(ME)
    entry = signed_by(rig, "client-002", replace(entry_of(message, "client-002"), **{field: key}))
    refused(
        rig,
        e.LowOrderKey,
        lambda: rig.mask(ME, swap(message, "client-002", entry), vector(rig)),
    )


def test_identical_keys_are_refused_even_when_signed(rig: Rig) -> None:
    message = rig.opened().mask_message(ME)
    for copied in ("client-003", ME):
        entry = replace(
            entry_of(message, "client-002"), mask_key=entry_of(message, copied).mask_key
        )
        entry = signed_by(rig, "client-002", entry)
        request = swap(message, "client-002", entry)
        refused(rig, e.DuplicateKey, lambda request=request: rig.mask(ME, request, vector(rig)))


def test_the_own_key_altered_is_refused(rig: Rig) -> None:
    message = rig.opened().mask_message(ME)
    altered = replace(entry_of(message, ME), mask_key=bytes(range(32)))
    refused(rig, e.OwnKeyAltered, lambda: rig.mask(ME, swap(message, ME, altered), vector(rig)))
    resigned = signed_by(rig, ME, altered)
    refused(rig, e.OwnKeyAltered, lambda: rig.mask(ME, swap(message, ME, resigned), vector(rig)))
    without = replace(
        message,
        roster=tuple(row for row in message.roster if row[0] != ME),
        advertisements=tuple(row for row in message.advertisements if row.name != ME),
    )
    refused(rig, e.OwnKeyAltered, lambda: rig.mask(ME, without, vector(rig)))


def test_the_key_of_another_round_is_refused(rig: Rig) -> None:
    old = entry_of(rig.opened(round=1).mask_message(ME), "client-002")
    message = rig.opened(round=2).mask_message(ME)
    refused(
        rig, e.WrongContext, lambda: rig.mask(ME, swap(message, "client-002", old), vector(rig))
    )


def test_a_peer_that_was_told_another_cohort_is_refused(rig: Rig) -> None:
    coordinator = rig.opened()
    message = coordinator.mask_message(ME)
    entry = signed_by(rig, "client-002", replace(entry_of(message, "client-002"), cohort=bytes(32)))
    refused(
        rig, e.RosterMismatch, lambda: rig.mask(ME, swap(message, "client-002", entry), vector(rig))
    )


def test_a_roster_whose_digests_do_not_fit_is_refused(rig: Rig) -> None:
    message = rig.opened().mask_message(ME)
    rows = [(name, bytes(32) if name == "client-002" else row) for name, row in message.roster]
    request = replace(message, roster=tuple(rows))
    refused(rig, e.RosterMismatch, lambda: rig.mask(ME, request, vector(rig)))


def test_a_roster_without_a_neighbours_key_is_refused(rig: Rig) -> None:
    message = rig.opened().mask_message(ME)
    request = replace(message, advertisements=message.advertisements[:-1])
    refused(rig, e.RosterMismatch, lambda: rig.mask(ME, request, vector(rig)))


def test_a_roster_below_the_threshold_is_refused(rig: Rig) -> None:
    message = rig.opened().mask_message(ME)
    request = replace(message, roster=message.roster[:3], advertisements=message.advertisements[:3])
    refused(rig, e.TooFewSurvivors, lambda: rig.mask(ME, request, vector(rig)))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("threshold", 2),
        ("modulus_bits", 16),
        ("update.scale", 2.0**10),
        ("update.clip", 50.0),
        ("update.noise_multiplier", 0.0),
        ("min_cohort", 2),
    ],
)
def test_a_term_that_differs_from_the_signed_one_is_refused(
    rig: Rig, key: str, value: float
) -> None:
    message = rig.opened().mask_message(ME)
    terms = json.dumps(json.loads(message.terms) | {key: value}).encode()
    with pytest.raises(e.ConfigurationMismatch, match=key):
        rig.mask(ME, replace(message, terms=terms), vector(rig))


def test_a_second_vector_is_not_masked(rig: Rig) -> None:
    message = rig.opened().mask_message(ME)
    rig.mask(ME, message, vector(rig))
    refused(rig, e.StageRegression, lambda: rig.mask(ME, message, vector(rig)))


def test_a_round_never_opened_is_not_masked(rig: Rig) -> None:
    message = rig.opened().mask_message(ME)
    rig.states.pop(ME)
    with pytest.raises(e.StageRegression, match="never opened"):
        rig.mask(ME, message, vector(rig))


def test_a_forgotten_attempt_is_not_masked(rig: Rig) -> None:
    old = rig.opened().mask_message(ME)
    rig.open(ME, rig.start().open_message())
    refused(rig, e.WrongContext, lambda: rig.mask(ME, old, vector(rig)))


@pytest.mark.parametrize(
    "words",
    [
        np.zeros(5, dtype=np.int32),
        np.zeros(5, dtype=np.float32),
        np.zeros(5, dtype=np.uint64),
        np.zeros(5, dtype=">u4"),
        np.zeros(4, dtype=np.uint32),
        np.zeros((5, 1), dtype=np.uint32),
        np.zeros(10, dtype=np.uint32)[::2],
    ],
    ids=str,
)
def test_a_vector_of_wrong_type_length_or_shape_is_refused(rig: Rig, words: np.ndarray) -> None:
    message = rig.opened().mask_message(ME)
    refused(rig, e.VectorInvalid, lambda: rig.mask(ME, message, words))


# Exchange 3


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
