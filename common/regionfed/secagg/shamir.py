"""Shamir's sharing of 32-byte secrets over the prime field of 2^256 + 297 (Shamir 1979).

That prime is the smallest above 2^256, so every 32-byte string is a field element.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache

from regionfed.secagg.errors import (
    KeyMismatch,
    ShareIndexInvalid,
    ShareLengthInvalid,
    TooFewSurvivors,
)

PRIME = (1 << 256) + 297
SHARE_BYTES = 33
SECRET_BYTES = 32


def split(secret: bytes, *, threshold: int, indices: Sequence[int]) -> dict[int, bytes]:
    """Shares by index; any `threshold` of them give the secret back, fewer give nothing.

    Raises ShareIndexInvalid for index 0 or a duplicate, ShareLengthInvalid for a secret that is
    not 32 bytes, TooFewSurvivors for a threshold above the number of holders.
    """
    if len(secret) != SECRET_BYTES:
        raise ShareLengthInvalid(f"a shared secret has 32 bytes, got {len(secret)}")
    if len(set(indices)) != len(indices) or any(not 0 < index < PRIME for index in indices):
        raise ShareIndexInvalid("share indices must be distinct and never 0")
    if not 1 <= threshold <= len(indices):
        raise TooFewSurvivors(f"threshold {threshold} with {len(indices)} share holders")
    coefficients = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    shares: dict[int, bytes] = {}
    for index in indices:
        value = 0
        for coefficient in coefficients:
            value = (value + coefficient) * index % PRIME
        value = (value + int.from_bytes(secret, "big")) % PRIME
        shares[index] = value.to_bytes(SHARE_BYTES, "big")
    return shares


@lru_cache(maxsize=1024)
def _weights(indices: tuple[int, ...]) -> tuple[int, ...]:
    """Lagrange weights at 0; cached, since the same clients answer for many secrets."""
    weights = []
    for index in indices:
        numerator = denominator = 1
        for other in indices:
            if other != index:
                numerator = numerator * other % PRIME
                denominator = denominator * (other - index) % PRIME
        weights.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return tuple(weights)


def combine(shares: Mapping[int, bytes], *, threshold: int) -> bytes:
    """The secret, from the `threshold` shares of lowest index.

    Raises TooFewSurvivors, ShareIndexInvalid (index 0 or beyond the field), ShareLengthInvalid,
    or KeyMismatch when the shares belong to no 32-byte secret.
    """
    if len(shares) < threshold:
        raise TooFewSurvivors(f"{len(shares)} shares, {threshold} are needed")
    chosen = tuple(sorted(shares))[:threshold]
    value = 0
    for index in chosen:
        if not 0 < index < PRIME:
            raise ShareIndexInvalid(f"share index {index} is 0 or out of range")
        require_share(shares[index])
    for index, weight in zip(chosen, _weights(chosen), strict=True):
        value += weight * int.from_bytes(shares[index], "big")
    value %= PRIME
    if value >> (8 * SECRET_BYTES):
        raise KeyMismatch("the shares do not belong to one secret")
    return value.to_bytes(SECRET_BYTES, "big")


def require_share(share: bytes) -> None:
    """Raise ShareLengthInvalid unless the bytes are one field element."""
    if len(share) != SHARE_BYTES or int.from_bytes(share, "big") >= PRIME:
        raise ShareLengthInvalid(
            f"a share is a field element of {SHARE_BYTES} bytes, got {len(share)} bytes"
        )
