"""From the metrics of a run to its result."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from regionfed.config.federation import FederationConfig
from regionfed.run.promise import promise
from regionfed.run.records import (
    EvaluateRecord,
    MetricRecord,
    PersonaliseRecord,
    PrivacyRecord,
    RoundRecord,
    Traffic,
)
from regionfed.run.result import (
    LeftOut,
    ModelFacts,
    PrivacyResult,
    RegionResult,
    Result,
    SkippedRound,
    Topology,
)
from regionfed.run.scores import Level, LevelScores
from regionfed.run.versions import machine, versions

_SERVED_FIRST: tuple[Level, ...] = ("user", "regional", "global", "local")


class History:
    """The records of one run in order, with a repeated attempt's last record only.

    A run resumed after a crash repeats rounds whose records were already written; the later
    record of the same round, level, region or release is the one that happened.
    """

    def __init__(self, records: Iterable[MetricRecord]) -> None:
        rounds: dict[int, RoundRecord] = {}
        evaluations: dict[tuple[int, Level], EvaluateRecord] = {}
        personalised: dict[tuple[int, str], PersonaliseRecord] = {}
        # Charges are never replaced: a retry with fresh noise is charged again (privacy section 3).
        self.charges: list[PrivacyRecord] = []
        for record in records:
            match record:
                case RoundRecord():
                    rounds[record.round] = record
                case EvaluateRecord():
                    evaluations[record.round, record.level] = record
                case PersonaliseRecord():
                    personalised[record.round, record.region] = record
                case PrivacyRecord():
                    # One charge is told again when an answer is replayed after a restart.
                    told = record.entry is not None and any(
                        (c.region, c.entry, c.hash) == (record.region, record.entry, record.hash)
                        for c in self.charges
                    )
                    if not told:
                        self.charges.append(record)
        self.rounds = [rounds[number] for number in sorted(rounds)]
        self.evaluations = [evaluations[key] for key in sorted(evaluations)]
        self.personalised = [personalised[key] for key in sorted(personalised)]

    def last_scores(self) -> dict[Level, LevelScores]:
        """The newest scores of each level; `evaluations` ascend by round."""
        return {record.level: record.scores for record in self.evaluations}

    def traffic(self) -> Traffic:
        """Payload bytes of all rounds."""
        return sum((record.traffic for record in self.rounds), start=Traffic())

    def seconds_by_phase(self) -> dict[str, float]:
        """Wall seconds by phase over all rounds."""
        totals: dict[str, float] = {}
        for record in self.rounds:
            for phase, seconds in record.phases.items():
                totals[phase] = totals.get(phase, 0.0) + seconds
        return totals


def summarise(
    records: Iterable[MetricRecord],
    *,
    config: FederationConfig,
    topology: Topology,
    model: ModelFacts,
    seconds: float,
    started: str = "",
    status: str = "ok",
    reason: str = "",
    privacy: PrivacyResult | None = None,
    headline: Level | None = None,
    notes: Iterable[str] = (),
    devices: Path | None = None,
) -> Result:
    """The result of a run, from its records and the facts that are not in them.

    `seconds` is the wall time of the whole run and `started` its start, ISO 8601 in UTC.
    `privacy` is left out only when no ledger was kept; the statement then comes from the
    configuration and the charges among the records. `headline` is the level that regions are
    served; left out, it is the most personal one evaluated. `notes` are what tiers said about the
    promise, and `devices` is the folder of the clients' own state where that is on this host.
    Raises ValueError on an unknown status.
    """
    history = History(records)
    levels = history.last_scores()
    served = headline or next((level for level in _SERVED_FIRST if level in levels), None)
    shown = levels.get(served) if served else None
    return Result.model_validate(
        {
            "run": config.run.name,
            "status": status,
            "reason": reason,
            "seed": config.run.seed,
            "digest": config.digest(),
            "started": started,
            "versions": versions(),
            "machine": machine(),
            "topology": topology,
            "model": model,
            "rounds_planned": config.run.rounds,
            "rounds_done": sum(bool(record.answered) for record in history.rounds),
            "seconds": seconds,
            "seconds_by_phase": history.seconds_by_phase(),
            "traffic": history.traffic(),
            "levels": levels,
            "headline": served if shown else None,
            "overall": shown.overall if shown else None,
            "tasks": shown.tasks if shown else {},
            "worst_region": shown.worst_region if shown else None,
            "spread": shown.spread if shown else None,
            "regions": _regions(history, topology.regions),
            "skipped": tuple(
                SkippedRound(round=record.round, **skipped.model_dump())
                for record in history.rounds
                for skipped in record.skipped
            ),
            "left_out": tuple(
                LeftOut(round=record.round, **left.model_dump())
                for record in history.rounds
                for left in record.left_out
            ),
            "privacy": privacy
            or promise(
                config,
                history.charges,
                topology=topology,
                parameters=model.parameters,
                notes=tuple(notes),
                devices=devices,
            ),
        }
    )


def _regions(history: History, names: Iterable[str]) -> dict[str, RegionResult]:
    """The last known figures of each region."""
    last = {record.region: record for record in history.personalised}
    found: dict[str, RegionResult] = {}
    for name in names:
        own = [record.regions[name] for record in history.rounds if name in record.regions]
        part = last.get(name)
        alphas = [figures.alpha for figures in own if figures.alpha is not None]
        conflicts = [figures.conflict for figures in own if figures.conflict is not None]
        alpha = part.alpha if part and part.alpha is not None else alphas[-1] if alphas else None
        found[name] = RegionResult(
            strategy=part.strategy if part else "none",
            why=part.why if part else "",
            served=part.served if part else False,
            alpha=alpha,
            conflict=conflicts[-1] if conflicts else None,
            rho=part.rho if part else None,
            verdict=part.verdict if part else None,
            rounds=sum(name in record.answered for record in history.rounds),
        )
    return found
