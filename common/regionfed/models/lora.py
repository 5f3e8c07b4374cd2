"""Low-rank adapters through peft: the base model freezes, the vector is the adapter."""

from __future__ import annotations

from typing import Any

from regionfed.errors import ModelError
from regionfed.models.config import LoraConfig
from regionfed.models.extras import require


def add_adapters(module: Any, config: LoraConfig) -> Any:
    """Put adapters into a transformers module, in place, and freeze everything else.

    Raises `ModelError` when peft is missing or no layer bears a name in `targets`.
    """
    peft = require("peft", extra="lora", needed_for="[model.lora]")
    wanted = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=list(config.targets) or None,
        bias="none",
    )
    try:
        adapted = peft.inject_adapter_in_model(wanted, module)
    except ValueError as error:
        linear = sorted(
            {name.rpartition(".")[2] for name, part in module.named_modules() if _is_linear(part)}
        )
        raise ModelError(
            f"model.lora.targets = {list(config.targets)} names no layer of this model "
            f"({str(error).splitlines()[0]}); its linear layers are {', '.join(linear)}"
        ) from error
    for name, parameter in adapted.named_parameters():
        parameter.requires_grad_("lora_" in name)
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return adapted


def _is_linear(part: Any) -> bool:
    return hasattr(part, "in_features") and hasattr(part, "out_features")
