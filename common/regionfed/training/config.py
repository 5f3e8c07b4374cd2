"""The `[training]` section of the federation file."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from regionfed.config.base import Section


class TrainingConfig(Section):
    """`[training]`: what a client does between receiving a model and sending its update.

    `epochs` or `steps` bounds the work; with both left out it is one epoch.
    """

    optimizer: Literal["sgd", "adam", "adamw"] = Field(default="adam", description="Made afresh.")
    learning_rate: float = Field(default=3e-3, gt=0, description="Step size on the client.")
    momentum: float = Field(default=0.0, ge=0, lt=1, description="'sgd' only.")
    weight_decay: float = Field(default=0.0, ge=0, description="As the optimizer defines it.")
    batch_size: int = Field(default=16, ge=1, description="Rows per forward pass.")
    epochs: int | None = Field(default=None, ge=1, description="Passes over the client's rows.")
    steps: int | None = Field(default=None, ge=1, description="Optimizer steps.")
    accumulation: int = Field(default=1, ge=1, description="Batches per optimizer step.")
    clip_gradient: float | None = Field(
        default=None, gt=0, description="Largest L2 norm of a step's gradient; no privacy meaning."
    )
    precision: Literal["fp32", "bf16", "fp16", "auto"] = Field(
        default="fp32",
        description="Mixed precision of forward passes; 'auto': where the hardware has it.",
    )
    device: Literal["cpu", "cuda", "auto"] = Field(
        default="cpu", description="'auto' takes a GPU if there is one; the choice is logged."
    )
    memory_fraction: float = Field(
        default=1.0, gt=0, le=1, description="Share of the GPU's memory that a process may take."
    )
    threads: int = Field(
        default=1,
        ge=1,
        description="CPU threads per process; 1 gives equal results in every process layout.",
    )
    evaluation_batch_size: int = Field(default=64, ge=1, description="Rows per evaluation pass.")

    @model_validator(mode="after")
    def _one_measure_of_work(self) -> Self:
        if self.epochs is not None and self.steps is not None:
            raise ValueError(
                f"epochs = {self.epochs} and steps = {self.steps} are both given; "
                "remove one of them"
            )
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(
                f"momentum = {self.momentum} is only read with optimizer = 'sgd', but "
                f"optimizer = {self.optimizer!r}; set optimizer = 'sgd' or remove momentum"
            )
        return self
