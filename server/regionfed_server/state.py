"""What the global server keeps between rounds, and how it comes back after a restart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regionfed.errors import StateError
from regionfed.messages import Vector
from regionfed.method.server_opt import ServerState
from regionfed.run.checkpoint import Checkpoint, CheckpointStore


@dataclass(frozen=True)
class GlobalState:
    """The global model after `round` rounds. Vectors are flat float32 of length d.

    `shared` holds scalars derived from released values that go out with every order: mu, mean
    size, label counts, noise floors. `mean_update` is g~ of the last step, kept only where the
    optimiser is not SGD. `control` is SCAFFOLD's c, (d,).
    """

    run: str
    round: int
    theta: Vector
    optimizer: ServerState = field(default_factory=ServerState)
    buffers: Vector | None = None
    mean_update: Vector | None = None
    control: Vector | None = None
    shared: dict[str, Any] = field(default_factory=dict)

    def save(self, store: CheckpointStore, *, layout: str, digest: str) -> None:
        """Make this state durable as the checkpoint of its round."""
        arrays: dict[str, NDArray[Any]] = {"theta": self.theta}
        optional = {
            "buffers": self.buffers,
            "mean_update": self.mean_update,
            "control": self.control,
            "optimizer_first": self.optimizer.first,
            "optimizer_second": self.optimizer.second,
        }
        arrays |= {name: array for name, array in optional.items() if array is not None}
        meta = {
            "run": self.run,
            "layout": layout,
            "digest": digest,
            "optimizer_step": self.optimizer.step,
            "shared": self.shared,
        }
        store.save(self.round, arrays, meta)

    @classmethod
    def restore(cls, checkpoint: Checkpoint, *, layout: str, digest: str) -> GlobalState:
        """The state of a checkpoint.

        Raises:
            StateError: the checkpoint belongs to another model or configuration.
        """
        arrays, meta = checkpoint.arrays, checkpoint.meta
        for name, own in (("layout", layout), ("digest", digest)):
            if meta.get(name) != own:
                raise StateError(
                    f"the checkpoint of round {checkpoint.round} was made with another "
                    f"{'model' if name == 'layout' else 'configuration'} ({name} "
                    f"{meta.get(name)}, here {own}); resume with the run's own federation.toml or "
                    "start a new run in another folder"
                )
        return cls(
            run=str(meta["run"]),
            round=checkpoint.round,
            theta=np.ascontiguousarray(arrays["theta"], dtype=np.float32),
            optimizer=ServerState(
                step=int(meta["optimizer_step"]),
                first=arrays.get("optimizer_first"),
                second=arrays.get("optimizer_second"),
            ),
            buffers=arrays.get("buffers"),
            mean_update=arrays.get("mean_update"),
            control=arrays.get("control"),
            shared=dict(meta["shared"]),
        )
