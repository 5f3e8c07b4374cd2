"""Where the parts of a status come from: the run's folder, this machine, daemons, SuperLinks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from regionfed.bridge.api import BridgeStatus
from regionfed.bridge.client import BridgeTls, GrpcBridge
from regionfed.config.federation import FederationConfig
from regionfed.errors import RegionFedError, StateError
from regionfed.flower.adapter import Control, NodeFacts, RunState
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent
from regionfed.run.records import PrivacyRecord, RoundRecord
from regionfed.run.result import Result
from regionfed_server.watch import FILE, read_progress

ASK_SECONDS = 5.0


@dataclass(frozen=True)
class Places:
    """Whom to ask. Daemons and SuperLinks by tier; an absent one is not asked.

    `controls` has the key `global` or a region's name; `ca` verifies them, None is without TLS.
    """

    folder: Path | None = None
    daemons: Mapping[str, str] = field(default_factory=dict)
    controls: Mapping[str, str] = field(default_factory=dict)
    tls: BridgeTls | None = None
    ca: Path | None = None


@dataclass(frozen=True)
class Answer:
    """What one SuperLink says, or why it says nothing."""

    runs: tuple[RunState, ...] = ()
    nodes: tuple[NodeFacts, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class FolderFacts:
    """What the run's folder says. `age` is seconds since the run last wrote to it."""

    config: FederationConfig
    events: tuple[ProgressEvent, ...]
    rounds: tuple[RoundRecord, ...]
    privacy: Mapping[str, PrivacyRecord]
    result: Result | None
    age: float | None


def read_folder(path: Path) -> FolderFacts:
    """Read a run's folder. Raises `StateError` where it is none, or damaged.

    A result that is older than the last progress belongs to an attempt before the present one.
    """
    folder = RunFolder.open(path)
    records = folder.metrics().read()
    written = [_written(folder.path / FILE), _written(folder.metrics_file)]
    newest = max(written)
    result = None
    if _written(folder.result_file) >= newest > 0:
        result = folder.read_result()
    return FolderFacts(
        config=folder.config(),
        events=tuple(read_progress(folder)),
        rounds=tuple(each for each in records if isinstance(each, RoundRecord)),
        privacy={each.region: each for each in records if isinstance(each, PrivacyRecord)},
        result=result,
        age=max(0.0, time.time() - newest) if newest else None,
    )


def read_plan(folder: Path) -> tuple[str, Places] | None:
    """The mark and the addresses that `regionfed up` noted; None where it did not run.

    Raises `StateError` for a file that is damaged.
    """
    path = folder / "processes" / "federation.json"
    try:
        noted = json.loads(path.read_text(encoding="utf-8"))
        places = Places(folder=folder, daemons=noted["daemons"], controls=noted["controls"])
        return str(noted["mark"]), places
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:
        raise StateError(f"{path} cannot be read: {error!r}") from error


def ask_daemon(address: str, tls: BridgeTls | None) -> BridgeStatus | str:
    """A daemon's status, or why there is none."""
    with closing(GrpcBridge(address, tls=tls, patience=0.0)) as bridge:
        return _answer(bridge.status)


def ask_superlink(address: str, ca: Path | None) -> Answer:
    """A SuperLink's runs and nodes, or why there are none."""
    try:
        with closing(Control(address, ca=ca)) as control:
            return Answer(runs=tuple(control.runs()), nodes=tuple(control.nodes()))
    except RegionFedError as error:
        return Answer(problem=str(error))


def _answer(ask: Callable[[], BridgeStatus]) -> BridgeStatus | str:
    try:
        return ask()
    except RegionFedError as error:
        return str(error)


def _written(path: Path) -> float:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0
