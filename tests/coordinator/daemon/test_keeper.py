"""The keeper: one regional run, adopted or submitted, with a reason when there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest

from regionfed.bridge.desk import Desk
from regionfed.bridge.store import JobStore
from regionfed.errors import TransportError
from regionfed.flower.adapter import Control, RunState
from regionfed_coordinator.daemon.keeper import Keeper


class SuperLink:
    """Runs as a SuperLink would keep them, and the Control API on them."""

    def __init__(self) -> None:
        self.runs_by_id: dict[int, RunState] = {}
        self.settings: list[dict[str, object]] = []
        self.reachable = True
        self.fails_at_once = False
        self.connections = 0

    def connect(self) -> Control:
        self.connections += 1
        return cast(Control, self)

    def runs(self) -> list[RunState]:
        if not self.reachable:
            raise TransportError("the SuperLink at here:1 cannot be reached")
        return list(self.runs_by_id.values())

    def start_run(self, bundle: bytes, settings: Mapping[str, object]) -> int:
        run_id = len(self.runs_by_id) + 1
        self.runs_by_id[run_id] = RunState(run_id, "running")
        self.settings.append(dict(settings))
        if self.fails_at_once:
            self.end(run_id)
        return run_id

    def stop_run(self, run_id: int) -> bool:
        self.runs_by_id[run_id] = RunState(run_id, "finished", "stopped", "")
        return True

    def end(self, run_id: int) -> None:
        self.runs_by_id[run_id] = RunState(run_id, "finished", "failed", "no torch here")

    def close(self) -> None:
        pass

    @property
    def live(self) -> list[int]:
        return [run.run_id for run in self.runs_by_id.values() if run.live]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    store = JobStore(tmp_path, durable=False)
    yield Desk(store, region="north")
    store.close()


@pytest.fixture
def link() -> SuperLink:
    return SuperLink()


@pytest.fixture
def keeper(desk: Desk, link: SuperLink) -> Iterator[Keeper]:
    made = Keeper(link.connect, b"bundle", {"region": "north"}, desk, look=0.01)
    yield made
    made.stop()


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 10.0
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def test_a_run_is_submitted_and_shown(keeper: Keeper, link: SuperLink, desk: Desk) -> None:
    keeper.start()
    wait_for(lambda: desk.status().run_status == "running")
    assert desk.status().run == "1"
    assert link.settings == [{"region": "north"}]
    time.sleep(0.1)
    assert link.live == [1]


def test_a_live_run_is_adopted_and_extra_ones_are_stopped(
    keeper: Keeper, link: SuperLink, desk: Desk
) -> None:
    for run_id in (1, 2, 3):
        link.runs_by_id[run_id] = RunState(run_id, "running")
    keeper.start()
    wait_for(lambda: desk.status().run == "3")
    wait_for(lambda: link.live == [3])
    assert link.settings == []


def test_a_run_that_ends_is_replaced(keeper: Keeper, link: SuperLink, desk: Desk) -> None:
    keeper.start()
    wait_for(lambda: link.live == [1])
    link.end(1)
    wait_for(lambda: link.live == [2])
    wait_for(lambda: desk.status().run == "2")


def test_a_run_that_keeps_failing_is_not_hammered_and_its_reason_is_shown(
    keeper: Keeper, link: SuperLink, desk: Desk
) -> None:
    link.fails_at_once = True
    keeper.start()
    wait_for(lambda: "no torch here" in desk.status().run_status)
    time.sleep(0.3)
    # Thirty looks, but growing pauses between submissions.
    assert len(link.runs_by_id) <= 4


def test_an_unreachable_superlink_is_shown_and_tried_again(
    keeper: Keeper, link: SuperLink, desk: Desk
) -> None:
    link.reachable = False
    keeper.start()
    wait_for(lambda: "here:1 cannot be reached" in desk.status().run_status)
    link.reachable = True
    wait_for(lambda: link.live == [1])
    assert link.connections >= 2
