"""Published and specified values of the building blocks (privacy section 7)."""

from __future__ import annotations

import contextlib
import random
from itertools import combinations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from regionfed.secagg import errors as e
from regionfed.secagg import neighbourhood_risk, shamir, smallest_honest_sum
from regionfed.secagg.keys import (
    MASK_LABEL,
    agree,
    derive_key,
    open_share,
    pair_mask_key,
    require_sound_keys,
    seal_share,
)
from regionfed.secagg.masks import BLOCK_WORDS, MaskStream, apply_masks, expand

ORACLE_KEY = "d1d550dc0c08e171936db60534dc97c03031df8b98987d869d8ef553fa6d1257"


def test_hkdf_gives_the_specified_key() -> None:
    assert MASK_LABEL == b"regionfed/mask/v1"
    assert derive_key(bytes(range(32)), MASK_LABEL).hex() == ORACLE_KEY


def test_mask_expansion_gives_the_specified_words() -> None:
    words = expand(bytes.fromhex(ORACLE_KEY), 4)
    assert words.tolist() == [2580411384, 226757123, 908405986, 46786719]


@pytest.mark.parametrize("length", [1, 3, BLOCK_WORDS - 1, BLOCK_WORDS, 2 * BLOCK_WORDS + 7])
def test_a_mask_added_and_taken_away_leaves_nothing(length: int) -> None:
    rng = np.random.default_rng(length)
    start = rng.integers(0, 1 << 32, size=length, dtype=np.uint32)
    keys = [rng.bytes(32) for _ in range(300)][: 300 if length < 10 else 3]
    words = start.copy()
    apply_masks(words, [MaskStream(key, index % 2 == 0) for index, key in enumerate(keys)])
    assert np.any(words != start)
    expected = start.copy()
    for index, key in enumerate(keys):
        mask = expand(key, length)
        expected = expected - mask if index % 2 == 0 else expected + mask
    np.testing.assert_array_equal(words, expected)
    apply_masks(words, [MaskStream(key, index % 2 == 1) for index, key in enumerate(keys)])
    np.testing.assert_array_equal(words, start)


def test_a_mask_is_one_stream_across_blocks() -> None:
    words = expand(bytes(32), 3 * BLOCK_WORDS)
    np.testing.assert_array_equal(
        expand(bytes(32), 2 * BLOCK_WORDS + 5), words[: 2 * BLOCK_WORDS + 5]
    )
    assert len(np.unique(words)) > 0.99 * len(words)


def test_both_ends_of_a_pair_derive_one_key_and_no_other_context_does() -> None:
    first, second = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    one, other = (key.public_key().public_bytes_raw() for key in (first, second))
    pair = ("a", "b")
    here = pair_mask_key(first, other, owner="b", binding=b"r1", pair=pair)
    assert here == pair_mask_key(second, one, owner="a", binding=b"r1", pair=pair)
    assert here != pair_mask_key(first, other, owner="b", binding=b"r2", pair=pair)
    assert here != pair_mask_key(first, other, owner="b", binding=b"r1", pair=("b", "a"))


def test_keys_must_be_sound_and_distinct() -> None:
    good = X25519PrivateKey.generate().public_key().public_bytes_raw()
    with pytest.raises(e.DuplicateKey, match=r"'b'.*'a'"):
        require_sound_keys({"a": good, "b": good})
    for bad in (bytes(32), good[:31], b"\xff" * 32):
        with pytest.raises(e.LowOrderKey, match="'b'"):
            require_sound_keys({"a": good, "b": bad})
        with pytest.raises(e.LowOrderKey):
            agree(X25519PrivateKey.generate(), bad, owner="b")


def test_a_sealed_share_opens_under_its_binding_only() -> None:
    sealed = seal_share(bytes(32), b"secret", binding=b"round 1")
    assert open_share(bytes(32), sealed, binding=b"round 1", sender="a") == b"secret"
    with pytest.raises(e.ShareUnreadable):
        open_share(bytes(32), sealed, binding=b"round 2", sender="a")


