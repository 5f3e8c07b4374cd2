"""AES-256-CTR mask expansion, added in place block by block: constant memory whatever the size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from regionfed.secagg.errors import VectorInvalid

Words = NDArray[np.uint32]

# 256 KiB: vector block, key stream and zeros stay in a core's second-level cache together.
BLOCK_WORDS = 1 << 16
# Streams kept open at once; each costs a few hundred bytes.
_STREAMS_AT_ONCE = 256
# The library wants room for one more cipher block than it writes.
_SLACK = 16
_ZEROS = bytes(4 * BLOCK_WORDS)


class MaskStream(NamedTuple):
    """A mask that is to be added to (or, `negative`, taken from) a vector."""

    key: bytes
    negative: bool


def _encryptor(key: bytes) -> CipherContext:
    return Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()


def require_words(vector: Words, *, length: int, writable: bool = True) -> None:
    """Raise VectorInvalid unless the array is flat, writable, contiguous uint32 of this length."""
    if not isinstance(vector, np.ndarray) or vector.dtype != np.dtype("<u4"):
        kind = vector.dtype if isinstance(vector, np.ndarray) else type(vector).__name__
        raise VectorInvalid(f"a masked vector is uint32, got {kind}; encode the update first")
    if vector.shape != (length,):
        raise VectorInvalid(
            f"a masked vector has shape ({length},), got {vector.shape}; model and configuration "
            "must be the same at both ends"
        )
    if not vector.flags.c_contiguous or (writable and not vector.flags.writeable):
        raise VectorInvalid("a masked vector must be contiguous and writable; pass a copy")


def apply_masks(vector: Words, streams: Iterable[MaskStream]) -> None:
    """Add every mask to the vector in place, modulo 2^32.

    One pass per 256 streams; in each pass a block of the vector takes all masks while it is in
    the cache.
    """
    key_stream = np.empty(4 * BLOCK_WORDS + _SLACK, dtype=np.uint8)
    words = key_stream[: 4 * BLOCK_WORDS].view("<u4")
    zeros = memoryview(_ZEROS)
    for group in _groups(streams):
        open_streams = [(_encryptor(stream.key), stream.negative) for stream in group]
        for start in range(0, len(vector), BLOCK_WORDS):
            block = vector[start : start + BLOCK_WORDS]
            size = len(block)
            for encryptor, negative in open_streams:
                encryptor.update_into(zeros[: 4 * size], key_stream.data)
                combine = np.subtract if negative else np.add
                combine(block, words[:size], out=block)


def _groups(streams: Iterable[MaskStream]) -> Iterable[list[MaskStream]]:
    group: list[MaskStream] = []
    for stream in streams:
        group.append(stream)
        if len(group) == _STREAMS_AT_ONCE:
            yield group
            group = []
    if group:
        yield group


def expand(key: bytes, length: int) -> Words:
    """The first `length` words of a mask, little-endian."""
    words = np.zeros(length, dtype=np.uint32)
    apply_masks(words, [MaskStream(key, negative=False)])
    return words
