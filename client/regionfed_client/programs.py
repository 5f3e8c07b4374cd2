"""The model as a program without Python: ONNX, or ExecuTorch for phones."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regionfed.config.federation import FederationConfig
from regionfed.errors import ModelError
from regionfed.models.base import FederatedModel
from regionfed.models.cnn import CnnModel
from regionfed.models.encoder import EncoderModel, HeadedEncoder
from regionfed.models.extras import require
from regionfed.models.letters import WIDEST
from regionfed.models.padding import attention, causal
from regionfed.models.seq2seq import Seq2SeqModel
from regionfed.models.wordwise import WordwiseModel, WordwiseT5
from regionfed.run.files import write_atomically

ONNX_FILE = "model.onnx"
EXECUTORCH_FILE = "model.pte"

_Axes = dict[int, Any]


class _Images(nn.Module):
    """images (rows, height, width) uint8 to scores over all labels."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.inner(images)
        return scores


class _Encoder(nn.Module):
    """Token ids, their mask and the words' first places to class and tag scores."""

    inner: HeadedEncoder

    def __init__(self, model: EncoderModel) -> None:
        super().__init__()
        self.inner = copy.deepcopy(model.module)
        self.classes = bool(model.classes.size)
        self.tags = bool(model.tags.size)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, words: Tensor) -> Any:
        pooled, by_word = self.inner.features(input_ids, attention_mask, words)
        out = []
        if self.classes:
            out.append(self.inner.classifiers(pooled))
        if self.tags:
            out.append(self.inner.taggers(by_word))
        return tuple(out)


class _Seq2Seq(nn.Module):
    """One step of greedy decoding: the ids so far to scores of the next ones, without a cache."""

    inner: Any

    def __init__(self, model: Seq2SeqModel) -> None:
        super().__init__()
        self.inner = copy.deepcopy(model.module)
        # The exporter cannot take fused attention apart while lengths are free.
        self.inner.set_attn_implementation("eager")

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, decoder_input_ids: Tensor
    ) -> Tensor:
        rows, width = decoder_input_ids.shape
        later = causal(width, device=decoder_input_ids.device)
        scores: Tensor = self.inner(
            input_ids=input_ids,
            attention_mask=attention(attention_mask),
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=later.expand(rows, 1, width, width),
            use_cache=False,
        ).logits
        return scores


class _Wordwise(nn.Module):
    """Letter groups of the words to encode and to read, and the task, to scores of the answers."""

    inner: WordwiseT5

    def __init__(self, model: WordwiseModel) -> None:
        super().__init__()
        self.inner = copy.deepcopy(model.module)
        self.inner.core.set_attn_implementation("eager")

    def forward(self, inputs: Tensor, attention_mask: Tensor, read: Tensor, task: Tensor) -> Tensor:
        scores: Tensor = self.inner(inputs, attention_mask, read, task)
        return scores


@dataclass(frozen=True)
class Program:
    """A module to be traced, an example of its inputs, and the names around it."""

    module: nn.Module
    inputs: Mapping[str, Tensor]
    outputs: tuple[str, ...]
    axes: Mapping[str, _Axes]


def program_of(model: FederatedModel, config: FederationConfig, *, full: bool = False) -> Program:
    """The model as one function of tensors, its example inputs small.

    With `full` they are one row of the greatest lengths: what a program of fixed sizes needs,
    whose callers pad. Raises ModelError for other architectures.
    """
    dim = torch.export.Dim
    rows = dim("rows", min=1, max=4096)
    if isinstance(model, CnnModel):
        side = model.image_size
        return Program(
            _Images(copy.deepcopy(model.module)).eval(),
            {"images": torch.zeros(1 if full else 2, side, side, dtype=torch.uint8)},
            ("scores",),
            {"images": {0: rows}},
        )
    longest, answer = config.model.max_input_length, config.model.max_target_length

    def example(small: int, most: int) -> Tensor:
        return torch.zeros((1, most) if full else (2, min(small, most)), dtype=torch.int64)

    ids = example(8, longest)
    mask = torch.ones(ids.shape, dtype=torch.bool)
    tokens = dim("tokens", min=1, max=longest)
    text: dict[str, Tensor] = {"input_ids": ids, "attention_mask": mask}
    axes: dict[str, _Axes] = {name: {0: rows, 1: tokens} for name in text}
    if isinstance(model, EncoderModel):
        outputs = [
            *(["class_scores"] if model.classes.size else []),
            *(["tag_scores"] if model.tags.size else []),
        ]
        return Program(
            _Encoder(model).eval(),
            {**text, "words": example(3, longest)},
            tuple(outputs),
            {**axes, "words": {0: rows, 1: dim("words", min=1, max=longest)}},
        )
    if isinstance(model, Seq2SeqModel):
        target = dim("answer", min=1, max=answer)
        return Program(
            _Seq2Seq(model).eval(),
            {**text, "decoder_input_ids": example(4, answer)},
            ("logits",),
            {**axes, "decoder_input_ids": {0: rows, 1: target}},
        )
    if isinstance(model, WordwiseModel):
        read = example(4, answer)
        return Program(
            _Wordwise(model).eval(),
            {
                "inputs": _bags(ids),
                "attention_mask": mask,
                "read": _bags(read),
                "task": torch.zeros(len(ids), dtype=torch.int64),
            },
            ("scores",),
            {
                "inputs": axes["input_ids"],
                "attention_mask": axes["attention_mask"],
                "read": {0: rows, 1: dim("answer", min=1, max=answer)},
                "task": {0: rows},
            },
        )
    raise ModelError(
        f"{type(model).__name__} cannot be written as a program here; export it with --format "
        "transformers, where other tools take it from"
    )


def _bags(ids: Tensor) -> Tensor:
    return torch.zeros(*ids.shape, WIDEST, dtype=torch.int32)


def write_onnx(model: FederatedModel, config: FederationConfig, folder: Path) -> None:
    """Write `model.onnx`, with rows and lengths free.

    Raises ModelError when onnx or onnxscript is missing or the architecture cannot be traced.
    """
    for package in ("onnx", "onnxscript"):
        require(package, extra="export", needed_for="--format onnx")
    program = program_of(model, config)
    chatter = io.StringIO()
    try:
        with redirect_stdout(chatter), redirect_stderr(chatter), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                program.module,
                kwargs=dict(program.inputs),
                f=folder / ONNX_FILE,
                input_names=list(program.inputs),
                output_names=list(program.outputs),
                dynamic_shapes=dict(program.axes),
                dynamo=True,
                external_data=False,
            )
    except (RuntimeError, ValueError, torch.onnx.errors.OnnxExporterError) as error:
        raise ModelError(
            f"{type(model).__name__} cannot be traced to ONNX by the installed torch "
            f"{torch.__version__}: {_first_line(error)}"
        ) from error


def write_executorch(model: FederatedModel, config: FederationConfig, folder: Path) -> None:
    """Write `model.pte` with portable kernels: one row of the greatest lengths, to be padded.

    Raises ModelError when the package executorch is missing or refuses the architecture.
    """
    exir = require("executorch.exir", extra="executorch", needed_for="--format executorch")
    program = program_of(model, config, full=True)
    try:
        traced = torch.export.export(
            program.module, args=(), kwargs=dict(program.inputs), strict=False
        )
        built = exir.to_edge(traced).to_executorch()
    except Exception as error:
        # Its compiler has errors of many kinds, none of which a user could act on otherwise.
        raise ModelError(
            f"executorch does not take {type(model).__name__}: {_first_line(error)}"
        ) from error
    write_atomically(folder / EXECUTORCH_FILE, bytes(built.buffer))


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
