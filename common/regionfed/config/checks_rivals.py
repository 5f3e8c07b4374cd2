"""Checks of the rivals in `method.strategy`: what a promise or another section rules out."""

from __future__ import annotations

from collections.abc import Iterator

from regionfed.config.federation import FederationConfig
from regionfed.config.problem import Problem
from regionfed.method.rivals import ON_DEVICES, RIVALS

_KEY = "method.strategy"


def rival_problems(config: FederationConfig) -> Iterator[Problem]:
    """Everything about a configured rival that cannot work, or would break a promise."""
    name, section = config.method.strategy, config.privacy
    if name not in RIVALS:
        return
    if name in ON_DEVICES and config.client.user.enabled:
        yield Problem(
            "client.user.enabled",
            f"client.user.enabled = true trains theta_u, and with {_KEY} = '{name}' the device "
            "serves that system's own model in its place; set enabled = false",
        )
    if section.example_level:
        yield Problem(
            _KEY,
            f"{_KEY} = '{name}' changes the clients' local steps or trains beside them, and "
            "privacy.example_level = true makes these steps DP-SGD's; set strategy = 'none' "
            "(FedAvg), or example_level = false",
        )
    if name == "scaffold":
        yield from _scaffold(config)


def _scaffold(config: FederationConfig) -> Iterator[Problem]:
    section = config.privacy
    if section.mode != "off":
        yield Problem(
            _KEY,
            f"{_KEY} = 'scaffold' sends the change of each client's control variate beside its "
            f"update: a second release without noise, which privacy.mode = '{section.mode}' does "
            "not cover; set strategy = 'fedprox' or 'none', or mode = 'off'",
        )
    elif section.secure_aggregation.enabled:
        yield Problem(
            _KEY,
            f"{_KEY} = 'scaffold' sends the change of each client's control variate in the open, "
            "next to updates that secure aggregation hides; set strategy = 'fedprox' or 'none', "
            "or secure_aggregation.enabled = false",
        )
