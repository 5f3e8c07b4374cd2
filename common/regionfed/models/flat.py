"""The flat vector of a model, and the model's parameters as views of it.

Algorithm section 1: every trainable floating-point parameter once, in `named_parameters()` order,
float32, length d. Buffers are a second vector; integer buffers are never touched.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regionfed.errors import ModelError, UpdateError

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FlatLayout:
    """Where each tensor lies in a flat vector: entry i takes `offsets[i]` to `offsets[i+1]`.

    `offsets` has one entry more than `names`; the last one is `size`. `tied` groups all names of
    parameters that share storage, first name first.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    tied: tuple[tuple[str, ...], ...] = ()

    @property
    def size(self) -> int:
        """Length d of the vector."""
        return self.offsets[-1]

    @property
    def lengths(self) -> list[int]:
        """Number of elements of each tensor."""
        return [math.prod(shape) for shape in self.shapes]

    def digest(self) -> str:
        """64 hexadecimal digits that name this layout: equal exactly where names and shapes are."""
        text = "\n".join(
            f"{name} {','.join(map(str, shape))}"
            for name, shape in zip(self.names, self.shapes, strict=True)
        )
        return hashlib.sha256(text.encode()).hexdigest()

    def mask(self, chosen: Callable[[str], bool]) -> NDArray[np.bool_]:
        """(d,) bool: True on the elements of the parameters that `chosen` picks by name."""
        picks = np.fromiter((chosen(name) for name in self.names), dtype=bool)
        return np.repeat(picks, self.lengths)

    @staticmethod
    def of(module: nn.Module) -> FlatLayout:
        """The layout of a module's trainable parameters; works on the meta device too.

        Raises `ModelError` for a trainable parameter that is not float32, or when none is
        trainable.
        """
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        for name, parameter in named:
            if parameter.dtype != torch.float32:
                raise ModelError(
                    f"trainable parameter {name!r} is {parameter.dtype}, but the vector is "
                    "float32; load the model in float32, or freeze this parameter"
                )
        if not named:
            raise ModelError(
                "the model has no trainable parameter, so there is nothing to learn; set "
                "model.freeze = 'none', or leave a head unfrozen"
            )
        groups: dict[int, list[str]] = {}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            groups.setdefault(id(parameter), []).append(name)
        return _layout(
            [name for name, _ in named],
            [tuple(p.shape) for _, p in named],
            tied=tuple(tuple(group) for group in groups.values() if len(group) > 1),
        )


def _layout(
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    *,
    tied: tuple[tuple[str, ...], ...] = (),
) -> FlatLayout:
    offsets = [0]
    for shape in shapes:
        offsets.append(offsets[-1] + math.prod(shape))
    return FlatLayout(tuple(names), tuple(shapes), tuple(offsets), tied)


