"""Names of nodes: registered, claimed, contradicted, of another version (cases 12, 31, 37)."""

from __future__ import annotations

import time
from functools import partial

import pytest
from flwr.app import Context, Message, RecordDict

from regionfed.errors import IdentityError, RegionFedError, TransportError
from regionfed.flower import adapter, names
from regionfed.flower.local import Fault, LocalGrid
from regionfed.flower.names import NodeName, client_resolver, identify, region_resolver


@pytest.fixture(autouse=True)
def _identity() -> None:
    adapter.adopt_identity(run_id=7)


@pytest.fixture
def problems() -> dict[int, RegionFedError]:
    return {}


def node(message: Message, *, region: str = "", client: str = "") -> Message:
    config = {key: value for key, value in (("region", region), ("client", client)) if value}
    context = Context(run_id=7, node_id=1, node_config=config, state=RecordDict(), run_config={})
    return identify(message, context)


def test_coordinators_are_named_by_region(problems: dict[int, RegionFedError]) -> None:
    grid = LocalGrid(
        {
            1: partial(node, region="south"),
            2: partial(node, region="north"),
            3: partial(node, region="north", client="c1"),
        },
        names={2: "north"},
    )
    resolve = region_resolver(on_problem=problems.__setitem__)
    assert resolve(grid, [1, 2, 3]) == {1: "south", 2: "north"}
    assert "is a client, but it joined the global server" in str(problems[3])


def test_problem_nodes_are_left_out_with_a_reason(problems: dict[int, RegionFedError]) -> None:
    def crash(message: Message) -> Message:
        raise RuntimeError("no torch here")

    grid = LocalGrid(
        {
            1: partial(node, region="north", client="c1"),
            2: partial(node, region="north", client="c2"),
            3: node,
            4: crash,
            5: partial(node, region="north", client="c5"),
            6: partial(node, region="south", client="c1"),
        },
        names={1: "north/c9", 2: "north/c2", 5: "a/b/c"},
    )
    resolve = client_resolver("north", on_problem=problems.__setitem__)
    assert resolve(grid, range(1, 7)) == {2: "c2"}
    assert isinstance(problems[1], IdentityError)
    assert "registered as north/c9, but it claims to be north/c1" in str(problems[1])
    assert "--node-config" in str(problems[3])
    assert "no torch here" in str(problems[4])
    assert "a/b/c" in str(problems[5])
    assert "not a client of region 'north'" in str(problems[6])


def test_a_silent_node_does_not_hold_up_the_others_and_is_named_later(
    problems: dict[int, RegionFedError],
) -> None:
    grid = LocalGrid({i: partial(node, region="north", client=f"c{i}") for i in (1, 2)})
    grid.inject(2, Fault(delay=0.4))
    resolve = names.NameResolver(
        lambda name: name.client, deadline=5.0, wait=0.1, on_problem=problems.__setitem__
    )
    assert resolve(grid, [1, 2]) == {1: "c1"}
    time.sleep(0.4)
    # An answer that comes while another node is asked for is not lost.
    assert resolve(grid, [1]) == {1: "c1"}
    assert resolve(grid, [2]) == {2: "c2"}
    assert problems == {}


def test_a_node_that_stays_silent_is_reported_once_and_asked_again(
    problems: dict[int, RegionFedError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "_REASK_S", 0.4)
    reports: list[int] = []

    def report(node_id: int, problem: RegionFedError) -> None:
        reports.append(node_id)
        problems[node_id] = problem

    grid = LocalGrid({1: partial(node, region="north")}, names={1: "north"})
    grid.inject(1, Fault(silent=True))
    resolve = region_resolver(deadline=0.1, on_problem=report)
    end = time.monotonic() + 0.35
    while time.monotonic() < end:
        assert resolve(grid, [1]) == {}
    assert "registered as north" in str(problems[1])
    assert reports == [1]
    grid.inject(1, None)
    end = time.monotonic() + 5.0
    found: dict[int, str] = {}
    while not found and time.monotonic() < end:
        found = resolve(grid, [1])
    assert found == {1: "north"}


def test_an_answer_after_the_deadline_still_names_the_node(
    problems: dict[int, RegionFedError],
) -> None:
    grid = LocalGrid({1: partial(node, region="north")})
    grid.inject(1, Fault(delay=0.2))
    resolve = region_resolver(deadline=0.1, on_problem=problems.__setitem__)
    assert resolve(grid, [1]) == {}
    time.sleep(0.2)
    assert resolve(grid, [1]) == {1: "north"}


def test_case_37_another_version_is_named(problems: dict[int, RegionFedError]) -> None:
    def other(message: Message) -> Message:
        answer = node(message, region="north")
        answer.content[names.IDENTITY]["version"] = "0.0.1"
        return answer

    resolve = region_resolver(on_problem=problems.__setitem__)
    assert resolve(LocalGrid({1: other}), [1]) == {}
    assert isinstance(problems[1], TransportError)
    assert "north runs regionfed 0.0.1" in str(problems[1])


def test_a_node_with_a_wrong_name_is_not_asked_twice() -> None:
    asked: list[int] = []

    def counting(message: Message) -> Message:
        asked.append(1)
        return node(message)

    resolve = region_resolver(on_problem=lambda node_id, problem: None)
    grid = LocalGrid({1: counting})
    assert resolve(grid, [1]) == {}
    assert resolve(grid, [1]) == {}
    assert len(asked) == 1


@pytest.mark.parametrize("text", ["", "/c1", "north/", "north/c1/x"])
def test_names_that_are_no_names(text: str) -> None:
    with pytest.raises(IdentityError, match="REGION or REGION/CLIENT"):
        NodeName.parse(text)
