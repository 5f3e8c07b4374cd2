"""One suite for every implementation of the bridge: the invariants of bridge/api.py."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from regionfed.bridge.api import (
    BridgeTimeout,
    Job,
    JobResult,
    RegionBridge,
    WorkerSuperseded,
)
from regionfed.bridge.client import GrpcBridge
from regionfed.bridge.desk import MAX_ATTEMPTS, Desk
from regionfed.bridge.local import LocalBridge
from regionfed.bridge.store import JobStore
from regionfed.errors import BudgetExhausted, PrivacyError, StateError
from regionfed_coordinator.daemon.server import DeskServer


class CountingLedger:
    """Answers with the number of charges; refuses as its event says."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def charge(self, event_json: str) -> str:
        if "refuse" in event_json:
            raise BudgetExhausted("epsilon 8.1 of 8.0 would be spent; stop here")
        self.events.append(event_json)
        return json.dumps({"charges": len(self.events)})


class Bench:
    """A desk that can be restarted, and bridges to it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.ledger = CountingLedger()
        self.server: DeskServer | None = None
        self.bind = "127.0.0.1:0"
        self.open: list[RegionBridge] = []
        self.start()

    def start(self) -> None:
        self.store = JobStore(self.folder, keep=2, durable=False)
        self.desk = Desk(self.store, region="north", ledger=self.ledger)
        if self.kind == "grpc":
            self.server = DeskServer(self.desk, self.bind)
            self.bind = f"127.0.0.1:{self.server.port}"

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop(0)
        self.store.close()

    def bridge(self) -> RegionBridge:
        made: RegionBridge
        if self.kind == "grpc":
            made = GrpcBridge(self.bind, patience=20.0)
        else:
            made = LocalBridge(self.desk)
        self.open.append(made)
        return made

    def restarted(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        for bridge in self.open:
            bridge.close()
        self.stop()


@pytest.fixture(params=["local", "grpc"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "desk", request.param)
    yield made
    made.close()


def content(value: float = 1.0, size: int = 5) -> RecordDict:
    return RecordDict(
        {
            "theta": ArrayRecord({"flat": Array(np.full(size, value, np.float32))}),
            "order": ConfigRecord({"round": 3, "name": "näme", "deep": [1, 2], "on": True}),
        }
    )


def value_of(record: RecordDict | None) -> float:
    assert record is not None
    return float(record.array_records["theta"]["flat"].numpy()[0])


def test_a_job_travels_down_and_its_result_up(bench: Bench) -> None:
    up, down = bench.bridge(), bench.bridge()
    assert up.submit(Job("7:1:train", "train", content(2.0))) == "queued"
    job = down.next_job("w1", 5.0, 3)
    assert job is not None
    assert (job.job_id, job.kind, job.content) == ("7:1:train", "train", content(2.0))
    assert down.push_result(JobResult(job.job_id, "result", content(4.0))) is True
    result = up.fetch("7:1:train", 5.0)
    assert (result.kind, result.error, result.content) == ("result", "", content(4.0))


def test_a_fetch_waits_for_the_result_and_a_worker_for_the_job(bench: Bench) -> None:
    up, down = bench.bridge(), bench.bridge()
    got: list[JobResult] = []

    def ask() -> None:
        time.sleep(0.1)
        up.submit(Job("7:1:train", "train", content()))
        got.append(up.fetch("7:1:train", 10.0))

    thread = threading.Thread(target=ask)
    thread.start()
    job = down.next_job("w1", 10.0, 1)
    assert job is not None
    time.sleep(0.1)
    down.push_result(JobResult(job.job_id, "result", content(9.0)))
    thread.join(10.0)
    assert value_of(got[0].content) == 9.0


def test_a_second_submission_changes_nothing(bench: Bench) -> None:
    up, down = bench.bridge(), bench.bridge()
    up.submit(Job("7:1:train", "train", content(1.0)))
    assert up.submit(Job("7:1:train", "train", content(5.0))) == "queued"
    job = down.next_job("w1", 5.0, 1)
    assert job is not None
    assert value_of(job.content) == 1.0
    assert up.submit(Job("7:1:train", "train", content(5.0))) == "leased"
    down.push_result(JobResult("7:1:train", "result", content(2.0)))
    assert up.submit(Job("7:1:train", "train", content(5.0))) == "done"
    assert down.next_job("w1", 0.0, 1) is None
    assert value_of(up.fetch("7:1:train", 1.0).content) == 2.0
    assert value_of(up.fetch("7:1:train", 1.0).content) == 2.0


def test_result_and_state_are_committed_together_and_once(bench: Bench) -> None:
    up, down = bench.bridge(), bench.bridge()
    assert down.load_state() is None
    up.submit(Job("7:1:train", "train", content()))
    assert down.next_job("w1", 5.0, 1) is not None
    assert down.push_result(JobResult("7:1:train", "result", content(1.0)), content(10.0))
    assert value_of(down.load_state()) == 10.0
    again = down.push_result(JobResult("7:1:train", "result", content(2.0)), content(20.0))
    assert again is False
    assert value_of(down.load_state()) == 10.0
    assert value_of(up.fetch("7:1:train", 1.0).content) == 1.0


def test_a_result_without_state_leaves_the_state(bench: Bench) -> None:
    up, down = bench.bridge(), bench.bridge()
    for number, state in ((1, content(10.0)), (2, None)):
        up.submit(Job(f"7:{number}:train", "train", content()))
        down.next_job("w1", 5.0, 1)
        down.push_result(JobResult(f"7:{number}:train", "result", content()), state)
    assert value_of(down.load_state()) == 10.0


def test_an_error_result_reaches_the_asker(bench: Bench) -> None:
    up, down = bench.bridge(), bench.bridge()
    up.submit(Job("7:1:train", "train", content()))
    down.next_job("w1", 5.0, 1)
    down.push_result(JobResult("7:1:train", "error", error="2 clients, the quorum is 3"))
    result = up.fetch("7:1:train", 5.0)
    assert (result.kind, result.error) == ("error", "2 clients, the quorum is 3")


def test_everything_survives_a_restart_of_the_desk(bench: Bench) -> None:
    up, down = bench.bridge(), bench.bridge()
    up.submit(Job("7:1:train", "train", content(1.0)))
    down.next_job("w1", 5.0, 1)
    down.push_result(JobResult("7:1:train", "result", content(2.0)), content(3.0))
    up.submit(Job("7:2:train", "train", content(4.0)))
    assert down.next_job("w1", 5.0, 1) is not None

    bench.restarted()
    up, down = bench.bridge(), bench.bridge()

    assert value_of(up.fetch("7:1:train", 1.0).content) == 2.0
    assert value_of(down.load_state()) == 3.0
    job = down.next_job("w1", 1.0, 1)
    assert job is not None
    assert (job.job_id, value_of(job.content)) == ("7:2:train", 4.0)
    assert down.push_result(JobResult("7:2:train", "result", content(5.0)), content(6.0))


def test_a_new_worker_takes_over_and_the_old_one_is_refused(bench: Bench) -> None:
    up, old, new = bench.bridge(), bench.bridge(), bench.bridge()
    up.submit(Job("7:1:train", "train", content()))
    assert old.next_job("w1", 5.0, 1) is not None
    taken = new.next_job("w2", 5.0, 1)
    assert taken is not None
    assert taken.job_id == "7:1:train"
    with pytest.raises(WorkerSuperseded, match="w2"):
        old.push_result(JobResult("7:1:train", "result", content(1.0)), content(1.0))
    with pytest.raises(WorkerSuperseded, match="has to stop"):
        old.next_job("w1", 0.0, 1)
    assert new.load_state() is None
    assert new.push_result(JobResult("7:1:train", "result", content(2.0)), content(2.0))
    assert value_of(up.fetch("7:1:train", 1.0).content) == 2.0


def test_a_job_that_kills_every_worker_is_given_up_with_a_reason(bench: Bench) -> None:
    up, down = bench.bridge(), bench.bridge()
    up.submit(Job("7:1:train", "train", content()))
    for attempt in range(MAX_ATTEMPTS):
        assert down.next_job(f"w{attempt}", 1.0, 1) is not None
    assert down.next_job("last", 0.0, 1) is None
    result = up.fetch("7:1:train", 1.0)
    assert result.kind == "error"
    assert "none finished it" in result.error


def test_a_worker_that_asks_again_gets_its_job_again(bench: Bench) -> None:
    up, down = bench.bridge(), bench.bridge()
    up.submit(Job("7:1:train", "train", content()))
    for _ in range(MAX_ATTEMPTS + 2):
        job = down.next_job("w1", 1.0, 1)
        assert job is not None


def test_waits_end_at_their_deadline_and_say_what_was_awaited(bench: Bench) -> None:
    up, down = bench.bridge(), bench.bridge()
    start = time.monotonic()
    assert down.next_job("w1", 0.2, 1) is None
    up.submit(Job("7:1:train", "train", content()))
    with pytest.raises(BridgeTimeout, match=r"no result of job 7:1:train .*queued.*w1"):
        up.fetch("7:1:train", 0.2)
    assert time.monotonic() - start < 5.0
    with pytest.raises(StateError, match="not known to region 'north'"):
        up.fetch("7:9:train", 0.2)


def test_a_charge_is_answered_and_a_refusal_keeps_its_class_and_words(bench: Bench) -> None:
    bridge = bench.bridge()
    assert json.loads(bridge.charge('{"event": 1}')) == {"charges": 1}
    assert json.loads(bridge.charge('{"event": 1}')) == {"charges": 2}
    with pytest.raises(BudgetExhausted, match=r"^epsilon 8\.1 of 8\.0 would be spent; stop here$"):
        bridge.charge("refuse")
    assert len(bench.ledger.events) == 2


def test_a_repeated_charge_request_is_charged_once(bench: Bench) -> None:
    first = bench.desk.charge("{}", "request-1")
    bench.restarted()
    assert bench.desk.charge("{}", "request-1") == first
    assert len(bench.ledger.events) == 1


def test_status_shows_what_the_ledger_said_was_spent_also_after_a_restart(bench: Bench) -> None:
    assert "epsilon" not in bench.bridge().status().progress
    for number, answer in enumerate(('{"epsilon": 0.5}', '{"epsilon": 0.75}', "{}")):
        bench.desk.store.note_charge(f"request-{number}", answer)
    assert bench.bridge().status().progress["epsilon"] == 0.75
    bench.restarted()
    assert bench.bridge().status().progress["epsilon"] == 0.75


def test_without_a_ledger_nothing_can_be_charged(bench: Bench) -> None:
    bench.ledger = None  # type: ignore[assignment]  # a desk without privacy
    bench.restarted()
    with pytest.raises(PrivacyError, match="no privacy ledger"):
        bench.bridge().charge("{}")


def test_status_shows_jobs_worker_and_progress(bench: Bench) -> None:
    up, down = bench.bridge(), bench.bridge()
    status = up.status()
    assert (status.region, status.worker_age_s, status.progress_age_s) == ("north", -1.0, -1.0)
    up.submit(Job("7:1:train", "train", content()))
    down.next_job("w1", 1.0, 2)
    down.report({"phase": "train", "round": 1, "live": ["c0"], "late": ["c1"], "error": ""})
    bench.desk.note_run("123", "running")
    status = up.status()
    assert status.jobs == {"7:1:train": "leased"}
    assert (status.worker_id, status.nodes_online) == ("w1", 2)
    assert 0 <= status.worker_age_s < 5
    assert status.progress["late"] == ["c1"]
    assert (status.run, status.run_status) == ("123", "running")


def test_old_results_are_pruned_but_never_done_again(bench: Bench) -> None:
    up, down = bench.bridge(), bench.bridge()
    for number in range(5):
        up.submit(Job(f"7:{number}:train", "train", content()))
        down.next_job("w1", 1.0, 1)
        down.push_result(JobResult(f"7:{number}:train", "result", content()), content(number))
    # Two results and one state.
    assert len(list((bench.folder / "spool").iterdir())) == 3
    assert up.submit(Job("7:0:train", "train", content())) == "done"
    assert down.next_job("w1", 0.0, 1) is None
    with pytest.raises(StateError, match="no longer kept"):
        up.fetch("7:0:train", 1.0)


def test_every_kind_of_record_returns_as_it_was(bench: Bench) -> None:
    rng = np.random.default_rng(0)
    record = RecordDict(
        {
            "big": ArrayRecord(
                {
                    "a": Array(rng.standard_normal(700_001, dtype=np.float32)),
                    "b": Array(rng.integers(0, 9, (3, 4), dtype=np.int64)),
                    "none": Array(np.zeros((0, 2), np.float16)),
                }
            ),
            "other": ArrayRecord({"scalar": Array(np.array(3.5))}),
            "empty": ArrayRecord(),
            "metrics": MetricRecord({"loss": 0.1, "n": 2**62, "many": [1.0, float("inf")]}),
            "config": ConfigRecord(
                {
                    "yes": True,
                    "flags": [True, False],
                    "bytes": bytes(range(256)),
                    "list": ["a", ""],
                    "nothing": [],
                    "minus": -(2**63),
                    "large": 2**64 - 1,
                }
            ),
            "bare": ConfigRecord(),
        }
    )
    up, down = bench.bridge(), bench.bridge()
    up.submit(Job("7:1:train", "train", record))
    job = down.next_job("w1", 5.0, 1)
    assert job is not None
    assert list(job.content) == list(record)
    assert job.content == record
    assert isinstance(job.content["config"]["yes"], bool)
    assert isinstance(job.content["metrics"], MetricRecord)
    assert job.content.array_records["big"]["a"].data == record.array_records["big"]["a"].data


def test_two_concurrent_submissions_are_one_job(bench: Bench) -> None:
    bridges = [bench.bridge() for _ in range(4)]
    submit: list[Callable[[], object]] = [
        lambda b=b: b.submit(Job("7:1:train", "train", content(size=300_000))) for b in bridges
    ]
    threads = [threading.Thread(target=call) for call in submit]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    assert bench.store.states() == {"7:1:train": "queued"}
    assert len(list((bench.folder / "spool").iterdir())) == 1
