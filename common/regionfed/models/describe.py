"""What a model weighs, without allocating it (for planning)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regionfed.models.build import Vocabulary, assemble
from regionfed.models.config import ModelConfig
from regionfed.models.flat import FlatLayout, buffers_of
from regionfed.tasks.spec import TaskSpec


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """Sizes of a model. `parameters` is d, the length of the vector that travels.

    `frozen` counts parameters outside the vector and `frozen_bytes` what they take in memory;
    `buffers` counts the floating-point buffer values averaged beside the vector.
    """

    kind: str
    parameters: int
    vector_bytes: int
    tensors: int
    frozen: int
    frozen_bytes: int
    buffers: int
    integer_buffers: tuple[str, ...]
    tied: tuple[tuple[str, ...], ...]
    layout_digest: str


def describe(
    config: ModelConfig, *, tasks: Sequence[TaskSpec], vocabulary: Vocabulary = ()
) -> ModelSummary:
    """Sizes of the configured model, computed on the meta device: nothing is allocated.

    A factory is called as it is, on the meta device where it leaves the choice to torch. Raises
    `ModelError` as `build_model` does.
    """
    with torch.device("meta"):
        model = assemble(config, tasks=tasks, vocabulary=vocabulary, weights=False)
    module = model.module
    layout = FlatLayout.of(module)
    frozen = [p for p in module.parameters() if not p.requires_grad]
    floating, integers = buffers_of(module)
    frozen_count = sum(p.numel() for p in frozen)
    half = config.frozen_precision == "bf16" and config.lora is not None
    return ModelSummary(
        kind=config.kind,
        parameters=layout.size,
        vector_bytes=4 * layout.size,
        tensors=len(layout.names),
        frozen=frozen_count,
        frozen_bytes=frozen_count * (2 if half else 4),
        buffers=sum(b.numel() for b in floating.values()),
        integer_buffers=integers,
        tied=layout.tied,
        layout_digest=layout.digest(),
    )
