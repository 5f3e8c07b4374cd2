"""The configuration of this process: set by the local engine, or read from the environment.

Flower starts an app in a process of its own and hands it nothing but scalars, so a deployed app
reads the file that `REGIONFED_CONFIG` names. Each site has its own copy; the digest of the agreed
sections travels with every order, and a difference is refused by name.
"""

from __future__ import annotations

import os
from pathlib import Path

from regionfed.config.federation import FederationConfig
from regionfed.config.load import load_config
from regionfed.errors import ConfigError

CONFIG_VARIABLE = "REGIONFED_CONFIG"

_current: FederationConfig | None = None


def set_current_config(config: FederationConfig | None) -> None:
    """Set the configuration of this process (the local engine), or forget it."""
    global _current
    _current = config


def current_config() -> FederationConfig:
    """The configuration of this process.

    Raises:
        ConfigError: none was set and `REGIONFED_CONFIG` names no readable file.
    """
    global _current
    if _current is None:
        path = os.environ.get(CONFIG_VARIABLE, "")
        if not path:
            raise ConfigError(
                f"no configuration: set the environment variable {CONFIG_VARIABLE} to the path of "
                "the federation file"
            )
        _current = load_config(Path(path))
    return _current


def require_same_digest(config: FederationConfig, digest: str, *, sender: str) -> None:
    """Refuse an order made under another configuration.

    Raises:
        ConfigError: naming both digests and the sections that must be equal.
    """
    own = config.digest()
    if digest != own:
        raise ConfigError(
            f"the configuration of {sender} (digest {digest}) differs from the one here ({own}): "
            "the sections model, training, method and privacy must be the same on all tiers"
        )
