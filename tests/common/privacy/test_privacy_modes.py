"""What each mode says about itself and what its report line claims."""

from __future__ import annotations

import re

import pytest

from regionfed.errors import ConfigError
from regionfed.privacy.events import RawQuery, RegionalMeanRelease, TrainingUpdate
from regionfed.privacy.modes import MODES, Mode, parse_mode, report_line

PUBLISHED = [RegionalMeanRelease(round=t, noise_multiplier=4.0, sample_rate=0.1) for t in range(50)]


def test_every_mode_is_explained() -> None:
    assert set(MODES) == set(Mode)
    for info in MODES.values():
        assert len(info.explanation) > 80
    with pytest.raises(ConfigError, match="client, client-mf, client-strict, paper, off"):
        parse_mode("local")
    assert parse_mode("client-mf") is Mode.CLIENT_MF
    assert [mode for mode in Mode if mode.per_client] == [
        Mode.CLIENT,
        Mode.CLIENT_MF,
        Mode.CLIENT_STRICT,
    ]
    assert not Mode.OFF.private


def test_paper_mode_never_prints_its_published_figure() -> None:
    line = report_line(Mode.PAPER, PUBLISHED)
    assert "region-level" in line
    assert "8.596 for a region that joins every round" in line
    assert "1.6525 for one client only if" in line
    assert "infinite once a raw" in line
    assert not re.search(r"\b0?\.60?\b|0\.599|0\.6\d", line)


def test_paper_mode_is_infinite_after_a_raw_query() -> None:
    line = report_line(Mode.PAPER, [*PUBLISHED, RawQuery(round=3, what="losses for rho")])
    assert "epsilon infinite" in line
    assert "losses for rho" in line


def test_paper_mode_without_sampling_claims_nothing_for_clients() -> None:
    line = report_line(Mode.PAPER, [RegionalMeanRelease(round=0, noise_multiplier=4.0)])
    assert "for one client" not in line


def test_off_says_so_in_words() -> None:
    assert "no epsilon holds" in report_line(Mode.OFF)


def test_client_modes_report_spent_and_left() -> None:
    events = [TrainingUpdate(round=t, noise_multiplier=5.048) for t in range(50)]
    line = report_line(Mode.CLIENT, events, budget=2.0, max_participations=5)
    assert "mode client, one client's whole data" in line
    assert "epsilon 1.7" in line
    assert "of 2 spent, 0.2" in line
    assert "not amplified" in line
    raw = [*events, RawQuery(round=0, what="n_r")]
    assert "epsilon infinite" in report_line(Mode.CLIENT, raw)
