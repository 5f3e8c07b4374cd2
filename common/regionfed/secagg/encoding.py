"""From a clipped real update to integers modulo 2^32, and back from the integer sum.

flatten -> reject NaN/Inf -> L2 clip -> scale -> stochastic rounding -> uint32 (privacy section 5).
Everything runs in blocks: beside input and output no array of the model's size is made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike, NDArray

from regionfed.secagg.config import Block, SecAggConfig
from regionfed.secagg.errors import NotFinite, ValueOutOfRange, VectorInvalid
from regionfed.secagg.masks import Words, require_words

FloatVector = NDArray[np.float32] | NDArray[np.float64]

_BLOCK = 1 << 16


def encode(
    values: Mapping[str, FloatVector],
    config: SecAggConfig,
    *,
    rng: np.random.Generator | None = None,
    device_noise: Mapping[str, NDArray[np.int64]] | None = None,
) -> Words:
    """Encode one client's blocks, by name, into the vector to be masked.

    values: one flat float array per block of the configuration, of the block's length.
    rng: draws the rounding; None seeds one from the operating system.
    device_noise: integer noise shares to add, by block, for blocks with `device_noise_std` > 0.

    Returns a uint32 array of length `config.length`. Raises VectorInvalid (blocks, type, shape),
    NotFinite, or ValueOutOfRange when a value leaves the range that cannot wrap.
    """
    noise = device_noise or {}
    _require_blocks(values, noise, config)
    generator = rng if rng is not None else np.random.Generator(np.random.SFC64())
    words = np.empty(config.length, dtype=np.uint32)
    for block, place in config.slices():
        _encode_block(
            values[block.name],
            block,
            out=words[place].view(np.int32),
            rng=generator,
            noise=noise.get(block.name),
        )
    return words


def _require_blocks(
    values: Mapping[str, FloatVector],
    noise: Mapping[str, NDArray[np.int64]],
    config: SecAggConfig,
) -> None:
    wanted = [block.name for block in config.blocks]
    if sorted(values) != sorted(wanted):
        raise VectorInvalid(f"the configuration sums the blocks {wanted}, got {sorted(values)}")
    noisy = sorted(block.name for block in config.blocks if block.device_noise_std > 0)
    if sorted(noise) != noisy:
        raise VectorInvalid(
            f"the configuration wants device noise on the blocks {noisy}, got {sorted(noise)}"
        )
    for block in config.blocks:
        array = values[block.name]
        if array.dtype not in (np.float32, np.float64) or array.shape != (block.length,):
            raise VectorInvalid(
                f"block {block.name!r} must be float32 or float64 of shape ({block.length},), "
                f"got {array.dtype} {array.shape}"
            )
        if block.name in noise and (
            noise[block.name].dtype != np.int64 or noise[block.name].shape != array.shape
        ):
            raise VectorInvalid(
                f"device noise of block {block.name!r} must be int64 of shape {array.shape}"
            )


def l2_norm(values: FloatVector) -> float:
    """Euclidean norm, accumulated in float64; not finite if any value is not."""
    total = 0.0
    for start in range(0, len(values), _BLOCK):
        part = values[start : start + _BLOCK].astype(np.float64)
        total += float(np.dot(part, part))
    return math.sqrt(total) if math.isfinite(total) else math.inf


def _encode_block(
    values: FloatVector,
    block: Block,
    *,
    out: NDArray[np.int32],
    rng: np.random.Generator,
    noise: NDArray[np.int64] | None,
) -> None:
    norm = l2_norm(values)
    if not math.isfinite(norm):
        raise NotFinite(
            f"block {block.name!r} has NaN or infinite values; the local training diverged: lower "
            "its learning rate"
        )
    factor = block.scale * (block.clip / norm if norm > block.clip else 1.0)
    for start in range(0, len(values), _BLOCK):
        stop = min(start + _BLOCK, len(values))
        # floor(x + u) with u uniform on [0, 1) rounds without bias.
        steps = rng.random(stop - start)
        steps += values[start:stop].astype(np.float64) * factor
        np.floor(steps, out=steps)
        if noise is not None:
            steps += noise[start:stop]
        largest = max(float(steps.max()), -float(steps.min()))
        if largest > block.bound:
            raise ValueOutOfRange(
                f"block {block.name!r}: an encoded value of {largest:.0f} steps passes the bound "
                f"of {block.bound}; nothing is sent"
            )
        out[start:stop] = steps


def signed_sum(total: Words, config: SecAggConfig, *, clients: int) -> dict[str, NDArray[np.int32]]:
    """The integer sum of each block, as views without a copy.

    Raises VectorInvalid, or ValueOutOfRange when a value is larger than `clients` honest ones can
    give: masks did not cancel or a client left the range.
    """
    require_words(total, length=config.length)
    # Fewer than the minimum may survive; what matters here is that their sum cannot have wrapped.
    config.check_cohort(max(clients, config.min_cohort))
    sums: dict[str, NDArray[np.int32]] = {}
    for block, place in config.slices():
        steps = total[place].view(np.int32)
        limit = clients * block.bound
        if int(steps.max()) > limit or int(steps.min()) < -limit:
            raise ValueOutOfRange(
                f"block {block.name!r}: the sum of {clients} clients passes {limit} steps; a "
                "client sent values outside its bound, the sum is discarded"
            )
        sums[block.name] = steps
    return sums


def decode(
    steps: NDArray[np.int32] | NDArray[np.int64],
    block: Block,
    *,
    dtype: DTypeLike = np.float32,
) -> NDArray[np.floating]:
    """The real-valued sum of a block from its (noised) integer sum."""
    values = np.empty(len(steps), dtype=dtype)
    for start in range(0, len(steps), _BLOCK):
        part = steps[start : start + _BLOCK].astype(np.float64)
        values[start : start + _BLOCK] = part / block.scale
    return values
