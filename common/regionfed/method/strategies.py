"""The personalisation strategies: what each needs from the clients and what it makes of it.

A strategy declares its needs, so that whoever drives a round branches on needs, never on names.
One method, `displacement`, answers what is added to theta_{t+1} at rho = 1: a fresh direction v_r
that the rho search then scales (theta_r = rho*v_r), or, for a stateful strategy, the new theta_r.

Signs are those of algorithm section 2: updates and client answers are gradient-like (one
descends by subtracting), displacements are added. All vectors are flat, float32, length d.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from regionfed.errors import ConfigError, UpdateError
from regionfed.method.vectors import Vector, check_vector, combine

# Every round trains (1) and evaluates (1); what a strategy asks for rides on the second.
BASE_EXCHANGES = 2


class ClientWork(StrEnum):
    """What a region's clients compute for a strategy in the exchange after theta_{t+1} is known."""

    NONE = "none"
    LOCAL_TRAINING = "local-training"
    """E local epochs from theta_{t+1}; the answer is start minus end."""
    LOOKAHEAD_GRADIENT = "lookahead-gradient"
    """K gradient steps from theta_{t+1}; the answer is the mean of the K gradients."""


@dataclass(frozen=True)
class Needs:
    """What the driver of a round must provide for a strategy.

    `work` and `steps` (epochs E or gradient steps K) describe the clients' part. `searches_rho`:
    the displacement is a direction whose length is searched; otherwise rho is 1 and is only
    checked against 0. `stateful`: the displacement is theta_r, to be kept and handed back next
    round, and the region's clients start the next round at theta + theta_r. `scales_with_alpha`:
    alpha_r multiplies the displacement. `personalises` is false only for FedAvg.
    """

    work: ClientWork = ClientWork.NONE
    steps: int = 0
    searches_rho: bool = False
    stateful: bool = False
    scales_with_alpha: bool = True
    personalises: bool = True


@dataclass(frozen=True)
class RegionView:
    """What a strategy sees of one region in one round.

    `region_update` is g_r and `global_update` g, both as released. `client_answer` is the mean
    over the region's clients of the work the strategy asked for. `state` is last round's theta_r
    of the same strategy, None at its start.
    """

    region_update: Vector
    global_update: Vector
    client_answer: Vector | None = None
    state: Vector | None = None


class Strategy(ABC):
    """One way to personalise a region. Instances are immutable; state travels in `RegionView`."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def needs(self) -> Needs:
        """Declare what the driver must provide."""

    @abstractmethod
    def displacement(self, view: RegionView) -> Vector | None:
        """Return what is added to theta_{t+1} at rho = 1, or None where nothing ever is.

        Raises `UpdateError` when a vector is missing, of another length or not finite.
        """


@dataclass(frozen=True)
class NoPersonalisation(Strategy):
    """FedAvg: the region is served theta."""

    name: ClassVar[str] = "none"

    @property
    def needs(self) -> Needs:
        return Needs(personalises=False)

    def displacement(self, view: RegionView) -> Vector | None:
        return None


@dataclass(frozen=True)
class Grad(Strategy):
    """v = g - g_r (algorithm section 3.6). With rho = eta and alpha = 1: the region's own step."""

    name: ClassVar[str] = "grad"

    @property
    def needs(self) -> Needs:
        return Needs(searches_rho=True)

    def displacement(self, view: RegionView) -> Vector | None:
        _check_updates(view)
        return combine(view.global_update, view.region_update, scale_b=-1.0)


@dataclass(frozen=True)
class Interp(Strategy):
    """v = theta_r_local - theta_{t+1} after E local epochs (algorithm section 3.6).

    The clients answer with start minus end, so v is minus their mean.
    """

    epochs: int = 1
    name: ClassVar[str] = "interp"

    def __post_init__(self) -> None:
        _check_count("epochs", self.epochs)

    @property
    def needs(self) -> Needs:
        return Needs(work=ClientWork.LOCAL_TRAINING, steps=self.epochs, searches_rho=True)

    def displacement(self, view: RegionView) -> Vector | None:
        return np.negative(_answer(view, name=self.name))


