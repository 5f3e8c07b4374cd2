"""`plan` tells what a run would cost."""

from __future__ import annotations

import json

import pytest

from regionfed.cli.main import run
from regionfed.config.demo import DEMO_FILE
from regionfed.config.load import load_config
from regionfed.run.plan import RunPlan, plan_run


def planned(**overrides: object) -> RunPlan:
    return plan_run(load_config(DEMO_FILE, environ={}, overrides=overrides))


def test_the_demonstration() -> None:
    plan = planned()
    assert plan.regions == {"north": 2, "south": 2}
    assert plan.message_bytes == 4 * plan.parameters
    assert (plan.region_down, plan.region_up) == (2 * plan.message_bytes, plan.message_bytes)
    cost = {each.strategy: each for each in plan.strategies}
    assert {name: each.exchanges for name, each in cost.items()} == {
        "none": 2,
        "grad": 2,
        "interp": 3,
        "meta": 3,
        "residual": 2,
    }
    assert cost["none"].relative == 1.0
    assert [name for name, each in cost.items() if each.configured] == ["residual"]
    assert plan.privacy.startswith("off")


def test_a_narrow_search_needs_more_exchanges() -> None:
    cost = {each.strategy: each for each in planned(**{"method.rho.points": 5}).strategies}
    assert cost["grad"].exchanges == 4
    assert cost["grad"].down > cost["none"].down


def test_server_adam_sends_the_mean_update_too() -> None:
    plan = planned(**{"server.optimizer": "adam"})
    assert plan.region_down == 3 * plan.message_bytes


def test_the_routers_choices_are_marked() -> None:
    marked = {
        each.strategy
        for each in planned(**{"method.strategy": "dynamic-paper"}).strategies
        if each.configured
    }
    assert marked == {"grad", "interp", "meta"}


def test_scaffold_sends_one_more_vector_each_way_and_the_other_rivals_none() -> None:
    fedavg = planned(**{"method.strategy": "none"})
    for name, more in (("scaffold", fedavg.message_bytes), ("ditto", 0)):
        plan = planned(**{"method.strategy": name})
        cost = {each.strategy: each for each in plan.strategies}
        assert plan.region_down == fedavg.region_down + more
        assert plan.region_up == fedavg.region_up + more
        assert cost[name].down == cost["none"].down + more
        assert cost[name].up == cost["none"].up + more
        assert [each.strategy for each in plan.strategies if each.configured] == [name]
        assert plan.personalised == "never"


def test_hopeless_privacy_is_told_with_what_would_help() -> None:
    plan = planned(**{"privacy.mode": "client"})
    assert "not useful" in plan.privacy
    assert "what would help" in plan.privacy


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == "demo"


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan"]) == 0
    printed = capsys.readouterr().out
    assert "1 server, 2 regions, 4 clients" in printed
    assert "residual *" in printed


def test_data_that_are_not_there_are_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "--set", "data.source=queries", "--set", "data.root=/nowhere"]
    assert run(arguments) == 3
    assert "/nowhere" in capsys.readouterr().err
