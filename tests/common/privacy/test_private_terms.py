"""Which quantities a run asks for, their multipliers, and what a client refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest

from regionfed.config.federation import FederationConfig
from regionfed.errors import PrivacyError, UpdateError
from regionfed.messages import TrainOrder
from regionfed.privacy.accountant import cost
from regionfed.privacy.quantities import Channel, Quantity
from regionfed.privacy.terms import RegionTerms
from regionfed.tasks.spec import TaskKind, TaskSpec
from regionfed_client.quantities import clipping_norm, training_channel
from regionfed_coordinator.census import divergence_beyond_noise, size_beyond_noise

INTENT = TaskSpec(name="intent", kind=TaskKind.CLASSIFICATION, labels=("a", "b", "c"))


def terms(
    *, strategy: str = "dynamic-paper", clients: int = 1000, rounds: int = 50, **privacy: Any
) -> RegionTerms:
    config = FederationConfig.model_validate(
        {
            "run": {"rounds": rounds},
            "coordinator": {"cohort": clients // 10},
            "method": {"strategy": strategy},
            "privacy": {"mode": "client", **privacy},
        }
    )
    return RegionTerms(config=config, dimension=1000, clients=clients, tasks=(INTENT,))


def test_the_table_of_the_default_budget() -> None:
    """Privacy section 3, with the look-ahead of dynamic-paper in training's part."""
    found = terms(adaptive_clipping=True)
    assert found.quantities(Channel.FIRST) == (
        *(Quantity.UPDATE, Quantity.SKETCH, Quantity.CLIP_BIT),
        *(Quantity.LABELS, Quantity.SIZE),
    )
    assert found.quantities(Channel.TRAIN) == (
        *(Quantity.UPDATE, Quantity.SKETCH, Quantity.CLIP_BIT),
    )
    for quantity, expected in (
        (Quantity.SKETCH, 14.0984),
        (Quantity.CLIP_BIT, 44.583),
        (Quantity.LABELS, 9.9691),
        (Quantity.SIZE, 14.0984),
    ):
        assert found.multiplier(quantity) == pytest.approx(expected, abs=1e-3)
    events = [
        event
        for number in range(1, 51)
        for event in found.events(
            Channel.FIRST if number == 1 else Channel.TRAIN, round=number
        ).values()
    ]
    events += found.events(Channel.LOOK_AHEAD, round=50).values()
    spent = cost(events, max_participations=5).epsilon(1e-5)
    assert spent == pytest.approx(2.0, abs=2e-4)


def test_noise_is_relative_to_the_sensitivity_of_each_block() -> None:
    found = terms(adaptive_clipping=True, clipping_norm=0.5)
    for block, quantity in zip(
        found.blocks(Channel.FIRST), found.quantities(Channel.FIRST), strict=True
    ):
        charged = block.noise_multiplier * block.clip / block.effective_clip
        assert charged == pytest.approx(found.multiplier(quantity))
    lengths = [block.length for block in found.blocks(Channel.FIRST)]
    assert lengths == [1000, 32, 1, 3, 1]


@pytest.mark.parametrize(
    ("given", "quantity", "words"),
    [
        ({"clients": 400}, Quantity.SKETCH, "fewer than 50"),
        ({"clients": 600, "rounds": 19}, Quantity.SKETCH, "fewer than the 20"),
        ({"rounds": 9}, Quantity.LABELS, "fewer than the 10"),
        ({"strategy": "residual"}, Quantity.SKETCH, "does not act on conflict"),
        ({"strategy": "grad"}, Quantity.SIZE, "does not route by it"),
        ({"adaptive_clipping": True, "clients": 500}, Quantity.CLIP_BIT, "fewer than 100"),
        ({}, Quantity.CLIP_BIT, "is fixed"),
        ({"budget": {"sketch_share": 0.0}}, Quantity.SKETCH, "switched off"),
    ],
)
def test_what_is_not_asked_for_says_why_and_gives_its_share_to_training(
    given: dict[str, Any], quantity: Quantity, words: str
) -> None:
    found = terms(**given)
    assert quantity not in found.beside.asked
    assert words in found.beside.reasons[quantity]
    assert words in found.beside.note()
    everything = terms(adaptive_clipping=True)
    if "rounds" not in given and "strategy" not in given:
        assert found.multiplier(Quantity.UPDATE) < everything.multiplier(Quantity.UPDATE)


def test_shares_that_leave_training_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="leave training no share"):
        terms(budget={"sketch_share": 0.5, "evaluation_share": 0.5})


def order(**fields: Any) -> TrainOrder:
    known: dict[str, Any] = {"run": "r", "region": "a", "round": 1, "digest": "", "layout": ""}
    return TrainOrder(**known, start=[], **fields)


def test_a_client_refuses_what_its_own_terms_do_not_have() -> None:
    fixed, adaptive = terms(strategy="grad"), terms(adaptive_clipping=True)
    assert clipping_norm(order(), adaptive) == 1.0
    assert clipping_norm(order(clipping_norm=0.25), adaptive) == 0.25
    with pytest.raises(PrivacyError, match="is fixed in this federation file"):
        clipping_norm(order(clipping_norm=0.25), fixed)
    for bad in (math.inf, math.nan, -1.0):
        with pytest.raises(PrivacyError, match="positive and finite"):
            clipping_norm(order(clipping_norm=bad), adaptive)
    assert training_channel(order(channel="train-first"), adaptive) is Channel.FIRST
    for channel in ("train-first", "metrics"):
        with pytest.raises(PrivacyError, match="not asked for"):
            training_channel(order(channel=channel), fixed)
    with pytest.raises(UpdateError, match="unknown channel"):
        training_channel(order(channel="raw"), fixed)


def test_divergence_and_size_count_only_beyond_their_noise() -> None:
    own, everyone = {"a": 60.0, "b": 20.0, "c": 20.0}, {"a": 100.0, "b": 100.0, "c": 100.0}
    exact, why = divergence_beyond_noise(own, everyone, std=0.0)
    assert (exact > 0.1, why) == (True, "")
    less, _ = divergence_beyond_noise(own, everyone, std=5.0)
    assert 0 < less < exact
    none, why = divergence_beyond_noise(own, everyone, std=40.0)
    assert none == 0.0
    assert "taken as 0" in why
    assert divergence_beyond_noise({}, {}, std=1.0)[0] == 0.0
    assert size_beyond_noise(200.0, 100.0, ratio=1.5, std=0.0) == (200.0, "")
    assert size_beyond_noise(200.0, 100.0, ratio=1.5, std=10.0) == (200.0, "")
    assert size_beyond_noise(200.0, 100.0, ratio=1.5, std=30.0)[0] == 100.0