def buffers_of(module: nn.Module) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Floating-point buffers that are part of the model's state, and the names of all others.

    Constants that a module rebuilds from its configuration (not persistent) are left out.
    """
    kept = set(module.state_dict(keep_vars=True))
    floating: dict[str, Tensor] = {}
    others: list[str] = []
    for name, buffer in module.named_buffers():
        if name not in kept:
            continue
        if buffer.is_floating_point():
            floating[name] = buffer
        else:
            others.append(name)
    return floating, tuple(others)


def checked(vector: Vector, *, size: int, what: str) -> Vector:
    """The vector itself when it is (size,) float32 and finite; raises `UpdateError` otherwise."""
    if not isinstance(vector, np.ndarray) or vector.dtype != np.float32:
        given = vector.dtype if isinstance(vector, np.ndarray) else type(vector).__name__
        raise UpdateError(f"{what} is {given}, not float32; convert it before writing")
    if vector.shape != (size,):
        raise UpdateError(
            f"{what} has shape {vector.shape}, but this model's is ({size},); the sender runs "
            "another model configuration: give both the same [model] section"
        )
    # The sum in float64 is finite exactly when every float32 element is: no mask is allocated.
    with np.errstate(invalid="ignore"):
        total = float(np.sum(vector, dtype=np.float64))
    if not math.isfinite(total):
        bad = int(np.count_nonzero(~np.isfinite(vector)))
        raise UpdateError(
            f"{what} has {bad} of {size} elements that are not finite; training diverged at the "
            "sender: lower training.learning_rate or set training.clip_gradient"
        )
    return vector


class FlatModel:
    """A module whose trainable parameters are views of one flat tensor.

    Reading and writing the vector are single copies, an optimizer works on `weights` as on one
    parameter, and no second copy of the model exists. The module is moved to `device` first and
    must not be moved or cast afterwards.
    """

    def __init__(self, module: nn.Module, device: torch.device | None = None) -> None:
        """Take over a module's parameters. Raises `ModelError` as `FlatLayout.of` does."""
        self.device = device if device is not None else torch.device("cpu")
        self.module = module.to(self.device)
        self.layout = FlatLayout.of(module)
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        flat = torch.empty(self.layout.size, dtype=torch.float32, device=self.device)
        self.weights = nn.Parameter(flat)
        for parameter, view in zip(self._parameters, self._views(flat), strict=True):
            view.copy_(parameter.detach())
            parameter.data = view
        self._buffers, self.integer_buffers = buffers_of(module)
        self.buffer_layout = _layout(
            list(self._buffers), [tuple(b.shape) for b in self._buffers.values()]
        )

    def _views(self, flat: Tensor) -> list[Tensor]:
        pieces = torch.split(flat, self.layout.lengths)
        return [piece.view(shape) for piece, shape in zip(pieces, self.layout.shapes, strict=True)]

    def read(self, *, copy: bool = True) -> Vector:
        """The vector, (d,) float32. With `copy=False` on a CPU it shares the model's memory."""
        array: Vector = self.weights.detach().cpu().numpy()
        return array.copy() if copy and self.device.type == "cpu" else array

    def write(self, vector: Vector) -> None:
        """Set every trainable parameter.

        Raises `UpdateError`, before anything is changed, unless `vector` is (d,) float32 and
        finite.
        """
        checked(vector, size=self.layout.size, what="the model vector")
        with torch.no_grad():
            self.weights.copy_(self.to_device(vector))

    def read_buffers(self) -> Vector:
        """The floating-point buffers, (b,) float32; b may be 0."""
        if not self._buffers:
            return np.empty(0, dtype=np.float32)
        pieces = [b.detach().reshape(-1).float() for b in self._buffers.values()]
        array: Vector = torch.cat(pieces).cpu().numpy()
        return array

    def write_buffers(self, vector: Vector) -> None:
        """Set the floating-point buffers; raises `UpdateError` like `write`."""
        checked(vector, size=self.buffer_layout.size, what="the buffer vector")
        pieces = torch.split(self.to_device(vector), self.buffer_layout.lengths)
        with torch.no_grad():
            for buffer, piece in zip(self._buffers.values(), pieces, strict=True):
                buffer.copy_(piece.view(buffer.shape))

    def to_device(self, vector: Vector) -> Tensor:
        """A vector beside the weights; on a CPU it is copied only when it is read-only."""
        source = vector if vector.flags.writeable else vector.copy()
        return torch.from_numpy(source).to(self.device)

    def open_gradient(self) -> Tensor:
        """The flat gradient, zeroed, (d,): every parameter's `.grad` is a view of it."""
        if self.weights.grad is None:
            gradient = torch.zeros_like(self.weights)
            self.weights.grad = gradient
            for parameter, view in zip(self._parameters, self._views(gradient), strict=True):
                parameter.grad = view
            return gradient
        return self.weights.grad.zero_()

    def close_gradient(self) -> None:
        """Give the gradient's memory back."""
        self.weights.grad = None
        for parameter in self._parameters:
            parameter.grad = None
