"""Exchange 2: what a client refuses to mask against (privacy section 5)."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from secagg_rig import ME, Rig, refused, vector

from regionfed.secagg import (
    Advertisement,
    MaskRequest,
)
from regionfed.secagg import errors as e

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
