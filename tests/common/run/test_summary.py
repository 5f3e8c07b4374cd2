"""From records to `result.json`."""

from __future__ import annotations

from pathlib import Path

import pytest

from regionfed.config.load import load_config
from regionfed.errors import StateError
from regionfed.run.records import (
    EvaluateRecord,
    HopBytes,
    LeftOutClient,
    PersonaliseRecord,
    PrivacyRecord,
    RegionRound,
    RoundRecord,
    SkippedRegion,
    Traffic,
)
from regionfed.run.result import ModelFacts, Topology, read_result, write_result
from regionfed.run.scores import Level, LevelScores, RegionScores, TaskScore
from regionfed.run.summary import summarise

TOPOLOGY = Topology(engine="simulate", regions={"north": ("c0", "c1"), "south": ("c0", "c1")})
MODEL = ModelFacts(kind="t5", parameters=100, bytes=400)


def level(north: float, south: float) -> LevelScores:
    return LevelScores.from_regions(
        {
            "north": RegionScores.from_tasks(
                {"intent": TaskScore(score=north), "ner": TaskScore(score=north - 0.2)}
            ),
            "south": RegionScores.from_tasks({"intent": TaskScore(score=south)}),
        }
    )


def evaluate(round: int, name: Level, north: float, south: float) -> EvaluateRecord:
    return EvaluateRecord(round=round, level=name, scores=level(north, south))


def round_record(number: int, **given: object) -> RoundRecord:
    return RoundRecord.model_validate(
        {
            "round": number,
            "seconds": 2.0,
            "phases": {"train": 1.5, "aggregate": 0.5},
            "answered": ("north", "south"),
            "traffic": Traffic(coordinator_client=HopBytes(up=10, down=20)),
            "regions": {"north": RegionRound(conflict=0.5, alpha=0.7)},
        }
        | given
    )


def test_scores_of_a_level() -> None:
    scores = level(0.8, 0.5)
    assert scores.regions["north"].overall == pytest.approx(0.7)
    assert scores.overall == pytest.approx(0.6)
    assert scores.tasks == {"intent": pytest.approx(0.65), "ner": pytest.approx(0.6)}
    assert (scores.worst_region.name, scores.worst_region.score) == ("south", 0.5)
    assert scores.spread == pytest.approx(0.2)


def test_a_level_without_scores_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one region"):
        LevelScores.from_regions({})
    with pytest.raises(ValueError, match="at least one task"):
        RegionScores.from_tasks({})


def test_result_of_a_run(tmp_path: Path) -> None:
    config = load_config(None, environ={}, overrides={"run.rounds": 3, "privacy.mode": "off"})
    records = [
        round_record(1),
        evaluate(1, "global", 0.3, 0.2),
        # Round 2 was repeated after a restart: the second record is what happened.
        round_record(2, traffic=Traffic(coordinator_client=HopBytes(up=999, down=999))),
        round_record(
            2,
            answered=("north",),
            skipped=(SkippedRegion(region="south", reason="1 of 2 clients answered"),),
            left_out=(LeftOutClient(region="north", client="c1", reason="NaN in the update"),),
            regions={"north": RegionRound(conflict=0.9, alpha=0.8)},
        ),
        evaluate(2, "global", 0.4, 0.3),
        evaluate(2, "regional", 0.8, 0.5),
        PersonaliseRecord(
            round=2,
            region="north",
            strategy="grad",
            why="conflict above tau_d",
            served=True,
            rho=0.4,
            verdict="interior",
        ),
        round_record(3, answered=(), skipped=(), regions={}),
    ]
    result = summarise(records, config=config, topology=TOPOLOGY, model=MODEL, seconds=7.0)
    assert (result.rounds_planned, result.rounds_done) == (3, 2)
    assert result.traffic.coordinator_client == HopBytes(up=30, down=60)
    assert result.seconds_by_phase == {"train": 4.5, "aggregate": 1.5}
    assert result.headline == "regional"
    assert result.overall == pytest.approx(0.6)
    assert result.worst_region is not None
    assert result.worst_region.name == "south"
    assert result.levels["global"].regions["south"].overall == 0.3
    north, south = result.regions["north"], result.regions["south"]
    assert (north.strategy, north.served, north.rho, north.verdict) == (
        "grad",
        True,
        0.4,
        "interior",
    )
    assert (north.alpha, north.conflict, north.rounds) == (0.8, 0.9, 2)
    assert (south.strategy, south.rounds) == ("none", 1)
    assert [(each.round, each.region) for each in result.skipped] == [(2, "south")]
    assert [(each.round, each.client) for each in result.left_out] == [(2, "c1")]
    assert result.privacy.mode == "off"
    assert "No differential privacy" in result.privacy.statement
    path = tmp_path / "result.json"
    write_result(result, path)
    assert read_result(path) == result


def test_charges_of_a_private_run_add_up() -> None:
    config = load_config(None, environ={}, overrides={"privacy.mode": "client"})

    def charge(region: str, round: int, epsilon: float) -> PrivacyRecord:
        return PrivacyRecord(
            round=round,
            region=region,
            release="training",
            noise_multiplier=5.0,
            clipping_norm=1.0,
            epsilon=epsilon,
            delta=1e-5,
        )

    result = summarise(
        [charge("north", 1, 0.5), charge("north", 2, 0.8), charge("south", 1, 0.6)],
        config=config,
        topology=TOPOLOGY,
        model=MODEL,
        seconds=1.0,
    )
    assert result.privacy.epsilon == 0.8
    assert result.privacy.regions["north"].releases == {"training": 2}
    assert result.privacy.budget == 2.0


def test_a_failed_run_says_why() -> None:
    result = summarise(
        [],
        config=load_config(None, environ={}),
        topology=TOPOLOGY,
        model=MODEL,
        seconds=1.0,
        status="failed",
        reason="no region answered",
    )
    assert (result.status, result.reason, result.headline) == ("failed", "no region answered", None)


def test_reading_what_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"there is no .*result\.json"):
        read_result(tmp_path / "result.json")
    (tmp_path / "result.json").write_text('{"format": 9}')
    with pytest.raises(StateError, match="format"):
        read_result(tmp_path / "result.json")
