"""Which parameters methods with a personal head (FedBABU) call the head."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from regionfed.errors import ModelError
from regionfed.models.base import FederatedModel
from regionfed.models.flat import FlatLayout


def head_of(module: Any) -> tuple[str, ...]:
    """Beginnings of the names of a language model's head.

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


def head_mask(model: FederatedModel, layout: FlatLayout) -> NDArray[np.bool_]:
    """(d,) bool: the output head, as `FederatedModel.head` names it.

    The output layer where it has weights of its own (RoBERTa, CNN, untied language models); for
    tied embeddings, as in T5, the decoder's last block. Raises `ModelError` where the model names
    none, or where the head is all that is trained.
    """
    head = model.head
    mask = layout.mask(lambda name: bool(head) and name.startswith(head))
    if not mask.any():
        raise ModelError(
            "this model does not say which of its parameters are the head "
            "(FederatedModel.head), which FedBABU needs; leave the system out"
        )
    if mask.all():
        raise ModelError(
            "only the head of this model is trained, so FedBABU has no body to federate; set "
            "model.freeze = 'none' or leave the system out"
        )
    return mask
