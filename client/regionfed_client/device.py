"""The folder in which a device keeps what it must remember: counters, round secrets, its part."""

from __future__ import annotations

import os
from pathlib import Path

from regionfed.errors import ConfigError
from regionfed_client.runtime import ClientRuntime

STATE_VARIABLE = "REGIONFED_CLIENT_STATE"
RUN_VARIABLE = "REGIONFED_RUN_DIR"


def device_folder(runtime: ClientRuntime, *, purpose: str) -> Path:
    """This client's own folder, made for its user only where it is absent.

    Raises:
        ConfigError: no folder is configured; says what `purpose` needs it.
    """
    given = runtime.config.client.state or os.environ.get(STATE_VARIABLE)
    run = os.environ.get(RUN_VARIABLE)
    if given:
        folder = Path(given) / runtime.region / runtime.client
    elif run:
        folder = Path(run) / "clients" / runtime.region / runtime.client
    else:
        raise ConfigError(
            f"{purpose} needs a folder on this device: set `state` in [client] or the "
            f"environment variable {STATE_VARIABLE}"
        )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
