"""One cell of a benchmark: a system under one setting and seed, from its start to its scores."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from regionfed.bench.federation import Federation
from regionfed.bench.population import open_population
from regionfed.bench.privacy import Promise, promise
from regionfed.bench.scoring import Split, score
from regionfed.bench.systems import SYSTEMS
from regionfed.bench.systems.base import System
from regionfed.bench.systems.regionfed import RegionFed
from regionfed.config.federation import FederationConfig
from regionfed.errors import StateError
from regionfed.run.files import write_atomically
from regionfed.run.scores import LevelScores, Record


class Job(Record):
    """What one cell is to compute; everything that decides its result is in it."""

    system: str = Field(description="Name of the system.")
    setting: str = Field(description="Name of the setting.")
    seed: int = Field(ge=0, description="Seed of data, model, selection and training.")
    split: Split = Field(default="test", description="Held-out rows that are scored.")
    curve_every: int = Field(default=0, ge=0, description="Score after every k-th round; 0: end.")
    options: dict[str, Any] = Field(default_factory=dict, description="The system's parameters.")
    config: FederationConfig = Field(description="The federation's configuration.")
    key: str = Field(description="Name of the cell's file: readable parts and a digest of the job.")


class CurvePoint(Record):
    """Scores on the way."""

    round: int = Field(description="Rounds done.")
    seconds: float = Field(description="Training seconds until here, scoring apart.")
    overall: float = Field(description="Overall score of what was served then.")
    worst: float = Field(description="Score of the worst region.")


class CellCost(Record):
    """What travelled between coordinators and clients, per asked client and round."""

    down: float = Field(description="Model vectors to a client.")
    up: float = Field(description="Model vectors from a client.")
    exchanges: float = Field(description="Round trips.")
    bytes: float = Field(description="Bytes in both directions.")


class CellResult(Record):
    """What one cell found."""

    key: str = Field(description="Name of the cell's file.")
    system: str = Field(description="Name of the system.")
    setting: str = Field(description="Name of the setting.")
    seed: int = Field(description="Seed of the run.")
    level: str = Field(description="What the system serves: global, region or client models.")
    parameters: int = Field(description="Length d of the vector.")
    rounds: int = Field(description="Rounds of the run.")
    seconds: float = Field(description="Training and serving, without scoring.")
    memory_mb: float = Field(description="Peak memory of the process so far, MiB.")
    cost: CellCost = Field(description="Traffic.")
    scores: LevelScores = Field(description="Scores of what is served in the end.")
    curve: tuple[CurvePoint, ...] = Field(default=(), description="Scores on the way.")
    history: tuple[dict[str, Any], ...] = Field(
        default=(), description="Conflict, alpha and strategy by round and region."
    )
    verdicts: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Outcome of the last search for rho by region."
    )
    privacy: Promise | None = Field(default=None, description="What the noise promises.")


def run_cell(job: Job) -> CellResult:
    """Run one system. Raises what data, model and training raise."""
    kind = SYSTEMS[job.system]
    population = open_population(job.config, marked=kind.needs_marks)
    federation = Federation(job.config, population)
    system = kind(federation, kind.options_type.model_validate(job.options))
    rounds = job.config.run.rounds
    curve: list[CurvePoint] = []
    spent = 0.0
    for number in range(1, rounds + 1):
        started = time.monotonic()
        system.round(number)
        spent += time.monotonic() - started
        if kind.has_curve and _due(job, number):
            found = score(federation, system.served(number, final=False), split=job.split)
            curve.append(_point(number, spent, found))
    started = time.monotonic()
    served = system.served(rounds, final=True)
    spent += time.monotonic() - started
    scores = score(federation, served, split=job.split)
    curve.append(_point(rounds, spent, scores))
    return CellResult(
        key=job.key,
        system=job.system,
        setting=job.setting,
        seed=job.seed,
        level=kind.own_level,
        parameters=federation.size,
        rounds=rounds,
        seconds=spent,
        memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        cost=_cost(system, federation),
        scores=scores,
        curve=tuple(curve),
        history=tuple(system.history) if isinstance(system, RegionFed) else (),
        verdicts=system.verdicts if isinstance(system, RegionFed) else {},
        privacy=promise(federation),
    )


def _due(job: Job, number: int) -> bool:
    every = job.curve_every
    return every > 0 and number % every == 0 and number < job.config.run.rounds


def _point(number: int, seconds: float, found: LevelScores) -> CurvePoint:
    return CurvePoint(
        round=number, seconds=seconds, overall=found.overall, worst=found.worst_region.score
    )


def _cost(system: System, federation: Federation) -> CellCost:
    asked = sum(
        len(federation.cohort(region, number))
        for number in range(1, system.rounds + 1)
        for region in federation.population.regions
    )
    down, up = system.cost.down / asked, system.cost.up / asked
    return CellCost(
        down=down,
        up=up,
        exchanges=system.cost.exchanges / asked,
        bytes=(down + up) * federation.size * 4,
    )


def cell_path(folder: Path, job: Job) -> Path:
    """Where a cell's result lies."""
    return folder / "cells" / f"{job.key}.json"


def write_cell(folder: Path, job: Job, result: CellResult) -> None:
    """Write a finished cell; a crash leaves none or all of it."""
    write_atomically(cell_path(folder, job), result.model_dump_json(indent=1).encode() + b"\n")


def read_cell(folder: Path, job: Job) -> CellResult | None:
    """The result of a cell that is finished, else None. Raises `StateError` for a damaged file."""
    path = cell_path(folder, job)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return CellResult.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise StateError(
            f"{path} is not the result of a cell ({first['msg']}); delete it to have it run again"
        ) from None