def test_the_field_is_prime_and_the_smallest_above_32_bytes() -> None:
    def probably_prime(number: int) -> bool:
        odd, twos = number - 1, 0
        while odd % 2 == 0:
            odd, twos = odd // 2, twos + 1
        for _ in range(40):
            power = pow(random.randrange(2, number - 1), odd, number)
            if power in (1, number - 1):
                continue
            for _ in range(twos - 1):
                power = power * power % number
                if power == number - 1:
                    break
            else:
                return False
        return True

    assert probably_prime(shamir.PRIME)
    assert not any(probably_prime((1 << 256) + offset) for offset in range(1, 297, 2))


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32, bytes(range(32))])
def test_any_t_shares_give_the_secret_and_fewer_do_not(secret: bytes) -> None:
    indices = [1, 2, 5, 7, 300]
    shares = shamir.split(secret, threshold=3, indices=indices)
    for chosen in combinations(indices, 3):
        assert shamir.combine({i: shares[i] for i in chosen}, threshold=3) == secret
    with pytest.raises(e.TooFewSurvivors):
        shamir.combine({i: shares[i] for i in indices[:2]}, threshold=3)
    # Two shares taken for a sharing of threshold two give something else.
    wrong = {i: shares[i] for i in indices[:2]}
    with contextlib.suppress(e.KeyMismatch):
        assert shamir.combine(wrong, threshold=2) != secret


def test_two_shares_of_equal_secrets_have_nothing_in_common() -> None:
    first = shamir.split(bytes(32), threshold=2, indices=[1, 2])
    second = shamir.split(bytes(32), threshold=2, indices=[1, 2])
    assert first[1] != second[1]


def test_bad_shares_are_refused() -> None:
    shares = shamir.split(bytes(32), threshold=2, indices=[1, 2, 3])
    with pytest.raises(e.ShareIndexInvalid):
        shamir.split(bytes(32), threshold=2, indices=[0, 1, 2])
    with pytest.raises(e.ShareIndexInvalid):
        shamir.split(bytes(32), threshold=2, indices=[1, 1, 2])
    with pytest.raises(e.ShareLengthInvalid):
        shamir.split(bytes(31), threshold=2, indices=[1, 2])
    with pytest.raises(e.TooFewSurvivors):
        shamir.split(bytes(32), threshold=4, indices=[1, 2, 3])
    with pytest.raises(e.ShareIndexInvalid):
        shamir.combine({0: shares[1], 2: shares[2]}, threshold=2)
    with pytest.raises(e.ShareIndexInvalid):
        shamir.combine({-1: shares[1], 2: shares[2]}, threshold=2)
    with pytest.raises(e.ShareLengthInvalid):
        shamir.combine({1: shares[1], 2: shares[2][:-1]}, threshold=2)


def test_a_lying_coordinator_never_isolates_one_client_below_a_third_colluding() -> None:
    for clients in range(3, 301):
        threshold = -(-2 * clients // 3)
        for colluding in range(-(-clients // 3)):
            left = smallest_honest_sum(clients=clients, threshold=threshold, colluding=colluding)
            assert left >= 2, (clients, colluding)
    assert smallest_honest_sum(clients=12, threshold=8, colluding=4) == 0
    assert smallest_honest_sum(clients=10, threshold=7, colluding=0) == 6
    assert smallest_honest_sum(clients=12, threshold=11, colluding=3) == 8


def test_neighbourhood_risk_is_the_hypergeometric_tail() -> None:
    assert neighbourhood_risk(clients=11, marked=2, neighbours=5, limit=1) == pytest.approx(
        (5 * 4) / (10 * 9)
    )
    assert neighbourhood_risk(clients=300, marked=30, neighbours=100, limit=33) == 0.0
    assert 0 < neighbourhood_risk(clients=1000, marked=100, neighbours=100, limit=33) < 1e-10
