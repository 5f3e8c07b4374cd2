"""The metrics log survives a crash in mid-line."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import pytest
from pydantic import ValidationError

from regionfed.errors import StateError
from regionfed.run.metrics import MetricsLog
from regionfed.run.records import (
    ConflictMatrix,
    EvaluateRecord,
    HopBytes,
    PersonaliseRecord,
    PrivacyRecord,
    RegionRound,
    RoundRecord,
    Traffic,
)
from regionfed.run.scores import LevelScores, RegionScores, TaskScore


def round_record(number: int) -> RoundRecord:
    return RoundRecord(
        round=number,
        seconds=1.5,
        answered=("north",),
        regions={"north": RegionRound(conflict=0.5, alpha=0.75)},
        conflict_matrix=ConflictMatrix(regions=("north",), distance=((0.0,),), cosine=((1.0,),)),
    )


def test_records_of_each_kind_come_back(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    scores = LevelScores.from_regions(
        {"north": RegionScores.from_tasks({"intent": TaskScore(score=0.5, rows=4)})}
    )
    written = [
        round_record(1),
        EvaluateRecord(round=1, level="regional", scores=scores),
        PersonaliseRecord(round=1, region="north", strategy="grad", why="asked for", served=False),
        PrivacyRecord(
            round=1,
            region="north",
            release="training",
            noise_multiplier=1.0,
            clipping_norm=1.0,
            epsilon=math.inf,
            delta=1e-5,
        ),
    ]
    for record in written:
        log.append(record)
    assert MetricsLog(log.path).read() == written
    assert "Infinity" in log.path.read_text().splitlines()[3]


def test_no_file_holds_no_records(tmp_path: Path) -> None:
    assert MetricsLog(tmp_path / "none.jsonl").read() == []


def test_a_torn_last_line_is_left_out_and_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "metrics.jsonl"
    MetricsLog(path).append(round_record(1))
    with path.open("ab") as file:
        file.write(round_record(2).model_dump_json().encode()[:30])
    with caplog.at_level(logging.WARNING):
        assert MetricsLog(path).read() == [round_record(1)]
    assert "line 2 is torn" in caplog.text
    MetricsLog(path).append(round_record(3))
    assert MetricsLog(path).read() == [round_record(1), round_record(3)]


def test_a_damaged_line_in_the_middle_is_an_error_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    MetricsLog(path).append(round_record(1))
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(StateError, match="line 1"):
        MetricsLog(path).read()


def test_a_matrix_must_fit_its_regions() -> None:
    with pytest.raises(ValidationError, match="2 rows of 2"):
        ConflictMatrix(regions=("a", "b"), distance=((0.0,),), cosine=((1.0,),))


def test_traffic_adds_up() -> None:
    one = Traffic(
        server_coordinator=HopBytes(up=1, down=2), coordinator_client=HopBytes(up=3, down=4)
    )
    assert (one + one).coordinator_client == HopBytes(up=6, down=8)
    assert (one + one).total == 20
