"""`[client]`: what stays on the device."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from regionfed.config.base import Section


class UserModelConfig(Section):
    """The user's own part theta_u (algorithm section 3, item 8); it never leaves the device."""

    enabled: bool = Field(default=False, description="Train theta_u after the last round.")
    steps: int = Field(default=30, ge=1, description="Local steps from the regional model.")
    learning_rate: float = Field(default=1e-3, gt=0, description="Step size on the device.")
    memory_mb: int = Field(
        default=1024, ge=16, description="Largest theta_u that is stored, in MiB."
    )


class ClientConfig(Section):
    """The client tier."""

    state: Path | None = Field(
        default=None,
        description="Folder of the device's own state; default: REGIONFED_CLIENT_STATE, "
        "or `clients/REGION/CLIENT` in the run folder.",
    )
    keep_model: bool = Field(
        default=False,
        description="Without the user level too, store the served model on the device at every "
        "evaluation, so that `regionfed-client` can answer from it.",
    )
    user: UserModelConfig = UserModelConfig()
