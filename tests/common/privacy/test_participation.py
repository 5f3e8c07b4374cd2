"""The client's own counter refuses what a coordinator must not ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from regionfed.errors import PrivacyError, StateError
from regionfed.privacy.participation import ParticipationCounter, ParticipationRefused


def test_a_sixth_participation_is_refused(tmp_path: Path) -> None:
    counter = ParticipationCounter(tmp_path / "client" / "count.sqlite", max_participations=5)
    for round in range(5):
        counter.admit(run="r", round=round)
    with pytest.raises(ParticipationRefused, match="took part 5 times"):
        counter.admit(run="r", round=9)
    assert counter.rounds("r") == [0, 1, 2, 3, 4]
    counter.admit(run="another", round=0)
    assert (tmp_path / "client" / "count.sqlite").stat().st_mode & 0o777 == 0o600


def test_too_soon_is_refused_in_either_direction(tmp_path: Path) -> None:
    counter = ParticipationCounter(tmp_path / "c", max_participations=5, min_separation=10)
    counter.admit(run="r", round=12)
    for near in (3, 21):
        with pytest.raises(ParticipationRefused, match="fewer than 10 rounds"):
            counter.admit(run="r", round=near)
    counter.admit(run="r", round=22)
    counter.admit(run="r", round=2)


def test_a_replay_is_refused_and_a_retry_costs(tmp_path: Path) -> None:
    counter = ParticipationCounter(tmp_path / "c", max_participations=2, min_separation=10)
    counter.admit(run="r", round=1)
    with pytest.raises(ParticipationRefused, match="replay"):
        counter.admit(run="r", round=1)
    counter.admit(run="r", round=1, attempt=1)
    with pytest.raises(ParticipationRefused, match="2 times"):
        counter.admit(run="r", round=30)


def test_the_count_outlives_the_process(tmp_path: Path) -> None:
    ParticipationCounter(tmp_path / "c", max_participations=1).admit(run="r", round=0)
    with pytest.raises(ParticipationRefused):
        ParticipationCounter(tmp_path / "c", max_participations=1).admit(run="r", round=1)


def test_bad_limits_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(PrivacyError, match="at least 1"):
        ParticipationCounter(tmp_path / "c", max_participations=0)
    (tmp_path / "d").write_bytes(b"rubbish" * 1000)
    with pytest.raises(StateError, match="cannot be used"):
        ParticipationCounter(tmp_path / "d", max_participations=1)
