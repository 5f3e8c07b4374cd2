"""Sizes that the presets stand for."""

from __future__ import annotations

from dataclasses import dataclass

from regionfed.errors import ModelError
from regionfed.models.config import ModelConfig, Preset


@dataclass(frozen=True, slots=True)
class Sizes:
    """Layers per stack, width, heads, width of a head, and of the feed-forward layer."""

    layers: int
    d_model: int
    heads: int
    d_kv: int
    d_ff: int


# 't5-small' and 't5-3b': Raffel et al., "Exploring the Limits of Transfer Learning with a Unified
# Text-to-Text Transformer" (2020), section 3.1.2 and 3.7.
_PRESETS: dict[Preset, Sizes] = {
    "tiny": Sizes(layers=1, d_model=32, heads=2, d_kv=16, d_ff=64),
    "small": Sizes(layers=2, d_model=128, heads=4, d_kv=32, d_ff=512),
    "t5-small": Sizes(layers=6, d_model=512, heads=8, d_kv=64, d_ff=2048),
    "t5-3b": Sizes(layers=24, d_model=1024, heads=32, d_kv=128, d_ff=16384),
}


def sizes_of(config: ModelConfig) -> Sizes:
    """The preset's sizes with the configuration's own on top.

    Raises `ModelError` where the width of a RoBERTa is not a multiple of its heads.
    """
    base = _PRESETS[config.preset]
    d_model = config.d_model or base.d_model
    heads = config.heads or base.heads
    own_shape = config.d_model is not None or config.heads is not None
    sizes = Sizes(
        layers=config.layers or base.layers,
        d_model=d_model,
        heads=heads,
        d_kv=config.d_kv or (max(1, d_model // heads) if own_shape else base.d_kv),
        d_ff=config.d_ff or base.d_ff,
    )
    if config.kind == "roberta" and sizes.d_model % sizes.heads:
        raise ModelError(
            f"model.d_model = {sizes.d_model} is not a multiple of model.heads = {sizes.heads}; "
            "choose a width that the heads divide"
        )
    return sizes
