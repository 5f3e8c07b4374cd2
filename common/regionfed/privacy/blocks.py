"""From a quantity's shape and noise to its block in the summed vector."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regionfed.privacy.mechanisms import rounded_clip_norm
from regionfed.privacy.skellam import share_variance, skellam_charged_multiplier
from regionfed.secagg.config import Block

_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Shape:
    """`length` values per client, clipped to norm `clip`, at `scale` steps per unit."""

    length: int
    clip: float
    scale: float


def noised_block(name: str, shape: Shape, *, multiplier: float) -> Block:
    """A block to whose sum the coordinator adds noise; `multiplier` is what the ledger is charged.

    Relative to the exact sensitivity, rounding included.
    """
    effective = rounded_clip_norm(shape.clip, dimension=shape.length, scale=shape.scale)
    noise = multiplier * effective / shape.clip
    return Block(name, shape.length, shape.clip, shape.scale, noise_multiplier=noise)


def skellam_block(name: str, shape: Shape, *, multiplier: float, minimum_honest: int) -> Block:
    """A block to which each device adds a share of noise (mode client-strict)."""
    variance = share_variance(
        noise_multiplier=_skellam_multiplier(multiplier, shape),
        clip_norm=shape.clip,
        scale=shape.scale,
        minimum_honest=minimum_honest,
    )
    return Block(name, shape.length, shape.clip, shape.scale, device_noise_std=math.sqrt(variance))


def plain_blocks(
    name: str, *, dimension: int, buffers: int, scale: float, cohort: int
) -> tuple[Block, ...]:
    """Mode off under masks: nothing is clipped; the clip is the range that cannot wrap."""
    clip = math.floor(_LARGEST / max(cohort, 3) - 2) / scale
    update = Block(name, dimension, clip, scale)
    if not buffers:
        return (update,)
    return (update, Block("buffers", buffers, clip, scale))


def _skellam_multiplier(sigma: float, shape: Shape) -> float:
    """The multiplier of Skellam noise whose charge is that of a Gaussian one of `sigma`."""
    multiplier = sigma
    for _ in range(50):
        charged = skellam_charged_multiplier(
            multiplier, clip_norm=shape.clip, dimension=shape.length, scale=shape.scale
        )
        multiplier *= sigma / charged
    return multiplier * (1.0 + 1e-12)
