"""Which control variates c counts, from a region's point of view."""

from __future__ import annotations

import numpy as np
import pytest

from regionfed.messages import RegionOrder, TrainOrder
from regionfed_coordinator.control import control_orders, counted_rounds, with_answers


def order(**counted: int) -> RegionOrder:
    theta = np.zeros(3, np.float32)
    return RegionOrder(
        run="run",
        round=9,
        rounds=9,
        digest="",
        layout="",
        theta=theta,
        shared={"counted": counted},
        control=theta + 1,
    )


@pytest.mark.parametrize(
    ("last", "left"),
    [
        (5, {"a": [2, 5], "b": [3]}),
        (4, {"a": [2], "b": [3]}),
        (2, {"a": [2]}),
        (0, {}),
    ],
)
def test_rounds_that_the_server_did_not_take_in_do_not_count(
    last: int, left: dict[str, list[int]]
) -> None:
    assert counted_rounds({"a": [2, 5], "b": [3]}, order(r0=last, r1=9), "r0") == left


def test_a_server_that_never_took_a_release_counts_nothing() -> None:
    assert counted_rounds({"a": [1]}, order(r1=9), "r0") == {}


def test_only_those_who_answered_move_and_few_rounds_are_kept() -> None:
    rounds = {"a": [1, 2, 3], "b": [3]}
    after = with_answers(rounds, ["a", "c"], round=4, keep=3)
    assert after == {"a": [2, 3, 4], "b": [3], "c": [4]}
    assert rounds == {"a": [1, 2, 3], "b": [3]}


def test_each_client_is_told_its_own_round_and_equal_ones_share_a_message() -> None:
    given = order(r0=5)
    message = TrainOrder(run="run", region="r0", round=9, digest="", layout="", start=given.theta)
    orders = control_orders(message, given, ["a", "b", "c", "d"], {"a": [2, 5], "b": [5]})
    assert {name: each.control_round for name, each in orders.items()} == {
        "a": 5,
        "b": 5,
        "c": 0,
        "d": 0,
    }
    assert orders["a"] is orders["b"]
    assert orders["c"] is orders["d"]
    assert orders["a"].control is given.control
