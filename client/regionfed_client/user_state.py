"""The device's own durable state: what it serves, theta_u, alpha_u. Nothing of it is sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from regionfed.errors import StateError
from regionfed.messages import Vector
from regionfed.method.compose import compose
from regionfed.method.user import UserCalibration
from regionfed.run.checkpoint import CheckpointStore
from regionfed.run.files import write_atomically
from regionfed_client.device import device_folder
from regionfed_client.runtime import ClientRuntime


@dataclass(frozen=True)
class UserPart:
    """What the device serves: regional + alpha*theta_u, all flat float32 of length d.

    `theta_u` is None on a device without the user level, and `alpha` 0 where theta_u did not beat
    the regional model on the device's own rows. `layout` is the model's agreement digest.
    """

    round: int
    regional: Vector
    theta_u: Vector | None
    alpha: float
    buffers: Vector | None
    layout: str

    def model(self) -> Vector:
        """The composed vector of the user's model."""
        if self.theta_u is None or self.alpha == 0:
            return self.regional
        return compose(self.regional, user=self.theta_u, alpha_user=self.alpha)


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
        return cls(device_folder(runtime, purpose="the user's part"))

    def save(self, part: UserPart, calibration: UserCalibration | None = None) -> None:
        """Make the part durable; a crash leaves the earlier one."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A folder that was made by others may be open to them.
        self.folder.chmod(0o700)
        arrays = {"regional": part.regional}
        if part.theta_u is not None:
            arrays["theta_u"] = part.theta_u
        if part.buffers is not None:
            arrays["buffers"] = part.buffers
        CheckpointStore(self.folder, keep=1).save(
            part.round, arrays, {"alpha": part.alpha, "layout": part.layout}
        )
        if calibration is not None:
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
                f"there is no model in {self.folder}: take part in a run with "
                "client.user.enabled = true, or client.keep_model = true, first"
            )
        try:
            return UserPart(
                round=found.round,
                regional=found.arrays["regional"],
                theta_u=found.arrays.get("theta_u"),
                alpha=float(found.meta["alpha"]),
                buffers=found.arrays.get("buffers"),
                layout=str(found.meta["layout"]),
            )
        except KeyError as error:
            raise StateError(
                f"the model in {self.folder} lacks {error}: it was not written by this version; "
                "take part in a run again"
            ) from None

    def load_round(self, round: int) -> UserPart:
        """The part of that round.

        Raises:
            StateError: there is none, it is of another round, or it is damaged.
        """
        part = self.load()
        if part.round != round:
            raise StateError(
                f"the model in {self.folder} is of round {part.round}, not of round {round}: this "
                "device was not there when its own part was to be trained"
            )
        return part

    def calibration(self) -> UserCalibration:
        """What the device knows of its own conflicts."""
        path = self.folder / "calibration.json"
        if not path.exists():
            return UserCalibration()
        try:
            found = json.loads(path.read_text())
        except ValueError as error:
            raise StateError(f"{path} is damaged ({error}); remove it to calibrate anew") from None
        return UserCalibration.from_dict(found)
