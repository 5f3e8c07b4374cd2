"""The device's own durable state: theta_u, alpha_u and its calibration. Nothing of it is sent."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regionfed.errors import ConfigError, StateError
from regionfed.messages import Vector
from regionfed.method.user import UserCalibration
from regionfed.run.checkpoint import CheckpointStore
from regionfed.run.files import write_atomically
from regionfed_client.runtime import ClientRuntime

STATE_VARIABLE = "REGIONFED_CLIENT_STATE"
RUN_VARIABLE = "REGIONFED_RUN_DIR"


@dataclass(frozen=True)
class UserPart:
    """What the device serves: regional + alpha*theta_u, all flat float32 of length d."""

    round: int
    regional: Vector
    theta_u: Vector
    alpha: float
    buffers: Vector | None

    def model(self) -> Vector:
        """The composed vector of the user's model."""
        served: Vector = self.regional + np.float32(self.alpha) * self.theta_u
        return served


class UserStore:
    """A folder on the device, private to its user (mode 0700)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, runtime: ClientRuntime) -> UserStore:
        """The store of one client.

        Raises:
            ConfigError: no folder is configured.
        """
        given = runtime.config.client.state or os.environ.get(STATE_VARIABLE)
        if given:
            return cls(Path(given) / runtime.region / runtime.client)
        run = os.environ.get(RUN_VARIABLE)
        if run:
            return cls(Path(run) / "clients" / runtime.region / runtime.client)
        raise ConfigError(
            "the user's part needs a folder on this device: set `state` in [client] or the "
            f"environment variable {STATE_VARIABLE}"
        )

    def save(self, part: UserPart, calibration: UserCalibration) -> None:
        """Make the part durable; a crash leaves the earlier one."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        arrays = {"regional": part.regional, "theta_u": part.theta_u}
        if part.buffers is not None:
            arrays["buffers"] = part.buffers
        CheckpointStore(self.folder, keep=1).save(part.round, arrays, {"alpha": part.alpha})
        write_atomically(
            self.folder / "calibration.json", json.dumps(calibration.to_dict()).encode()
        )

    def load(self) -> UserPart:
        """The newest part.

        Raises:
            StateError: there is none yet, or it is damaged.
        """
        found = CheckpointStore(self.folder, keep=1).load_latest()
        if found is None:
            raise StateError(
                f"there is no user model in {self.folder}: take part in a run with "
                "client.user.enabled = true first"
            )
        return UserPart(
            round=found.round,
            regional=found.arrays["regional"],
            theta_u=found.arrays["theta_u"],
            alpha=float(found.meta["alpha"]),
            buffers=found.arrays.get("buffers"),
        )

    def calibration(self) -> UserCalibration:
        """What the device knows of its own conflicts."""
        path = self.folder / "calibration.json"
        if not path.exists():
            return UserCalibration()
        return UserCalibration.from_dict(json.loads(path.read_text()))
