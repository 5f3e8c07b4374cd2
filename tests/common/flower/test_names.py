"""Names of nodes: registered, claimed, contradicted, doubled (cases 12, 31, 37)."""

from __future__ import annotations

from functools import partial

import pytest
from flwr.app import Context, Message, RecordDict
from regionfed.errors import IdentityError, RegionFedError, TransportError
from regionfed.flower import adapter, names
from regionfed.flower.local import Fault, LocalGrid
from regionfed.flower.names import NodeName, client_resolver, identify, resolve_names


@pytest.fixture(autouse=True)
def _identity() -> None:
    adapter.adopt_identity(run_id=7)


def node(message: Message, *, region: str = "", client: str = "") -> Message:
    config = {key: value for key, value in (("region", region), ("client", client)) if value}
    context = Context(run_id=7, node_id=1, node_config=config, state=RecordDict(), run_config={})
    return identify(message, context)


def test_claims_and_registered_names_agree() -> None:
    grid = LocalGrid(
        {1: partial(node, region="south", client="c1"), 2: partial(node, region="north")},
        names={2: "north"},
    )
    assert list(resolve_names(grid, 5.0).items()) == [
        (2, NodeName("north")),
        (1, NodeName("south", "c1")),
    ]


def test_problem_nodes_are_left_out_with_a_reason() -> None:
    grid = LocalGrid(
        {
            1: partial(node, region="north", client="c1"),
            2: partial(node, region="north", client="c1"),
            3: node,
            4: partial(node, region="north", client="c4"),
            5: partial(node, region="north", client="c5"),
        },
        names={1: "north/c9", 5: "a/b/c"},
    )
    grid.inject(4, Fault(silent=True))
    problems: dict[int, RegionFedError] = {}
    found = resolve_names(grid, 0.2, on_problem=problems.__setitem__)
    assert found == {2: NodeName("north", "c1")}
    assert isinstance(problems[1], IdentityError)
    assert "registered as north/c9" in str(problems[1])
    assert "--node-config" in str(problems[3])
    assert isinstance(problems[4], TransportError)
    assert "a/b/c" in str(problems[5])


def test_a_registered_node_counts_before_one_that_only_claims_the_name() -> None:
    same = partial(node, region="north", client="c1")
    problems: dict[int, RegionFedError] = {}
    found = resolve_names(
        LocalGrid({1: same, 2: same}, names={1: "north/c1"}),
        5.0,
        on_problem=problems.__setitem__,
    )
    assert found == {1: NodeName("north", "c1")}
    assert set(problems) == {2}


def test_another_version_is_named() -> None:
    def other(message: Message) -> Message:
        answer = node(message, region="north")
        answer.content[names.IDENTITY]["version"] = "0.0.1"
        return answer

    problems: dict[int, RegionFedError] = {}
    assert resolve_names(LocalGrid({1: other}), 5.0, on_problem=problems.__setitem__) == {}
    assert "regionfed 0.0.1" in str(problems[1])


def test_a_client_of_another_region_is_not_resolved() -> None:
    grid = LocalGrid(
        {1: partial(node, region="north", client="c1"), 2: partial(node, region="south")}
    )
    problems: dict[int, RegionFedError] = {}
    resolve = client_resolver("north", deadline=5.0, on_problem=problems.__setitem__)
    assert resolve(grid, [1, 2]) == {1: "c1"}
    assert "not a client of region 'north'" in str(problems[2])
