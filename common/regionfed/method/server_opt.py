"""What the global server does with the mean update: SGD, momentum or Adam (section 3.3).

An optimiser is a frozen set of numbers; all that changes is in `ServerState`, an explicit bundle
of arrays that a checkpoint can hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from regionfed.errors import ConfigError, StateError
from regionfed.method.vectors import Vector, blocks, check_vector, combine


@dataclass(frozen=True)
class ServerState:
    """Steps taken so far and the moments, each of length d, float32, or None where unused."""

    step: int = 0
    first: Vector | None = None
    second: Vector | None = None


class ServerOptimizer(Protocol):
    """Turns (theta_t, g, state) into (theta_{t+1}, new state) without touching its arguments."""

    @property
    def sends_update(self) -> bool:
        """Whether regions need g sent: they cannot derive it from consecutive thetas."""
        ...

    def step(self, theta: Vector, update: Vector, state: ServerState) -> tuple[Vector, ServerState]:
        """Apply the mean update g of length d. Raises `UpdateError`, `StateError`."""
        ...


@dataclass(frozen=True)
class Sgd:
    """theta - eta*g: with eta = 1 and pseudo-gradients this is FedAvg."""

    eta: float = 1.0

    def __post_init__(self) -> None:
        _check_rate(self.eta)

    @property
    def sends_update(self) -> bool:
        return False

    def step(self, theta: Vector, update: Vector, state: ServerState) -> tuple[Vector, ServerState]:
        _check_pair(theta, update)
        moved = combine(theta, update, scale_b=-self.eta)
        return moved, ServerState(step=state.step + 1)


@dataclass(frozen=True)
class Momentum:
    """m <- beta*m + g; theta - eta*m."""

    eta: float = 1.0
    beta: float = 0.9

    def __post_init__(self) -> None:
        _check_rate(self.eta)
        _check_beta("beta", self.beta)

    @property
    def sends_update(self) -> bool:
        return True

    def step(self, theta: Vector, update: Vector, state: ServerState) -> tuple[Vector, ServerState]:
        _check_pair(theta, update)
        moment = combine(
            _moment(state.first, like=theta, name="momentum"), update, scale_a=self.beta
        )
        moved = combine(theta, moment, scale_b=-self.eta)
        return moved, ServerState(step=state.step + 1, first=moment)


@dataclass(frozen=True)
class Adam:
    """Adam with bias correction; `epsilon` is added to the root, in update units."""

    eta: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-3

    def __post_init__(self) -> None:
        _check_rate(self.eta)
        _check_beta("beta1", self.beta1)
        _check_beta("beta2", self.beta2)
        if not self.epsilon > 0:
            raise ConfigError(f"epsilon = {self.epsilon}: must be > 0")

    @property
    def sends_update(self) -> bool:
        return True

    def step(self, theta: Vector, update: Vector, state: ServerState) -> tuple[Vector, ServerState]:
        _check_pair(theta, update)
        first = _moment(state.first, like=theta, name="first moment").copy()
        second = _moment(state.second, like=theta, name="second moment").copy()
        moved = np.empty_like(theta)
        count = state.step + 1
        unbias1, unbias2 = 1 - self.beta1**count, 1 - self.beta2**count
        for part in blocks(theta.size):
            g = update[part].astype(np.float64)
            m = self.beta1 * first[part].astype(np.float64) + (1 - self.beta1) * g
            v = self.beta2 * second[part].astype(np.float64) + (1 - self.beta2) * g * g
            moved[part] = theta[part] - self.eta * (m / unbias1) / (
                np.sqrt(v / unbias2) + self.epsilon
            )
            first[part], second[part] = m, v
        return moved, ServerState(step=count, first=first, second=second)


def derive_mean_update(theta_prev: Vector, theta_next: Vector, *, eta: float) -> Vector:
    """g = (theta_t - theta_{t+1}) / eta, what SGD applied; no extra model need travel.

    Exact up to the rounding of theta: each entry is off by at most about 6e-8*|theta_i|/eta.
    Valid for `Sgd` only. Raises `ConfigError` for eta <= 0, `UpdateError` for unequal vectors.
    """
    _check_rate(eta)
    _check_pair(theta_prev, theta_next)
    return combine(theta_prev, theta_next, scale_a=1.0 / eta, scale_b=-1.0 / eta)


def _moment(moment: Vector | None, *, like: Vector, name: str) -> Vector:
    if moment is None:
        return np.zeros_like(like)
    if moment.shape != like.shape:
        raise StateError(
            f"{name} has {moment.size} entries, the model {like.size}: the optimiser's state "
            "belongs to another model; start without it or restore the right checkpoint"
        )
    return moment


def _check_pair(theta: Vector, other: Vector) -> None:
    check_vector(theta, name="theta")
    check_vector(other, name="update", size=theta.size)


def _check_rate(eta: float) -> None:
    if not (math.isfinite(eta) and eta > 0):
        raise ConfigError(f"eta = {eta}: the server learning rate must be positive and finite")


def _check_beta(name: str, beta: float) -> None:
    if not 0 <= beta < 1:
        raise ConfigError(f"{name} = {beta}: must lie in [0, 1)")
