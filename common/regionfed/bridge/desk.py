"""One region's desk: who works on which job, who waits for what. See api.py for the invariants.

The desk moves bytes, not records, so that a model passes through it in pieces.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from flwr.app import RecordDict

from regionfed.bridge.api import BridgeStatus, BridgeTimeout, JobState, Ledger, WorkerSuperseded
from regionfed.bridge.contents import encode
from regionfed.bridge.store import JobStore, StoredJob, StoredResult
from regionfed.errors import PrivacyError, StateError
from regionfed.version import PROTOCOL, own_versions

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 8
"""Workers that may die on one job before the desk answers it with an error."""
_LOOK_S = 0.5
"""How often a wait looks whether its caller is still there."""


def _always() -> bool:
    return True


class Desk:
    """Jobs, results, state, charges and progress of one region; safe for threads.

    Args:
        store: the durable index.
        region: the region's name, for messages and the status.
        ledger: the region's privacy ledger; without one every charge is refused.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        store: JobStore,
        *,
        region: str,
        ledger: Ledger | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.region = region
        self._ledger = ledger
        self._clock = clock
        self._news = threading.Condition()
        self._charging = threading.Lock()
        self._lease: tuple[str, str] | None = None
        self._worker_seen: float | None = None
        self._nodes_online = 0
        self._progress: Mapping[str, object] = {}
        self._progress_seen: float | None = None
        self._run, self._run_status = "", ""

    def submit(self, job_id: str, kind: str, pieces: Iterable[bytes]) -> JobState:
        """See RegionBridge.submit."""
        if self.store.add(job_id, kind, pieces):
            logger.info("job %s (%s) was submitted", job_id, kind)
            with self._news:
                self._news.notify_all()
        return self._state(job_id) or "queued"

    def result(
        self, job_id: str, timeout: float, *, alive: Callable[[], bool] = _always
    ) -> tuple[StoredResult, Iterator[bytes]]:
        """See RegionBridge.fetch. `alive` says whether the caller still waits."""
        end = self._clock() + timeout
        with self._news:
            while True:
                state = self._state(job_id)
                if state is None:
                    raise StateError(f"job {job_id!r} is not known to region {self.region!r}")
                if state == "done":
                    found = self.store.result(job_id)
                    assert found is not None
                    return found, self.store.spool.read(found.result_file)
                left = end - self._clock()
                if left <= 0 or not alive():
                    raise BridgeTimeout(
                        f"region {self.region!r} has no result of job {job_id} after "
                        f"{timeout:g} s: {self._whereabouts(state)}"
                    )
                self._news.wait(min(left, _LOOK_S))

    def lease(
        self,
        worker_id: str,
        wait_s: float,
        nodes_online: int,
        *,
        alive: Callable[[], bool] = _always,
    ) -> tuple[StoredJob, Iterator[bytes]] | None:
        """See RegionBridge.next_job."""
        end = self._clock() + wait_s
        with self._news:
            while True:
                self._must_be_current(worker_id)
                self._worker_seen, self._nodes_online = self._clock(), nodes_online
                job = self.store.oldest_unfinished()
                if (
                    job is not None
                    and job.attempts >= MAX_ATTEMPTS
                    and self._is_new(job, worker_id)
                ):
                    self._give_up(job)
                    continue
                if job is not None:
                    if self._is_new(job, worker_id):
                        self.store.count_attempt(job.job_id)
                    self._lease = (job.job_id, worker_id)
                    return job, self.store.spool.read(job.order_file)
                left = end - self._clock()
                if left <= 0 or not alive():
                    return None
                self._news.wait(min(left, _LOOK_S))

    def finish(
        self,
        worker_id: str,
        result: StoredResult,
        *,
        state_file: str | None = None,
    ) -> bool:
        """See RegionBridge.push_result. The files are already in the spool and are taken over."""
        try:
            with self._news:
                self._must_be_current(worker_id)
                self._worker_seen = self._clock()
        except WorkerSuperseded:
            self.store.spool.remove(result.result_file, state_file)
            raise
        accepted = self.store.finish(result, state_file=state_file)
        logger.info(
            "job %s is done: %s%s",
            result.job_id,
            result.kind if accepted else "a second answer was dropped",
            f" ({result.error})" if result.error else "",
        )
        with self._news:
            self._lease = None
            self._news.notify_all()
        return accepted

    def report(self, progress: Mapping[str, object]) -> None:
        """See RegionBridge.report."""
        with self._news:
            self._progress = dict(progress)
            self._progress_seen = self._worker_seen = self._clock()

    def charge(self, event_json: str, request_id: str) -> str:
        """See RegionBridge.charge. A request id that was charged gets its old answer.

        After a crash between the ledger's commit and ours a repeated request is charged twice:
        the spent budget is then overstated, never understated.
        """
        if self._ledger is None:
            raise PrivacyError(
                f"the desk of region {self.region!r} has no privacy ledger, so nothing that "
                "spends budget can be released; start it with privacy enabled"
            )
        with self._charging:
            known = self.store.charge_answer(request_id)
            if known is not None:
                return known
            answer = self._ledger.charge(event_json)
            self.store.note_charge(request_id, answer)
            return answer

    def note_run(self, run: str, status: str) -> None:
        """Show the regional run and its state (called by the keeper)."""
        with self._news:
            self._run, self._run_status = run, status

    def status(self) -> BridgeStatus:
        """See RegionBridge.status."""
        versions = own_versions()
        with self._news:
            known = self.store.states()
            return BridgeStatus(
                region=self.region,
                version=versions.regionfed,
                flwr_version=versions.flwr,
                protocol=PROTOCOL,
                jobs={job_id: self._state(job_id) or state for job_id, state in known.items()},
                worker_id=self.store.current_worker(),
                worker_age_s=self._age(self._worker_seen),
                nodes_online=self._nodes_online,
                progress={**self._progress, **self._spent()},
                progress_age_s=self._age(self._progress_seen),
                run=self._run,
                run_status=self._run_status,
            )

    def _spent(self) -> dict[str, object]:
        """The epsilon after the newest charge, as the ledger answered it."""
        for answer in self.store.charge_answers():
            epsilon = json.loads(answer).get("epsilon")
            if epsilon is not None:
                return {"epsilon": float(epsilon)}
        return {}

    def _must_be_current(self, worker_id: str) -> None:
        if not worker_id:
            raise StateError("a worker has to ask for a job before it can push a result")
        if not self.store.enlist(worker_id):
            raise WorkerSuperseded(
                f"worker {worker_id} of region {self.region!r} was replaced by "
                f"{self.store.current_worker()}; it has to stop"
            )

    def _is_new(self, job: StoredJob, worker_id: str) -> bool:
        return self._lease != (job.job_id, worker_id)

    def _give_up(self, job: StoredJob) -> None:
        reason = (
            f"{job.attempts} regional ServerApps took job {job.job_id} and none finished it; "
            "see their logs for the reason"
        )
        logger.error("%s", reason)
        empty = self.store.spool.write(encode(RecordDict()))
        self.store.finish(StoredResult(job.job_id, "error", reason, empty))

    def _state(self, job_id: str) -> JobState | None:
        state = self.store.state(job_id)
        leased = self._lease is not None and self._lease[0] == job_id
        return "leased" if leased and state == "queued" else state

    def _whereabouts(self, state: JobState) -> str:
        worker = self.store.current_worker()
        if not worker:
            return f"no regional ServerApp has come yet (run: {self._run_status or 'not started'})"
        seen = self._age(self._worker_seen)
        age = f"last seen {seen:.0f} s ago" if seen >= 0 else "not seen since the desk started"
        doing = f", its last report: {json.dumps(self._progress)}" if self._progress else ""
        return f"the job is {state}, worker {worker} was {age}{doing}"

    def _age(self, moment: float | None) -> float:
        return -1.0 if moment is None else self._clock() - moment
