"""The bridge within one process, over the same desk and the same store as the daemon's."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping

from flwr.app import RecordDict

from regionfed.bridge.api import BridgeStatus, Job, JobResult, JobState, RegionBridge
from regionfed.bridge.contents import decode, encode
from regionfed.bridge.desk import Desk
from regionfed.bridge.store import StoredResult


class LocalBridge(RegionBridge):
    """One face's view of a desk in this process.

    The faces may share one object or have one each. Records pass through the store's bytes, so
    that neither face can change what the other holds.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._worker_id = ""

    def submit(self, job: Job) -> JobState:
        """See RegionBridge."""
        return self.desk.submit(job.job_id, job.kind, encode(job.content))

    def fetch(self, job_id: str, timeout: float) -> JobResult:
        """See RegionBridge."""
        stored, pieces = self.desk.result(job_id, timeout)
        return JobResult(job_id, stored.kind, decode(pieces), stored.error)

    def next_job(self, worker_id: str, wait_s: float, nodes_online: int) -> Job | None:
        """See RegionBridge."""
        self._worker_id = worker_id
        leased = self.desk.lease(worker_id, wait_s, nodes_online)
        return None if leased is None else Job(leased[0].job_id, leased[0].kind, decode(leased[1]))

    def push_result(self, result: JobResult, state: RecordDict | None = None) -> bool:
        """See RegionBridge."""
        spool = self.desk.store.spool
        content_file = spool.write(encode(result.content))
        state_file = None
        if state is not None:
            try:
                state_file = spool.write(encode(state))
            except BaseException:
                spool.remove(content_file)
                raise
        stored = StoredResult(result.job_id, result.kind, result.error, content_file)
        return self.desk.finish(self._worker_id, stored, state_file=state_file)

    def load_state(self) -> RecordDict | None:
        """See RegionBridge."""
        pieces = self.desk.store.region_state()
        return None if pieces is None else decode(pieces)

    def report(self, progress: Mapping[str, object]) -> None:
        """See RegionBridge."""
        self.desk.report(json.loads(json.dumps(dict(progress))))

    def charge(self, event_json: str) -> str:
        """See RegionBridge."""
        return self.desk.charge(event_json, uuid.uuid4().hex)

    def status(self) -> BridgeStatus:
        """See RegionBridge."""
        return self.desk.status()

    def close(self) -> None:
        """See RegionBridge."""
