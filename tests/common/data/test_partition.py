"""Placement is a partition, is the same everywhere, and keeps its promises."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regionfed.data import partition
from regionfed.errors import DataError


@given(
    seed=st.integers(0, 2**32),
    clients=st.integers(1, 6),
    alpha=st.sampled_from([0.1, 0.3, 1.0, 100.0]),
    labels=st.lists(st.sampled_from("abcd"), min_size=60, max_size=200),
)
@settings(max_examples=60, deadline=None)
def test_dirichlet_gives_every_row_to_one_client_with_min_rows(seed, clients, alpha, labels):
    def draw():
        return partition.by_dirichlet(
            labels,
            clients=clients,
            alpha=alpha,
            min_rows=3,
            max_draws=5000,
            rng=np.random.default_rng(seed),
            where="region r",
        )

    owner, shares = draw()
    counts = np.bincount(owner, minlength=clients)
    assert counts.sum() == len(labels)
    assert len(counts) == clients
    assert counts.min() >= 3
    assert all(np.isclose(share.sum(), 1) for share in shares.values())
    assert np.array_equal(owner, draw()[0])


def test_smaller_alpha_is_more_uneven():
    labels = list("abcdefgh") * 200

    def spread(alpha: float) -> float:
        owner, _ = partition.by_dirichlet(
            labels,
            clients=8,
            alpha=alpha,
            min_rows=1,
            max_draws=500,
            rng=np.random.default_rng(3),
            where="region r",
        )
        histogram = np.zeros((8, 8))
        np.add.at(histogram, (owner, [ord(label) - 97 for label in labels]), 1)
        return float(histogram.std())

    assert spread(0.1) > 2 * spread(10) > 2 * spread(1000)


def test_too_few_rows_is_an_error_that_says_what_to_change():
    with pytest.raises(DataError, match=r"region r07: 9 rows cannot give 5 clients at least 2"):
        partition.by_dirichlet(
            ["a"] * 9,
            clients=5,
            alpha=1,
            min_rows=2,
            max_draws=10,
            rng=np.random.default_rng(0),
            where="region r07",
        )


def test_min_rows_out_of_reach_stops_after_max_draws():
    with pytest.raises(DataError, match=r"3 Dirichlet draws with partition\.alpha = 0\.01"):
        partition.by_dirichlet(
            ["a"] * 100,
            clients=5,
            alpha=0.01,
            min_rows=19,
            max_draws=3,
            rng=np.random.default_rng(0),
            where="region r",
        )


@given(sizes=st.dictionaries(st.text("abcdef", min_size=1), st.integers(1, 1000), min_size=1))
def test_categories_are_owned_equally_often(sizes):
    owners = partition.owners_by_size(sizes, regions=4)
    assert set(owners) == set(sizes)
    counts = np.bincount(list(owners.values()), minlength=4)
    assert counts.max() <= -(-len(sizes) // 4)


def test_24_categories_give_8_regions_three_each_of_similar_size():
    sizes = {f"c{index:02d}": 100 + 10 * index for index in range(24)}
    owners = partition.owners_by_size(sizes, regions=8)
    rows = [sum(size for name, size in sizes.items() if owners[name] == r) for r in range(8)]
    assert np.bincount(list(owners.values())).tolist() == [3] * 8
    assert max(rows) < 1.15 * min(rows)


def test_rows_go_home_as_often_as_said_and_evenly_elsewhere():
    regions = partition.by_category(
        ["x"] * 40_000,
        owners={"x": 2},
        regions=8,
        home_probability=0.7,
        rng=np.random.default_rng(0),
    )
    share = np.bincount(regions, minlength=8) / 40_000
    assert share[2] == pytest.approx(0.7, abs=0.01)
    assert np.delete(share, 2) == pytest.approx([0.3 / 7] * 7, abs=0.005)


@pytest.mark.parametrize("how", ["semantic", "random", "adversarial"])
@given(regions=st.integers(1, 9), clients=st.integers(1, 12), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_assignments_seat_everyone_once(how, regions, clients, seed):
    seats = partition.assign_clients(regions, clients=clients, how=how, seed=seed)
    flat = [place for row in seats for place in row]
    assert sorted(flat) == [(r, c) for r in range(regions) for c in range(clients)]


def test_adversarial_regions_mix_all_and_semantic_ones_none():
    mixed = partition.assign_clients(4, clients=8, how="adversarial", seed=0)
    assert all(np.bincount([region for region, _ in row]).tolist() == [2, 2, 2, 2] for row in mixed)
    apart = partition.assign_clients(4, clients=8, how="semantic", seed=0)
    assert [{region for region, _ in row} for row in apart] == [{0}, {1}, {2}, {3}]


def test_split_follows_the_text_and_keeps_the_shares():
    texts = [f"query {index}" for index in range(20_000)]
    splits = [partition.split_by_hash(text, validation_share=0.1, test_share=0.2) for text in texts]
    assert splits.count("test") / len(texts) == pytest.approx(0.2, abs=0.01)
    assert splits.count("validation") / len(texts) == pytest.approx(0.1, abs=0.01)


def test_streams_are_the_same_in_another_process():
    code = (
        "from regionfed.data.partition import stream, unit_hash\n"
        "print(stream(7, 'client', 'r03', 5).integers(1 << 40), unit_hash('red tire', seed=2))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "12345"},
    )
    here = partition.stream(7, "client", "r03", 5).integers(1 << 40)
    assert other.stdout.split() == [str(here), str(partition.unit_hash("red tire", seed=2))]


def test_streams_differ_by_seed_and_words():
    draws = {
        int(partition.stream(seed, *words).integers(1 << 60))
        for seed in (1, 2)
        for words in (("a", 1), ("a", 2), ("b", 1), ("a1",))
    }
    assert len(draws) == 8
