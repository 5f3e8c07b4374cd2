"""A run's folder as eight regions in conflict would leave it, without training anything."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from regionfed.config.load import load_config
from regionfed.run.folder import RunFolder
from regionfed.run.records import (
    ConflictMatrix,
    CurvePoint,
    EvaluateRecord,
    HopBytes,
    LeftOutClient,
    PersonaliseRecord,
    RegionRound,
    RoundRecord,
    SkippedRegion,
    Traffic,
)
from regionfed.run.result import ModelFacts, Topology
from regionfed.run.scores import Level, LevelScores, RegionScores, TaskScore
from regionfed.run.summary import summarise

REGIONS = ("north", "south", "east", "west", "coast", "hills", "plains", "islands")
ROUNDS = 12
TASKS = {"intent": 0.9, "spell": 0.78, "ner": 0.95}


def write_synthetic_run(path: Path) -> RunFolder:
    """Twelve rounds of eight regions, with a skipped region, a bad client and each verdict."""
    config = load_config(
        None,
        environ={},
        overrides={
            "run.name": "synthetic",
            "run.rounds": ROUNDS,
            "data.regions": list(REGIONS),
            "data.clients_per_region": 10,
            "method.strategy": "dynamic",
            "method.personalise_every": 1,
            "privacy.mode": "off",
        },
    )
    folder = RunFolder.create(config, out=path)
    log, draw = folder.metrics(), np.random.default_rng(5)
    for number in range(1, ROUNDS + 1):
        log.append(_round(number, draw))
        for level in ("global", "regional"):
            log.append(EvaluateRecord(round=number, level=level, scores=_scores(number, level)))
        for region in REGIONS:
            log.append(_part(number, region))
    log.append(EvaluateRecord(round=ROUNDS, level="user", scores=_scores(ROUNDS, "user")))
    folder.write_result(
        summarise(
            log.read(),
            config=config,
            topology=Topology(
                engine="simulate",
                regions={name: tuple(f"c{i:02d}" for i in range(10)) for name in REGIONS},
            ),
            model=ModelFacts(kind="t5", name="small", parameters=1_512_960, bytes=6_051_840),
            seconds=148.0,
            started="2025-03-04T05:06:07+00:00",
        )
    )
    return folder


def _round(number: int, draw: np.random.Generator) -> RoundRecord:
    vectors = draw.normal(size=(len(REGIONS), 5)) + np.array([1.2, 0, 0, 0, 0])
    lengths = np.linalg.norm(vectors, axis=1)
    cosine = vectors @ vectors.T / np.outer(lengths, lengths)
    distance = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    skipped, left_out = (), ()
    if number == 4:
        skipped = (SkippedRegion(region="islands", reason="2 of 5 clients answered in 300 s"),)
    if number == 7:
        left_out = (LeftOutClient(region="hills", client="c03", reason="the update is not finite"),)
    answered = tuple(name for name in REGIONS if not (skipped and name == "islands"))
    return RoundRecord(
        round=number,
        seconds=11.4 + draw.normal(),
        phases={"train": 8.1, "aggregate": 0.4, "evaluate": 2.6, "checkpoint": 0.1},
        traffic=Traffic(
            server_coordinator=HopBytes(up=48_414_720, down=96_829_440),
            coordinator_client=HopBytes(up=484_147_200, down=968_294_400),
        ),
        answered=answered,
        skipped=skipped,
        left_out=left_out,
        regions={
            name: RegionRound(
                weight=1 / len(answered),
                clients=10,
                loss=2 / number,
                conflict=(0.4 + 0.07 * at) * (1 + 1.5 * math.exp(-number / 3)),
                alpha=0.6 + 0.04 * at - 0.1 * math.exp(-number / 4),
            )
            for at, name in enumerate(answered)
        },
        mu=0.92,
        conflict_matrix=ConflictMatrix(
            regions=REGIONS,
            distance=tuple(tuple(row) for row in distance.tolist()),
            cosine=tuple(tuple(row) for row in cosine.clip(-1, 1).tolist()),
        ),
    )


def _scores(number: int, level: Level) -> LevelScores:
    grown = 1 - math.exp(-number / 4)
    lift = {"global": 0.76, "regional": 0.93, "user": 0.95, "local": 0.7}[level]
    return LevelScores.from_regions(
        {
            name: RegionScores.from_tasks(
                {
                    task: TaskScore(
                        score=grown * top * lift * (1 - 0.03 * ((at * 3 + len(task)) % 8)), rows=200
                    )
                    for task, top in TASKS.items()
                }
            )
            for at, name in enumerate(REGIONS)
        }
    )


def _part(number: int, region: str) -> PersonaliseRecord:
    at = REGIONS.index(region)
    if at < 5:
        return PersonaliseRecord(
            round=number,
            region=region,
            strategy="residual",
            why="conflict above tau_d; the correction is kept across rounds",
            served=True,
            alpha=1.0,
            rho=1.0,
            verdict="fixed",
            curve=(CurvePoint(rho=0.0, loss=1.0), CurvePoint(rho=1.0, loss=0.7)),
        )
    best, verdict = ((0.42, "interior"), (0.034, "lower"), (1.0, "upper"))[at - 5]
    return PersonaliseRecord(
        round=number,
        region=region,
        strategy=("meta", "interp", "grad")[at - 5],
        why=("d_r above tau_d and h_r above tau_h", "n_r above 1.5 times the mean", "otherwise")[
            at - 5
        ],
        served=verdict != "lower",
        alpha=0.8,
        rho=best,
        verdict=verdict,
        curve=tuple(
            CurvePoint(rho=rho, loss=0.8 + (rho - (0 if verdict == "lower" else best)) ** 2)
            for rho in np.linspace(0, 1, 11).tolist()
        ),
    )
