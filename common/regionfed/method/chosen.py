"""The parts of the method with the parameters that the configuration gives them."""

from __future__ import annotations

from regionfed.config.server import ServerConfig
from regionfed.method.config import MethodConfig
from regionfed.method.router import PaperRouter, ResidualRouter, Router
from regionfed.method.server_opt import Adam, Momentum, ServerOptimizer, Sgd
from regionfed.method.strategies import (
    Grad,
    Interp,
    Meta,
    NoPersonalisation,
    Residual,
    Strategy,
)


def optimizer_of(server: ServerConfig) -> ServerOptimizer:
    """The global server's step."""
    if server.optimizer == "momentum":
        return Momentum(eta=server.learning_rate, beta=server.momentum)
    if server.optimizer == "adam":
        return Adam(
            eta=server.learning_rate,
            beta1=server.momentum,
            beta2=server.beta2,
            epsilon=server.epsilon,
        )
    return Sgd(eta=server.learning_rate)


def strategy_named(name: str, method: MethodConfig, *, eta_res: float | None = None) -> Strategy:
    """A strategy by name; `eta_res` is Residual's step of this round, absent: its first."""
    residual = method.residual
    made: dict[str, Strategy] = {
        "none": NoPersonalisation(),
        "grad": Grad(),
        "interp": Interp(),
        "meta": Meta(steps=method.meta.steps),
        "residual": Residual(
            eta_res=residual.learning_rate if eta_res is None else eta_res, decay=residual.decay
        ),
    }
    return made[name]


def router_of(strategy: str, method: MethodConfig) -> Router | None:
    """The router of a Dynamic strategy, or None where one strategy holds for all."""
    paper = PaperRouter(
        tau_d=method.dynamic.conflict,
        tau_h=method.dynamic.divergence,
        size_ratio=method.dynamic.size_ratio,
        cooldown=method.dynamic.cooldown,
    )
    if strategy == "dynamic-paper":
        return paper
    return ResidualRouter(fallback=paper) if strategy == "dynamic" else None
