"""The `[model]` section of the federation file."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from regionfed.config.base import Section

ModelKind = Literal["t5", "roberta", "cnn", "hub", "minilm", "factory"]
Preset = Literal["tiny", "small", "t5-small", "t5-3b"]


class LoraConfig(Section):
    """`[model.lora]`: train low-rank adapters only; the vector is then the adapter.

    Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021); algorithm
    section 1.
    """

    rank: int = Field(default=8, ge=1, description="Rank of each adapter.")
    alpha: float = Field(default=16.0, gt=0, description="Scale; the adapter acts with alpha/rank.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout before the adapter.")
    targets: tuple[str, ...] = Field(
        default=(),
        description="Names of the linear layers to adapt; empty: the attention's query and value.",
    )


class ModelConfig(Section):
    """`[model]`: which architecture, how large, and how text becomes tokens.

    Size fields left out come from `preset`; a given size field overrides the preset's.
    """

    kind: ModelKind = Field(default="t5", description="Architecture or origin of the model.")
    preset: Preset = Field(default="small", description="Sizes of 't5' and 'roberta'.")

    layers: int | None = Field(default=None, ge=1, description="Layers per stack.")
    d_model: int | None = Field(default=None, ge=4, description="Width.")
    heads: int | None = Field(default=None, ge=1, description="Attention heads.")
    d_kv: int | None = Field(default=None, ge=1, description="Width of a head; 't5' only.")
    d_ff: int | None = Field(default=None, ge=4, description="Width of the feed-forward layer.")
    dropout: float | None = Field(
        default=None, ge=0, lt=1, description="Left out: 0, or the checkpoint's own for 'hub'."
    )

    tokenizer: str = Field(
        default="words",
        description="'words' (vocabulary of the data; other words are spelt in bytes), 'letters' "
        "(words are read by their letters and answered one by one; 't5' only), or a folder or hub "
        "name of a tokenizer.",
    )
    vocabulary_size: int = Field(
        default=8000,
        ge=16,
        description="Most words of the data's vocabulary that are kept: those that have an id of "
        "their own ('words'), or that a corrected text may be made of ('letters').",
    )
    max_input_length: int = Field(default=64, ge=4, description="Input tokens kept.")
    max_target_length: int = Field(default=32, ge=2, description="Answer tokens kept.")

    tagging: Literal["sequence", "aligned"] = Field(
        default="sequence",
        description="How a text-to-text model tags: one tag after the other, each told the last "
        "one ('sequence'), or each told the word that it is for ('aligned'), which a model from "
        "scratch learns from far fewer rows. With 'letters' it is always the latter.",
    )

    cnn: Literal["lenet", "resnet"] = Field(
        default="lenet", description="'resnet' has BatchNorm, so buffers are averaged too."
    )
    image_size: int = Field(default=28, ge=8, description="Height and width of images.")

    checkpoint: str = Field(default="", description="'hub': hub name or local folder.")
    revision: str | None = Field(default=None, description="'hub': commit or tag to pin.")
    objective: Literal["auto", "seq2seq", "causal", "classification"] = Field(
        default="auto", description="'hub': how the checkpoint is used; 'auto' reads its config."
    )
    offline: bool = Field(default=False, description="'hub': never ask the network.")

    factory: str = Field(
        default="", description="'factory': 'package.module:function' giving a FederatedModel."
    )

    freeze: Literal["none", "embeddings", "encoder"] = Field(
        default="none",
        description="What is not trained and stays outside the vector; 'encoder' leaves the head.",
    )
    cache_features: bool = Field(
        default=True,
        description="With a frozen encoder, compute its features once per row.",
    )
    frozen_precision: Literal["fp32", "bf16"] = Field(
        default="fp32", description="Storage of frozen weights (LoRA on large models: 'bf16')."
    )
    lora: LoraConfig | None = Field(default=None, description="Adapters instead of all weights.")

    @model_validator(mode="after")
    def _origin_is_named(self) -> Self:
        if self.kind == "hub" and not self.checkpoint:
            raise ValueError(
                "kind = 'hub' needs checkpoint = '<hub name or folder>', for example 't5-small'"
            )
        if self.kind != "hub" and self.checkpoint:
            raise ValueError(
                f"checkpoint = {self.checkpoint!r} is only read with kind = 'hub', "
                f"but kind = {self.kind!r}; set kind = 'hub' or remove checkpoint"
            )
        if self.tokenizer == "letters" and (self.kind != "t5" or self.lora is not None):
            given = f"kind = {self.kind!r}" if self.kind != "t5" else "[model.lora]"
            raise ValueError(
                f"tokenizer = 'letters' builds a small T5 from scratch and does not go with {given}"
                "; set kind = 't5' without [model.lora], or choose another tokenizer"
            )
        if self.kind == "factory":
            module, colon, function = self.factory.partition(":")
            if not (module and colon and function):
                raise ValueError(
                    f"factory = {self.factory!r} is not of the form 'package.module:function'"
                )
        elif self.factory:
            raise ValueError(
                f"factory = {self.factory!r} is only read with kind = 'factory', "
                f"but kind = {self.kind!r}; set kind = 'factory' or remove factory"
            )
        if self.lora is not None and self.kind in ("cnn", "factory"):
            raise ValueError(
                f"[model.lora] does not apply to kind = {self.kind!r}; allowed: 't5', 'roberta', "
                "'minilm', 'hub'. Remove [model.lora] or choose one of these"
            )
        if self.lora is not None and self.freeze != "none":
            raise ValueError(
                f"[model.lora] already freezes the base model; remove freeze = {self.freeze!r}"
            )
        return self
