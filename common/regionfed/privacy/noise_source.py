"""Where noise comes from: a cryptographic generator, never a statistical one.

Normals come from AES-256-CTR keystream under a key from the operating system, turned into
float64 normals by Box-Muller. 53-bit uniforms cut the tail at 8.6 standard deviations, a
probability below 2e-17 per coordinate (1e-9 for 60 million coordinates), far under any delta in use.
Noise for secure sums is rounded to the integer grid of the encoding, so the low bits of the
floating-point representation, which leak a value that noise was added to (Mironov 2012), never
leave the process.

Poisson draws need numpy's rejection sampler, which accepts only numpy's bit generators. They use
Philox-4x64, a reduced Threefish-like block function in counter mode, with a fresh 256 bits of
keystream as its seed every 65,536 draws: no practical attack on it is known, and one would
expose that block alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_CHUNK = 1 << 20
_POISSON_BLOCK = 1 << 16


class NoiseSource:
    """A stream of cryptographic noise.

    Without `key` the 32-byte key comes from the operating system. A key is passed only by tests
    that need the same noise twice; the same key must never be used for two releases.
    """

    def __init__(self, key: bytes | None = None) -> None:
        if key is not None and len(key) != 32:
            raise ValueError(f"a noise key has 32 bytes, got {len(key)}")
        cipher = Cipher(algorithms.AES(key or os.urandom(32)), modes.CTR(bytes(16)))
        self._stream = cipher.encryptor()

    def bytes(self, count: int) -> bytes:
        """The next `count` bytes of keystream."""
        return self._stream.update(bytes(count))

    def uniform(self, count: int) -> npt.NDArray[np.float64]:
        """float64 uniforms in (0, 1], shape (count,)."""
        words = np.frombuffer(self.bytes(8 * count), dtype="<u8") >> np.uint64(11)
        uniforms = words.astype(np.float64)
        uniforms += 1.0
        uniforms *= 2.0**-53
        return uniforms

    def normal_chunks(self, count: int) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
        """`count` standard normals as (start, chunk) pairs of at most 2^20 each.

        Memory stays constant whatever `count` is.
        """
        for start in range(0, count, _CHUNK):
            size = min(_CHUNK, count - start)
            half = (size + 1) // 2
            radius = np.sqrt(-2.0 * np.log(self.uniform(half)))
            angle = (2.0 * np.pi) * self.uniform(half)
            chunk = np.empty(2 * half)
            chunk[:half] = radius * np.cos(angle)
            chunk[half:] = radius * np.sin(angle)
            yield start, chunk[:size]

    def normal(self, count: int) -> npt.NDArray[np.float64]:
        """`count` float64 standard normals, shape (count,)."""
        out = np.empty(count)
        for start, chunk in self.normal_chunks(count):
            out[start : start + chunk.size] = chunk
        return out

    def skellam(self, count: int, *, variance: float) -> npt.NDArray[np.int64]:
        """`count` int64 Skellam draws of mean 0 and the given variance, shape (count,)."""
        out = np.empty(count, dtype=np.int64)
        for start in range(0, count, _POISSON_BLOCK):
            size = min(_POISSON_BLOCK, count - start)
            seed = np.frombuffer(self.bytes(32), dtype="<u4").tolist()
            rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))
            out[start : start + size] = rng.poisson(variance / 2.0, size)
            out[start : start + size] -= rng.poisson(variance / 2.0, size)
        return out
