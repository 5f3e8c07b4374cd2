"""Which parameters are the head, and which are attention: by name, from the model itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regionfed.bench.population import Population
from regionfed.errors import ModelError


def head_mask(population: Population) -> NDArray[np.bool_]:
    """(d,) bool: the output head, as `FederatedModel.head` names it.

    The output layer where it has weights of its own (RoBERTa, CNN, untied language models); for
    tied embeddings, as in T5, the decoder's last block. Raises `ModelError` where the model names
    none, or where the head is all that is trained.
    """
    head = population.model.head
    mask = population.flat.layout.mask(lambda name: bool(head) and name.startswith(head))
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


def attention_mask(population: Population) -> NDArray[np.bool_]:
    """(d,) bool: attention weights (names with 'attention'), or the head where there are none."""
    mask = population.flat.layout.mask(lambda name: "attention" in name.lower())
    return mask if mask.any() else head_mask(population)
