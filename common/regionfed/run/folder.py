"""The folder of one run, made or reopened without ever destroying an earlier run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from regionfed.config.federation import FederationConfig
from regionfed.config.load import load_config
from regionfed.config.write import write_resolved
from regionfed.errors import StateError
from regionfed.run.checkpoint import CheckpointStore
from regionfed.run.metrics import MetricsLog
from regionfed.run.result import Result, read_result, write_result

FREE_TO_CHANGE = (
    "run.name",
    "run.rounds",
    "run.evaluate_every",
    "run.output",
    "run.keep_checkpoints",
    "network",
    "client.state",
    "data.root",
    "server.round_deadline",
    "server.join_deadline",
    "server.max_failed_rounds",
    "coordinator.round_deadline",
    "coordinator.join_deadline",
    "training.device",
    "training.threads",
    "training.memory_fraction",
    "training.evaluation_batch_size",
)
"""Keys that may differ when a run is resumed; any other would make it a different run."""


class RunFolder:
    """Where each file of a run lies.

    `federation.toml` (resolved configuration), `result.json`, `metrics.jsonl`, `report.html`,
    `checkpoints/`, `logs/`, `regions/REGION/` and `clients/REGION/CLIENT/`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(
        cls,
        config: FederationConfig,
        *,
        out: Path | None = None,
        resume: bool = False,
        now: datetime | None = None,
    ) -> RunFolder:
        """Make a new folder, or reopen `out` when `resume` says so.

        Without `out` the folder is `OUTPUT/NAME-YYYYmmdd-HHMMSS` (UTC), with a number behind it
        when that is taken. Raises StateError when `out` holds anything else than this very run,
        naming what it holds or which keys differ.
        """
        if out is None:
            if resume:
                raise StateError("to resume a run, say which: --resume --out DIR")
            folder = cls(_new_name(config, now or datetime.now(UTC)))
        else:
            folder = cls(out)
            if resume:
                folder._check_same_run(config)
            else:
                folder._check_empty()
        for path in (folder.checkpoint_folder, folder.logs, folder.regions):
            path.mkdir(parents=True, exist_ok=True)
        write_resolved(config, folder.config_file)
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run's folder. Raises StateError when `path` is none."""
        folder = cls(path)
        if not path.is_dir():
            raise StateError(f"{path} is not a folder; give the folder of a run")
        if not folder.config_file.is_file():
            raise StateError(f"{path} is not a run's folder: it has no federation.toml")
        return folder

    @property
    def config_file(self) -> Path:
        """Resolved configuration, loadable again."""
        return self.path / "federation.toml"

    @property
    def result_file(self) -> Path:
        """What the run came to."""
        return self.path / "result.json"

    @property
    def metrics_file(self) -> Path:
        """One JSON record per line."""
        return self.path / "metrics.jsonl"

    @property
    def report_file(self) -> Path:
        """The report, one file that stands alone."""
        return self.path / "report.html"

    @property
    def checkpoint_folder(self) -> Path:
        """Global checkpoints."""
        return self.path / "checkpoints"

    @property
    def logs(self) -> Path:
        """One log per process."""
        return self.path / "logs"

    @property
    def regions(self) -> Path:
        """One folder of state and exports per region."""
        return self.path / "regions"

    def region(self, name: str) -> Path:
        """Folder of one region, made when it is absent."""
        path = self.regions / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def clients(self) -> Path:
        """The clients' own state, where they run on this machine, as REGION/CLIENT folders."""
        return self.path / "clients"

    def client(self, region: str, client: str) -> Path:
        """Folder of one client's own state, made when it is absent, for its user only."""
        path = self.clients / region / client
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        return path

    def checkpoints(self, keep: int) -> CheckpointStore:
        """The store of global checkpoints."""
        return CheckpointStore(self.checkpoint_folder, keep=keep)

    def metrics(self) -> MetricsLog:
        """The log of what was measured."""
        return MetricsLog(self.metrics_file)

    def config(self) -> FederationConfig:
        """The resolved configuration, without environment overrides."""
        return load_config(self.config_file, environ={})

    def write_result(self, result: Result) -> None:
        """Write `result.json` atomically."""
        write_result(result, self.result_file)

    def read_result(self) -> Result:
        """Read `result.json`. Raises StateError when it is missing or damaged."""
        return read_result(self.result_file)

    def _check_empty(self) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise StateError(f"--out {self.path} is a file; give a folder that is new or empty")
        held = sorted(entry.name for entry in self.path.iterdir())
        if not held:
            return
        if self.config_file.is_file():
            raise StateError(
                f"--out {self.path} holds an earlier run; add --resume to continue it, or give "
                "another folder"
            )
        raise StateError(
            f"--out {self.path} is not empty (it holds {', '.join(held[:3])}"
            f"{', ...' if len(held) > 3 else ''}); give a folder that is new or empty"
        )

    def _check_same_run(self, config: FederationConfig) -> None:
        if not self.config_file.is_file():
            raise StateError(
                f"there is no run to resume in {self.path}: it has no federation.toml; leave "
                "--resume away to start one there"
            )
        earlier = dict(_flat(self.config()))
        now = dict(_flat(config))
        changed = [
            f"{key} was {_shown(earlier.get(key))}, is {_shown(now.get(key))}"
            for key in sorted(earlier.keys() | now.keys())
            if earlier.get(key) != now.get(key)
            and not any(key == free or key.startswith(free + ".") for free in FREE_TO_CHANGE)
        ]
        if changed:
            raise StateError(
                f"the run in {self.path} has another configuration: {'; '.join(changed[:5])}"
                f"{f' and {len(changed) - 5} more' if len(changed) > 5 else ''}. Resume it with "
                f"its own {self.config_file}, or start a new run in another folder"
            )


def _new_name(config: FederationConfig, now: datetime) -> Path:
    stem = f"{config.run.name}-{now:%Y%m%d-%H%M%S}"
    config.run.output.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = config.run.output / (stem if number == 1 else f"{stem}-{number}")
        try:
            # Making it is the claim: two runs started in the same second never share a folder.
            path.mkdir()
        except FileExistsError:
            number += 1
            continue
        return path


def _flat(config: FederationConfig) -> Iterator[tuple[str, Any]]:
    """Dotted key and JSON value of every leaf."""

    def walk(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                yield from walk(inner, f"{prefix}.{key}" if prefix else key)
        else:
            yield prefix, value

    yield from walk(config.model_dump(mode="json"), "")


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value)
