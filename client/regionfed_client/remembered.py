"""A vector that the device keeps from round to round of one run: Ditto's v_i, SCAFFOLD's c_i.

It is kept by round, a few rounds back, because a round may be asked twice and a server may go back
to an earlier checkpoint. Nothing here is sent.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from regionfed.messages import Vector
from regionfed.run.checkpoint import CheckpointStore
from regionfed_client.device import device_folder
from regionfed_client.runtime import ClientRuntime


@dataclass(frozen=True)
class Remembered:
    """One kind of vector of one client in one run; flat float32 of length d."""

    store: CheckpointStore
    run: str
    back: int
    """Rounds that a server may go back to, and one more."""

    @classmethod
    def of(cls, runtime: ClientRuntime, what: str, *, run: str) -> Remembered:
        """The vectors called `what`.

        Raises:
            ConfigError: no folder is configured.
        """
        back = runtime.config.run.keep_checkpoints + 1
        folder = device_folder(runtime, purpose=what) / what
        # Those of an abandoned course of the run come on top, until they are written over.
        return cls(CheckpointStore(folder, keep=3 * back), run, back)

    def at(self, round: int) -> Vector | None:
        """The vector of exactly that round, or None."""
        if round not in self.store.rounds():
            return None
        found = self.store.load(round)
        return found.arrays["vector"] if found.meta.get("run") == self.run else None

    def before(self, round: int) -> Vector | None:
        """The newest vector of an earlier round, or None."""
        earlier = [known for known in self.store.rounds() if known < round]
        return self.at(earlier[-1]) if earlier else None

    def save(self, round: int, vector: Vector, *, known: int) -> None:
        """Make the vector of `round` durable, and forget what no order can ask for any more.

        That is what lies between `known`, the round that this one went on from, and `round`, and
        all but the newest few up to `known`. A crash leaves the earlier vectors; those of another run
        go.

        Raises:
            StateError: the newest vector is damaged.
        """
        latest = self.store.rounds()[-1:]
        if latest and self.store.load(latest[0]).meta.get("run") != self.run:
            shutil.rmtree(self.store.folder)
        self.store.folder.mkdir(mode=0o700, exist_ok=True)
        self.store.save(round, {"vector": vector}, {"run": self.run})
        older = [each for each in self.store.rounds() if each <= known]
        stale = [each for each in self.store.rounds() if known < each < round]
        self.store.drop([*older[: -self.back], *stale])
