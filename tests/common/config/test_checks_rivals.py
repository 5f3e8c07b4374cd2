"""Rivals in `method.strategy`: what a promise or another section rules out."""

from __future__ import annotations

import pytest

from regionfed.config.load import load_config
from regionfed.diagnosis.settings import require_diagnosable
from regionfed.errors import ConfigError

SMALL = {"data.clients_per_region": 4, "data.regions": 2, "run.rounds": 2}


@pytest.mark.parametrize(
    ("overrides", "key", "words"),
    [
        (
            {"method.strategy": "scaffold", "privacy.mode": "client"},
            "method.strategy",
            "a second release without noise",
        ),
        (
            {"method.strategy": "scaffold", "privacy.mode": "paper"},
            "method.strategy",
            "set strategy = 'fedprox' or 'none', or mode = 'off'",
        ),
        (
            {
                "method.strategy": "scaffold",
                "privacy.mode": "off",
                "privacy.secure_aggregation.enabled": True,
            },
            "method.strategy",
            "secure_aggregation.enabled = false",
        ),
        (
            {
                "method.strategy": "fedprox",
                "privacy.mode": "off",
                "privacy.example_level": True,
            },
            "method.strategy",
            "or example_level = false",
        ),
        (
            {
                "method.strategy": "ditto",
                "privacy.mode": "off",
                "client.user.enabled": True,
            },
            "client.user.enabled",
            "set enabled = false",
        ),
        ({"method.strategy": "fedprox", "method.fedprox.mu": -1}, "method.fedprox.mu", "-1"),
    ],
)
def test_refusals_name_key_and_fix(overrides: dict[str, object], key: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, environ={}, overrides={**SMALL, **overrides})
    assert key in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "overrides",
    [
        *(
            {"method.strategy": name, "privacy.mode": "off"}
            for name in ("fedprox", "scaffold", "ditto", "fedbabu")
        ),
        {"method.strategy": "fedprox", "privacy.mode": "client"},
        {"method.strategy": "ditto", "privacy.mode": "client"},
        {"method.strategy": "fedbabu", "privacy.mode": "client"},
        {"method.strategy": "fedbabu", "privacy.mode": "paper"},
        {
            "method.strategy": "ditto",
            "privacy.mode": "off",
            "privacy.secure_aggregation.enabled": True,
        },
    ],
)
def test_what_keeps_its_promise_passes(overrides: dict[str, object]) -> None:
    load_config(None, environ={}, overrides={**SMALL, **overrides})


@pytest.mark.parametrize("name", ["scaffold", "ditto"])
def test_a_diagnosis_would_move_what_devices_keep(name: str) -> None:
    overrides = {**SMALL, "method.strategy": name, "privacy.mode": "off"}
    config = load_config(None, environ={}, overrides=overrides)
    with pytest.raises(ConfigError, match=r"--set method\.strategy=none"):
        require_diagnosable(config)


def test_the_strategy_is_among_what_all_tiers_agree_on() -> None:
    digests = {
        load_config(
            None,
            environ={},
            overrides={**SMALL, "privacy.mode": "off", "method.strategy": "fedprox", **more},
        ).digest()
        for more in ({}, {"method.fedprox.mu": 0.5}, {"method.strategy": "none"})
    }
    assert len(digests) == 3
