"""The unmasked sum is the plain integer sum, bit for bit (cases 19 and 20)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from secagg_rig import Rig, names, plain_sum

from regionfed.secagg import Block, SecAggCoordinator, decode, encode, signed_sum
from regionfed.secagg.errors import StageRegression, TooFewSurvivors


def _every_pattern(count: int) -> None:
    rig = Rig.create(count)
    vectors = rig.vectors(count)
    opened = rig.opened()
    replies = rig.masked(opened, vectors)
    saved = dict(rig.states)
    threshold = opened.graph.threshold
    assert threshold >= 2 * count / 3
    for lost in range(count - threshold + 1):
        for dropped in combinations(rig.keys, lost):
            coordinator = rig.reload(opened)
            for name in set(rig.keys) - set(dropped):
                coordinator.receive_masked(name, *replies[name])
            coordinator.close_masking()
            rig.states = dict(saved)
            # The last t survivors answer: any t of them must do.
            for name in coordinator.survivors[-threshold:]:
                assert not coordinator.ready
                coordinator.receive_unmask(name, rig.unmask(name, coordinator.unmask_message(name)))
            expected = plain_sum(vectors, coordinator.survivors)
            np.testing.assert_array_equal(coordinator.finish(), expected)


@pytest.mark.parametrize("count", range(3, 12))
def test_sum_is_exact_for_every_dropout_pattern(count: int) -> None:
    _every_pattern(count)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sum_is_exact_for_every_dropout_pattern_of_twelve() -> None:
    _every_pattern(12)


def _random_losses(
    rig: Rig, rng: np.random.Generator, threshold: int
) -> tuple[set[str], set[str], set[str]]:
    """Absent at opening, dropped while training, silent at unmasking."""
    order = list(rng.permutation(list(rig.keys)))
    spare = len(order) - threshold
    absent = set(order[: rng.integers(0, spare + 1)])
    dropped = set(order[len(absent) : len(absent) + rng.integers(0, spare - len(absent) + 1)])
    rest = order[len(absent) + len(dropped) :]
    silent = set(rest[: rng.integers(0, len(rest) - threshold + 1)])
    return absent, dropped, silent


@pytest.mark.parametrize("seed", range(6))
def test_sum_is_exact_when_clients_are_lost_at_any_exchange(seed: int) -> None:
    rig = Rig.create(11)
    rng = np.random.default_rng(seed)
    absent, dropped, silent = _random_losses(rig, rng, rig.config.threshold(11))
    vectors = rig.vectors(seed)
    total = rig.run(vectors, absent=absent, dropped=dropped, silent=silent)
    np.testing.assert_array_equal(total, plain_sum(vectors, set(rig.keys) - absent - dropped))


def _sparse_losses(rig: Rig, coordinator: SecAggCoordinator, rng: np.random.Generator) -> set[str]:
    """As many dropouts as every neighbourhood can bear, in random order."""
    dropped: set[str] = set()
    for name in rng.permutation(list(rig.keys)):
        trial = dropped | {str(name)}
        enough = len(rig.keys) - len(trial) >= coordinator.graph.threshold
        if enough and all(
            len(set(coordinator.graph.holders(other)) - trial) >= coordinator.graph.share_threshold
            for other in rig.keys
        ):
            dropped = trial
    return dropped


def _random_patterns(rig: Rig, patterns: int) -> None:
    rng = np.random.default_rng(1)
    vectors = rig.vectors(2)
    opened = rig.opened()
    replies = rig.masked(opened, vectors)
    saved = dict(rig.states)
    for _ in range(patterns):
        dropped = _sparse_losses(rig, opened, rng)
        assert dropped
        coordinator = rig.reload(opened)
        for name in set(rig.keys) - dropped:
            coordinator.receive_masked(name, *replies[name])
        coordinator.close_masking()
        rig.states = dict(saved)
        for name in rng.permutation(coordinator.survivors):
            if coordinator.ready:
                break
            coordinator.receive_unmask(
                str(name), rig.unmask(str(name), coordinator.unmask_message(str(name)))
            )
        expected = plain_sum(vectors, set(rig.keys) - dropped)
        np.testing.assert_array_equal(coordinator.finish(), expected)


def test_sum_is_exact_on_the_regular_graph() -> None:
    rig = Rig.create(32, complete_limit=24, neighbours=20)
    assert len(rig.start().graph.holders("client-003")) == 21
    _random_patterns(rig, 2)


def test_sum_is_exact_with_a_hundred_clients() -> None:
    rig = Rig.create(100, length=17)
    assert rig.start().graph.complete
    _random_patterns(rig, 2)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sum_is_exact_with_three_hundred_clients() -> None:
    rig = Rig.create(300, length=17)
    assert len(rig.start().graph.holders("client-007")) == 101
    _random_patterns(rig, 2)


def test_below_the_threshold_the_round_aborts_and_stays_masked() -> None:
    rig = Rig.create(6)
    vectors = rig.vectors()
    coordinator = rig.opened()
    replies = rig.masked(coordinator, vectors)
    survivors = names(3)
    for name in survivors:
        coordinator.receive_masked(name, *replies[name])
    with pytest.raises(TooFewSurvivors, match="3 of 6 clients survived, t = 4"):
        coordinator.close_masking()
    with pytest.raises(StageRegression):
        coordinator.unmask_message(survivors[0])
    with pytest.raises(StageRegression):
        coordinator.finish()
    assert np.any(coordinator.total != plain_sum(vectors, survivors))


def test_below_the_threshold_of_answers_the_sum_stays_masked() -> None:
    rig = Rig.create(6)
    vectors = rig.vectors()
    with pytest.raises(TooFewSurvivors, match="3 of 6 survivors handed out"):
        rig.run(vectors, silent=names(3))


def test_too_few_that_open_the_round_abort_it() -> None:
    rig = Rig.create(6)
    with pytest.raises(TooFewSurvivors, match="3 of 6 clients opened the round"):
        rig.opened(absent=names(3))


def test_a_neighbourhood_below_its_threshold_aborts_the_round() -> None:
    """On the regular graph enough clients may survive and one of them still lack neighbours."""
    rig = Rig.create(32, complete_limit=24, neighbours=20)
    coordinator = rig.opened()
    replies = rig.masked(coordinator, rig.vectors())
    lonely = [name for name in coordinator.graph.holders("client-005") if name != "client-005"]
    spare = 32 - coordinator.graph.threshold
    for name in set(rig.keys) - set(lonely[:spare]):
        coordinator.receive_masked(name, *replies[name])
    with pytest.raises(TooFewSurvivors, match="more `neighbours`"):
        coordinator.close_masking()
    with pytest.raises(StageRegression):
        coordinator.finish()


def test_several_blocks_share_one_vector_each_with_its_own_clip() -> None:
    blocks = (
        Block("update", 40, clip=1.0, scale=2.0**20),
        Block("sketch", 8, clip=2.0, scale=2.0**16),
        Block("examples", 1, clip=5000.0, scale=1.0),
    )
    rig = Rig.create(4, blocks=blocks)
    rng = np.random.default_rng(0)
    plain = {
        name: {
            "update": rng.normal(size=40).astype(np.float32) / 10,
            "sketch": rng.normal(size=8),
            "examples": np.array([100.0 * number]),
        }
        for number, name in enumerate(rig.keys, start=1)
    }
    vectors = {name: encode(values, rig.config, rng=rng) for name, values in plain.items()}
    sums = signed_sum(rig.run(vectors, dropped=["client-001"]), rig.config, clients=3)
    assert sums["examples"].tolist() == [100 + 300 + 400]
    for block in blocks[:2]:
        expected = np.zeros(block.length)
        for name in set(rig.keys) - {"client-001"}:
            value = plain[name][block.name].astype(np.float64)
            expected += value * min(1.0, block.clip / np.linalg.norm(value))
        real = decode(sums[block.name], block, dtype=np.float64)
        np.testing.assert_allclose(real, expected, atol=3 / block.scale)


def test_the_next_round_opens_before_this_one_is_unmasked() -> None:
    """Two exchanges a round once running: unmask round r and open r + 1 in one message."""
    rig = Rig.create(5)
    coordinator = rig.opened(round=1)
    for round_number in range(1, 4):
        vectors = rig.vectors(round_number)
        for name, (reply, vector) in rig.masked(coordinator, vectors).items():
            if name != "client-002":
                coordinator.receive_masked(name, reply, vector)
        coordinator.close_masking()
        following = rig.start(round=round_number + 1)
        for name in coordinator.survivors:
            coordinator.receive_unmask(name, rig.unmask(name, coordinator.unmask_message(name)))
            following.receive_open(name, rig.open(name, following.open_message()))
        following.receive_open("client-002", rig.open("client-002", following.open_message()))
        np.testing.assert_array_equal(
            coordinator.finish(), plain_sum(vectors, coordinator.survivors)
        )
        following.close_opening()
        coordinator = rig.reload(following)
