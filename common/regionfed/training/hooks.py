"""What methods add to a local step, as flat vectors: a few terms are enough for all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regionfed.models.flat import FlatModel, Vector, checked


@dataclass(frozen=True, slots=True)
class StepHooks:
    """Additions to the gradient g of a step at weights w; all of them optional.

    `correction` (d,) is added to g (SCAFFOLD: c - c_i). `proximal` lambda adds lambda*(w - anchor)
    (FedProx, pFedMe, Ditto); `anchor` is (d,), or None for the weights at the start. `trained`
    (d,) bool leaves the other elements exactly as they were (FedBABU, FedTP). With `observe` the
    mean of g itself over the steps, before anything is added, comes back in the result.
    """

    correction: Vector | None = None
    proximal: float = 0.0
    anchor: Vector | None = None
    trained: NDArray[np.bool_] | None = None
    observe: bool = False


class StepTerms:
    """Hooks on the model's device, applied to its flat gradient in place."""

    def __init__(self, hooks: StepHooks, flat: FlatModel) -> None:
        """Raises `UpdateError` for a vector that does not fit the model."""
        size = flat.layout.size
        self._correction: Tensor | None = None
        self._anchor: Tensor | None = None
        self._fixed: Tensor | None = None
        self._start: Tensor | None = None
        self._proximal = hooks.proximal
        self._seen: Tensor | None = None
        self._steps = 0
        if hooks.observe:
            self._seen = torch.zeros(size, dtype=torch.float32, device=flat.device)
        if hooks.correction is not None:
            self._correction = flat.to_device(
                checked(hooks.correction, size=size, what="the gradient correction")
            )
        if hooks.proximal:
            self._anchor = (
                flat.weights.detach().clone()
                if hooks.anchor is None
                else flat.to_device(checked(hooks.anchor, size=size, what="the proximal anchor"))
            )
        if hooks.trained is not None:
            self._fixed = torch.from_numpy(~hooks.trained).to(flat.device)
            self._start = flat.weights.detach().clone()

    def before_step(self, gradient: Tensor, weights: Tensor) -> None:
        """Change the gradient."""
        if self._seen is not None:
            self._seen += gradient
            self._steps += 1
        if self._correction is not None:
            gradient += self._correction
        if self._anchor is not None:
            gradient += self._proximal * (weights - self._anchor)
        if self._fixed is not None:
            gradient.masked_fill_(self._fixed, 0.0)

    def mean_gradient(self) -> Vector | None:
        """The mean of g over the steps so far, (d,); None unless `observe` is set."""
        if self._seen is None or not self._steps:
            return None
        mean: Vector = (self._seen / self._steps).cpu().numpy()
        return mean

    def after_step(self, weights: Tensor) -> None:
        """Undo what weight decay did to elements that are not trained."""
        if self._fixed is not None and self._start is not None:
            torch.where(self._fixed, self._start, weights, out=weights)
