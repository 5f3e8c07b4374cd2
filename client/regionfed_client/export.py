"""The composed model as a folder for other programs: transformers, ONNX, ExecuTorch."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from regionfed.errors import ConfigError, ModelError, StateError
from regionfed.models.base import FederatedModel
from regionfed.models.causal import CausalModel
from regionfed.models.encoder import EncoderModel
from regionfed.models.letters import GROUPS, NO_GROUP, WIDEST
from regionfed.models.seq2seq import Seq2SeqModel
from regionfed.models.tokens import PretrainedTokenizer, TextTokenizer, WordTokenizer
from regionfed.models.wordwise import WordwiseModel, mark
from regionfed.run.files import write_atomically
from regionfed_client.served import ServedModel
from regionfed_client.words_export import save_word_tokenizer

FORMATS = ("transformers", "onnx", "executorch")
FACTS = "regionfed.json"
ANSWERS = "answers.txt"
_LETTERS = {"groups": GROUPS, "filling": NO_GROUP, "most": WIDEST}
HEADS = "heads.safetensors"


def export_model(device: ServedModel, folder: Path, *, form: str) -> list[Path]:
    """Write the composed model into a new or empty folder; the files, in name order.

    Raises:
        ConfigError: an unknown format.
        StateError: the folder holds something.
        ModelError: the architecture has no such form, or a package for it is missing.
    """
    if form not in FORMATS:
        raise ConfigError(f"--format {form}: allowed are {', '.join(FORMATS)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StateError(f"{folder} is not an empty folder; export into a new one")
    model = device.bench.model
    if form == "transformers":
        _check_has_transformers_form(model)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if form == "transformers":
        _write_transformers(model, folder)
    else:
        from regionfed_client.programs import write_executorch, write_onnx

        (write_onnx if form == "onnx" else write_executorch)(model, device.config, folder)
    if isinstance(model, WordwiseModel):
        lines = "".join(f"{answer}\n" for answer in model.answers)
        write_atomically(folder / ANSWERS, lines.encode())
    write_atomically(
        folder / FACTS, json.dumps(facts(device), indent=2, ensure_ascii=False).encode() + b"\n"
    )
    return sorted(path for path in folder.rglob("*") if path.is_file())


def facts(device: ServedModel) -> dict[str, Any]:
    """What a program needs to know beside the weights: tasks, prompts, limits."""
    config = device.config.model
    model = device.bench.model
    tasks = []
    for task in device.bench.data.tasks:
        entry: dict[str, Any] = {
            "name": task.name,
            "kind": task.kind.value,
            "labels": list(task.labels),
        }
        if isinstance(model, WordwiseModel):
            entry |= {"mark": mark(task), "answers": list(model.spans[task.name])}
        else:
            entry["prompt"] = f"{task.prefix.strip() or task.name + ':'} "
        if isinstance(model, Seq2SeqModel) and task.kind.value == "tagging":
            ids = model.tokenizer.tag_ids(task.labels)
            # Where tags have ids, an answer is one of them per word, with no end mark.
            entry["tag_ids"] = None if ids is None else list(ids)
            # The decoder then reads the first id of each word instead of the tag before it.
            entry["reads_words"] = ids is not None and model.aligned
        tasks.append(entry)
    return {
        "round": device.part.round,
        "region": device.place.region,
        "client": device.place.client,
        "user_part": device.part.theta_u is not None and device.part.alpha > 0,
        "model": config.kind,
        "max_input_length": config.max_input_length,
        "max_target_length": config.max_target_length,
        "tasks": tasks,
        **({"letters": _LETTERS} if isinstance(model, WordwiseModel) else {}),
    }


def _check_has_transformers_form(model: FederatedModel) -> None:
    if not isinstance(model, Seq2SeqModel | CausalModel | EncoderModel):
        raise ModelError(
            f"{type(model).__name__} is no architecture of transformers, so there is no such "
            "folder of it; use --format onnx"
        )


def _write_transformers(model: FederatedModel, folder: Path) -> None:
    """Weights, configuration and tokenizer; for an encoder the heads beside it."""
    if isinstance(model, EncoderModel):
        _merged(model.module.encoder).save_pretrained(folder)
        save_file(_heads(model), folder / HEADS)
        _save_tokenizer(model.tokenizer, folder)
        return
    assert isinstance(model, Seq2SeqModel | CausalModel)
    _merged(model.module).save_pretrained(folder)
    _save_tokenizer(model.tokenizer, folder)


def _merged(module: Any) -> Any:
    """The module with adapters folded in, on a copy: the device's own model stays as it is."""
    if not hasattr(module, "merge_and_unload"):
        return _detached(module)
    return _detached(module).merge_and_unload()


def _detached(module: nn.Module) -> Any:
    """A copy whose tensors own their memory, as files of tensors need; ties are kept."""
    return copy.deepcopy(module).cpu()


def _heads(model: EncoderModel) -> Mapping[str, torch.Tensor]:
    """`TASK.weight` and `TASK.bias` of each task's linear head."""
    named: dict[str, torch.Tensor] = {}
    for space, heads in (
        (model.classes, model.module.classifiers),
        (model.tags, model.module.taggers),
    ):
        for task, head in zip(space.tasks, heads.by_task, strict=True):
            for kind, tensor in head.state_dict().items():
                named[f"{task.name}.{kind}"] = tensor.detach().clone().cpu()
    return named


def _save_tokenizer(tokenizer: TextTokenizer, folder: Path) -> None:
    if isinstance(tokenizer, WordTokenizer):
        save_word_tokenizer(tokenizer, folder)
        return
    assert isinstance(tokenizer, PretrainedTokenizer)
    tokenizer.inner.save_pretrained(folder)
