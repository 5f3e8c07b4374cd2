"""Which parameters methods with a personal head (FedBABU) call the head of a language model."""

from __future__ import annotations

from typing import Any

from torch import nn


def head_of(module: Any) -> tuple[str, ...]:
    """Beginnings of the head's parameter names.

    The output layer where it has weights of its own; with tied embeddings, where it has none, the
    last block of the decoder (of the whole stack in a decoder-only model).
    """
    if any(name.startswith("lm_head.") for name, _ in module.named_parameters()):
        return ("lm_head.",)
    decoder = module.get_decoder()
    inside = next((name for name, part in module.named_modules() if part is decoder), "")
    for name, part in decoder.named_modules():
        if isinstance(part, nn.ModuleList) and len(part):
            return (".".join(filter(None, (inside, name, str(len(part) - 1)))) + ".",)
    return ()
