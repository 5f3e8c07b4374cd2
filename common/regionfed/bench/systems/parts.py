"""Which parameters are the head, and which are attention: by name, from the model itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regionfed.bench.population import Population
from regionfed.models.head import head_mask as head_of_vector


def head_mask(population: Population) -> NDArray[np.bool_]:
    """(d,) bool: the output head, by the rule of `regionfed.models.head`, which may refuse."""
    return head_of_vector(population.model, population.flat.layout)


def attention_mask(population: Population) -> NDArray[np.bool_]:
    """(d,) bool: attention weights (names with 'attention'), or the head where there are none."""
    mask = population.flat.layout.mask(lambda name: "attention" in name.lower())
    return mask if mask.any() else head_mask(population)
