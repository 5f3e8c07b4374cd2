"""The default budget table, splitting, and the verdicts of planning."""

from __future__ import annotations

import pytest

from regionfed.errors import PrivacyError
from regionfed.privacy.accountant import spend
from regionfed.privacy.budget import DEFAULT_SHARES, split_budget, training_multiplier
from regionfed.privacy.dp_library import pld_epsilon
from regionfed.privacy.events import EVENT_KINDS, ConflictSketch, LossGrid
from regionfed.privacy.planning import clients_needed, noise_to_signal, plan


def test_default_table_and_its_total() -> None:
    table = {item.release: (item.uses, item.noise_multiplier) for item in split_budget()}
    assert table == {
        "training-update": (5, pytest.approx(5.0480, abs=1e-4)),
        "conflict-sketch": (5, pytest.approx(14.0984, abs=1e-4)),
        "loss-grid": (5, pytest.approx(19.9381, abs=1e-4)),
        "clip-bit": (5, pytest.approx(44.583, abs=1e-3)),
        "intent-histogram": (1, pytest.approx(9.9691, abs=1e-4)),
        "dataset-size": (1, pytest.approx(14.0984, abs=1e-4)),
    }
    total = pld_epsilon(
        [(item.noise_multiplier, 1.0, item.uses) for item in split_budget()], delta=1e-5
    )
    assert total == pytest.approx(2.0, abs=5e-4)


def test_the_events_of_a_whole_run_spend_the_budget_and_no_more() -> None:
    events = []
    fields = {"conflict-sketch": {"width": 32}, "loss-grid": {"points": 5}}
    for item in split_budget():
        kind = EVENT_KINDS[item.release]
        for round in range(50 if kind.per_participation else 1):
            extra = fields.get(item.release, {})
            events.append(kind(round=round, noise_multiplier=item.noise_multiplier, **extra))
    spent = spend(events, delta=1e-5, max_participations=5)
    assert spent.eps_coordinator == pytest.approx(2.0, abs=1e-9)
    assert spent.eps_pld == pytest.approx(2.0, abs=5e-4)


def test_unused_shares_go_to_training() -> None:
    parts = split_budget(unused=[ConflictSketch.kind, LossGrid.kind])
    assert {item.release for item in parts} == set(DEFAULT_SHARES) - {
        "conflict-sketch",
        "loss-grid",
    }
    assert next(i.share for i in parts if i.release == "training-update") == pytest.approx(0.93)
    assert training_multiplier(parts) < training_multiplier(split_budget())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shares": {"training-update": 0.5}}, "sum to 1"),
        ({"shares": {"training-update": 0.5, "telepathy": 0.5}}, "'telepathy' is no release"),
        ({"shares": {"training-update": 0.5, "raw-query": 0.5}}, "'raw-query' is no release"),
        ({"shares": {"clip-bit": 1.0}}, "must have a share"),
        ({"unused": ["training-update"]}, "must have a share"),
        ({"participations": 0}, "at least 1"),
    ],
)
def test_bad_splits_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(PrivacyError, match=message):
        split_budget(**arguments)


@pytest.mark.parametrize(
    ("dimension", "nearly_lossless", "useful"),
    [
        (60_500_000, 44_000, 14_700),
        (6_600_000, 14_500, 4_800),
        (295_000, 3_100, 1_000),
        (147_000, 2_200, 724),
        (4_100, 362, 121),
    ],
)
def test_clients_needed_at_sigma_4(dimension: int, nearly_lossless: int, useful: int) -> None:
    common = {"noise_multiplier": 4.0, "dimension": dimension, "rounds": 50}
    assert clients_needed(**common, ratio=0.1) == pytest.approx(nearly_lossless, rel=0.03)
    assert clients_needed(**common, ratio=0.3) == pytest.approx(useful, rel=0.03)
    needed = clients_needed(**common)
    assert noise_to_signal(**common, clients_per_round=needed) <= 0.3 + 1e-12
    assert noise_to_signal(**common, clients_per_round=needed - 1) > 0.3


def test_the_papers_setting_is_declared_useless_with_a_way_out() -> None:
    result = plan(dimension=60_500_000, clients_per_round=10)
    assert not result.useful
    assert result.verdict.startswith("not useful")
    assert result.ratio > 100
    changes = " | ".join(proposal.change for proposal in result.proposals)
    for word in ("LoRA", "head", "client-mf", "clients per region and round instead", "budget"):
        assert word in changes
    enough = plan(dimension=60_500_000, clients_per_round=result.clients_for_useful)
    assert enough.useful
    assert enough.proposals == ()


def test_a_larger_budget_that_is_proposed_is_enough() -> None:
    result = plan(dimension=4_100, clients_per_round=100)
    assert not result.useful
    words = next(p.change for p in result.proposals if p.change.startswith("a budget"))
    larger = float(words.split("=")[1].split()[0])
    assert plan(dimension=4_100, clients_per_round=100, epsilon=larger * 1.01).useful
    assert not plan(dimension=4_100, clients_per_round=100, epsilon=larger * 0.97).useful


def test_a_private_run_that_is_useful() -> None:
    result = plan(dimension=4_100, clients_per_round=1_000, rounds=10, clients=2_000)
    assert result.useful
    assert result.rounds == 10


def test_participations_limit_the_rounds() -> None:
    result = plan(dimension=4_100, clients_per_round=1_000, rounds=50, clients=2_000)
    assert result.rounds == 10
    with pytest.raises(PrivacyError, match="cannot send"):
        plan(dimension=10, clients_per_round=20, clients=10)
    with pytest.raises(PrivacyError, match="at least 1"):
        plan(dimension=0, clients_per_round=20)
