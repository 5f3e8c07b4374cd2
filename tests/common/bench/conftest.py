"""A federation of a few clients with a model so small that a system runs in a blink."""

from __future__ import annotations

from typing import Any

import pytest

from regionfed.bench.federation import Federation
from regionfed.bench.population import open_population
from regionfed.config.federation import FederationConfig

SECTIONS: dict[str, dict[str, Any]] = {
    "run": {"seed": 3, "rounds": 2},
    "data": {
        "source": "builtin",
        "regions": 2,
        "clients_per_region": 3,
        "tasks": ["intent"],
        "builtin": {"train_queries": 16, "validation_queries": 6, "test_queries": 6},
    },
    "model": {"kind": "factory", "factory": "linear_words:build"},
    "training": {
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "batch_size": 4,
        "steps": 3,
        "evaluation_batch_size": 64,
    },
    "coordinator": {"cohort": 2},
    "privacy": {"mode": "off"},
}


def configured(**changes: dict[str, Any]) -> FederationConfig:
    """The small federation with some keys changed, section by section."""
    sections = {
        name: {**SECTIONS.get(name, {}), **changes.get(name, {})}
        for name in {**SECTIONS, **changes}
    }
    return FederationConfig.model_validate(sections)


@pytest.fixture
def make_federation() -> Any:
    """A function from changed sections to a federation."""

    def make(*, stack: bool = False, **changes: dict[str, Any]) -> Federation:
        config = configured(**changes)
        # Bit for bit comparisons need every system to train its clients in the same way.
        return Federation(config, open_population(config), stack=stack)

    return make


@pytest.fixture
def federation(make_federation: Any) -> Federation:
    """The small federation as it is."""
    return make_federation()
