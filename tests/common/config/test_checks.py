"""Settings that are fine alone and wrong together."""

from __future__ import annotations

import pytest

from regionfed.config.load import load_config
from regionfed.errors import ConfigError


@pytest.mark.parametrize(
    ("overrides", "key", "words"),
    [
        ({"data.clients_per_region": 2, "coordinator.quorum": 3}, "coordinator.quorum", "no round"),
        ({"data.clients_per_region": 2, "coordinator.cohort": 3}, "coordinator.cohort", "lower it"),
        ({"coordinator.cohort": 2, "coordinator.quorum": 3}, "coordinator.quorum", "cohort = 2"),
        ({"data.regions": 2, "server.min_regions": 3}, "server.min_regions", "2 regions"),
        (
            {"data.regions": ["a", "b"], "server.min_regions": 3},
            "server.min_regions",
            "2 regions",
        ),
        (
            {"privacy.mode": "client", "coordinator.client_weights": "examples"},
            "coordinator.client_weights",
            "set client_weights = 'equal'",
        ),
        (
            {"privacy.mode": "paper", "coordinator.client_weights": "examples"},
            "coordinator.client_weights",
            "'paper'",
        ),
        (
            {"privacy.mode": "client", "server.region_weights": "examples"},
            "server.region_weights",
            "set region_weights = 'equal'",
        ),
        (
            {"privacy.mode": "off", "privacy.noise_multiplier": 1.0},
            "privacy.noise_multiplier",
            "has no effect",
        ),
        ({"privacy.mode": "client-strict"}, "privacy.mode", "enabled = true"),
        (
            {"privacy.example_level": True, "privacy.mode": "paper"},
            "privacy.example_level",
            "set mode = 'client' or 'off'",
        ),
        (
            {"privacy.example_level": True, "method.strategy": "meta"},
            "method.strategy",
            "without the noise of DP-SGD",
        ),
        (
            {
                "privacy.example_level": True,
                "privacy.mode": "off",
                "coordinator.client_weights": "examples",
            },
            "coordinator.client_weights",
            "numbers of rows",
        ),
        (
            {"privacy.example_level": True, "training.precision": "bf16"},
            "training.precision",
            "set it to 'fp32'",
        ),
        (
            {"privacy.example_level": True, "training.accumulation": 2},
            "training.accumulation",
            "raise batch_size",
        ),
        (
            {"privacy.example_level": True, "training.clip_gradient": 1.0},
            "training.clip_gradient",
            "privacy.example.clipping_norm",
        ),
        (
            {"privacy.adaptive_clipping": True, "privacy.mode": "client-mf"},
            "privacy.adaptive_clipping",
            "one C only",
        ),
        (
            {"privacy.adaptive_clipping": True, "privacy.mode": "off"},
            "privacy.adaptive_clipping",
            "they clip at none",
        ),
        (
            {"privacy.adaptive_clipping": True, "privacy.budget.clip_bit_share": 0.0},
            "privacy.budget.clip_bit_share",
            "set a share",
        ),
        (
            {"privacy.mode": "paper", "privacy.secure_aggregation.enabled": True},
            "privacy.secure_aggregation.enabled",
            "the published mechanism",
        ),
        (
            {"method.strategy": "dynamic-paper", "privacy.budget.histogram_share": 0.0},
            "privacy.budget.histogram_share",
            "label histograms",
        ),
        (
            {"method.strategy": "interp", "method.personalise_every": 2},
            "method.personalise_every",
            "set 0",
        ),
        (
            {
                "privacy.mode": "off",
                "privacy.secure_aggregation.enabled": True,
                "method.strategy": "meta",
            },
            "method.strategy",
            "no mask covers",
        ),
        (
            {
                "privacy.mode": "client-mf",
                "data.clients_per_region": 30,
                "coordinator.cohort": 10,
                "run.rounds": 12,
            },
            "privacy.bands",
            "set coordinator.cohort <= 3",
        ),
        (
            {"privacy.secure_aggregation.enabled": True, "data.clients_per_region": 2},
            "secure aggregation",
            "at least 3",
        ),
        (
            {"privacy.mode": "client", "data.clients_per_region": 10, "run.rounds": 50},
            "privacy.budget.max_participations",
            "coordinator.cohort <= 1, run.rounds <= 5",
        ),
        ({"network.tls": False, "network.host": "0.0.0.0"}, "network.tls", "loopback"),
    ],
)
def test_contradictions_name_key_and_fix(
    overrides: dict[str, object], key: str, words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, environ={}, overrides=overrides)
    assert key in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "overrides",
    [
        {"data.clients_per_region": 2, "coordinator.quorum": 2, "coordinator.cohort": 2},
        {"network.tls": False, "network.host": "localhost"},
        {"network.tls": False, "network.host": "::1"},
        {"privacy.mode": "client", "data.clients_per_region": 10, "run.rounds": 5},
        {"privacy.example_level": True, "privacy.mode": "client", "method.strategy": "none"},
        {"privacy.example_level": True, "privacy.mode": "off", "method.strategy": "residual"},
        {
            "privacy.mode": "client",
            "data.clients_per_region": 100,
            "run.rounds": 50,
            "coordinator.cohort": 10,
        },
    ],
)
def test_consistent_settings_pass(overrides: dict[str, object]) -> None:
    load_config(None, environ={}, overrides=overrides)