@dataclass(frozen=True)
class Meta(Strategy):
    """v = -grad L_r at the looked-ahead model theta_{t+1} (algorithm section 3.6).

    With K > 1 steps the clients answer with the mean of the K gradients along their path, which
    keeps v, and so the range of rho, of the same scale for every K.
    """

    steps: int = 1
    name: ClassVar[str] = "meta"

    def __post_init__(self) -> None:
        _check_count("steps", self.steps)

    @property
    def needs(self) -> Needs:
        return Needs(work=ClientWork.LOOKAHEAD_GRADIENT, steps=self.steps, searches_rho=True)

    def displacement(self, view: RegionView) -> Vector | None:
        return np.negative(_answer(view, name=self.name))


@dataclass(frozen=True)
class Residual(Strategy):
    """theta_r <- (1 - decay)*theta_r - eta_res*(g_r - g) (algorithm section 3.9).

    g_r comes from clients that started at theta_t + theta_r. A state is only worth keeping while
    that holds: once the region trains at plain theta again, start over from None.
    """

    eta_res: float = 0.35
    decay: float = 0.0
    scale_with_alpha: bool = False
    name: ClassVar[str] = "residual"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.eta_res) and self.eta_res > 0):
            raise ConfigError(f"eta_res = {self.eta_res}: must be positive and finite")
        if not 0 <= self.decay < 1:
            raise ConfigError(f"decay = {self.decay}: must lie in [0, 1)")

    @property
    def needs(self) -> Needs:
        return Needs(stateful=True, scales_with_alpha=self.scale_with_alpha)

    def displacement(self, view: RegionView) -> Vector | None:
        _check_updates(view)
        moved = combine(
            view.global_update, view.region_update, scale_a=self.eta_res, scale_b=-self.eta_res
        )
        if view.state is None:
            return moved
        check_vector(view.state, name="theta_r", size=moved.size)
        return combine(view.state, moved, scale_a=1.0 - self.decay, out=moved)


STRATEGIES: Mapping[str, Callable[[], Strategy]] = MappingProxyType(
    {
        NoPersonalisation.name: NoPersonalisation,
        Grad.name: Grad,
        Interp.name: Interp,
        Meta.name: Meta,
        Residual.name: Residual,
    }
)
"""Every strategy by name, with its defaults."""


def exchanges(needs: Needs, *, personalised: bool = True, search_exchanges: int = 1) -> int:
    """Client exchanges of one round: 2 for FedAvg, Residual and Grad, 3 for Interp and Meta.

    Training is one exchange and evaluation another. A search over g-derived directions starts in
    the evaluation; where the clients have to work first, their answer travels with the evaluation
    and the search follows. `search_exchanges` is what the rho search takes
    (`rho.exchanges_needed`); a round that does not personalise takes the base.

    Raises `ConfigError` for a search of no exchange.
    """
    _check_count("search_exchanges", search_exchanges)
    if not personalised or not needs.searches_rho:
        return BASE_EXCHANGES
    carried = 1 if needs.work is ClientWork.NONE else 0
    return BASE_EXCHANGES + search_exchanges - carried


def _check_updates(view: RegionView) -> None:
    check_vector(view.global_update, name="global update")
    check_vector(view.region_update, name="regional update", size=view.global_update.size)


def _answer(view: RegionView, *, name: str) -> Vector:
    if view.client_answer is None:
        raise UpdateError(f"{name} needs its clients' answer and got none: ask them first")
    return check_vector(
        view.client_answer, name=f"clients' answer for {name}", size=view.region_update.size
    )


def _check_count(name: str, value: int) -> None:
    if value < 1:
        raise ConfigError(f"{name} = {value}: must be at least 1")
