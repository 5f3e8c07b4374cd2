"""The global checkpoint of each round: arrays in safetensors, the rest in a manifest.

`round-000012-SHA.safetensors` is written first and `round-000012.json` is renamed last; the
manifest is the commit point, so a kill during a save leaves the previous checkpoint usable.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from regionfed.errors import StateError
from regionfed.run.files import commit, sync, write_atomically

FORMAT = 1

logger = logging.getLogger(__name__)

_MANIFEST = re.compile(r"round-(\d{6,})\.json")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """State after `round` rounds: named arrays and JSON-like facts about them."""

    round: int
    arrays: dict[str, NDArray[Any]]
    meta: dict[str, Any]


class CheckpointStore:
    """Keeps the newest `keep` checkpoints of one run in one folder."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self.folder = folder
        self.keep = keep

    def save(self, round: int, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Path:
        """Make round `round` durable, then remove what is older than `keep`; the manifest's path.

        `arrays` are for example the flat model, its buffers and the server optimiser's state;
        `meta` must be JSON-like, for example the digests of configuration and layout.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        aside = self.folder / f".round-{round:06d}.{os.getpid()}.part"
        try:
            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, aside)
            sync(aside)
            digest = _sha256(aside)
            data = self.folder / f"round-{round:06d}-{digest[:12]}.safetensors"
            commit(aside, data)
        finally:
            aside.unlink(missing_ok=True)
        manifest = {
            "format": FORMAT,
            "round": round,
            "file": data.name,
            "sha256": digest,
            "bytes": data.stat().st_size,
            "arrays": {
                name: {"shape": list(array.shape), "dtype": str(array.dtype)}
                for name, array in arrays.items()
            },
            "meta": dict(meta),
        }
        path = self._manifest(round)
        write_atomically(path, json.dumps(manifest, indent=2, allow_nan=False).encode() + b"\n")
        self._prune()
        return path

    def drop(self, rounds: Iterable[int]) -> None:
        """Remove the checkpoints of these rounds, as far as they are there."""
        for round in rounds:
            self._manifest(round).unlink(missing_ok=True)
        self._prune()

    def rounds(self) -> list[int]:
        """Rounds with a manifest, ascending; whether the arrays are whole shows on loading."""
        if not self.folder.is_dir():
            return []
        found = (_MANIFEST.fullmatch(entry.name) for entry in self.folder.iterdir())
        return sorted(int(match.group(1)) for match in found if match)

    def load(self, round: int) -> Checkpoint:
        """The checkpoint of one round. Raises StateError naming the file and what is wrong."""
        path = self._manifest(round)
        try:
            manifest = json.loads(path.read_bytes())
            file, digest, meta = manifest["file"], manifest["sha256"], manifest["meta"]
            known = manifest["format"]
        except FileNotFoundError:
            raise StateError(f"there is no checkpoint {path}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(f"checkpoint manifest {path} is damaged: {error!r}") from None
        if known != FORMAT:
            raise StateError(f"checkpoint {path} has format {known}; this version reads {FORMAT}")
        if Path(file).name != file:
            raise StateError(f"checkpoint manifest {path} names a file outside its folder: {file}")
        data = self.folder / file
        if not data.is_file():
            raise StateError(f"checkpoint {path} names {file}, which is missing")
        if _sha256(data) != digest:
            raise StateError(f"checkpoint {data} does not have the SHA-256 of its manifest")
        try:
            arrays = load_file(data)
        except (SafetensorError, ValueError) as error:
            raise StateError(f"checkpoint {data} cannot be read: {error}") from None
        return Checkpoint(round=round, arrays=arrays, meta=meta)

    def load_latest(self) -> Checkpoint | None:
        """The newest usable checkpoint, or None when none was ever made.

        A damaged one is passed over with a warning that names it. Raises StateError when all are
        damaged, because starting again in silence would throw the run away.
        """
        damaged: list[str] = []
        for round in reversed(self.rounds()):
            try:
                return self.load(round)
            except StateError as error:
                logger.warning("checkpoint of round %d is passed over: %s", round, error)
                damaged.append(str(error))
        if damaged:
            raise StateError(
                f"no checkpoint in {self.folder} is usable: {'; '.join(damaged)}. Restore one from "
                "a copy, or start a new run in another folder"
            )
        return None

    def _manifest(self, round: int) -> Path:
        return self.folder / f"round-{round:06d}.json"

    def _prune(self) -> None:
        """Remove old manifests first, then every data file that no manifest needs."""
        rounds = self.rounds()
        for round in rounds[: -self.keep]:
            self._manifest(round).unlink(missing_ok=True)
        kept: set[str] = set()
        for round in rounds[-self.keep :]:
            try:
                kept.add(json.loads(self._manifest(round).read_bytes())["file"])
            except (OSError, ValueError, KeyError, TypeError):
                # A manifest that cannot be read is reported on loading; its data stays.
                kept.update(entry.name for entry in self.folder.glob(f"round-{round:06d}-*"))
        for entry in self.folder.glob("round-*.safetensors"):
            if entry.name not in kept:
                entry.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
