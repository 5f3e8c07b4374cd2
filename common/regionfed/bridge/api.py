"""The interface that joins the two faces of a coordinator.

The upper face (the coordinator's ClientApp, one short process per global message) submits a job
and fetches its result. The lower face (the regional ServerApp) works on jobs and commits their
results. Both talk to one durable desk, in this process (`LocalBridge`) or in the coordinator's
daemon (`GrpcBridge`).

Invariants that every implementation keeps, tested by one suite (tests/common/bridge):

1. A job is known by its id, `global run:round:phase`. Submitting it twice is harmless, finished
   or not; its content is that of the first submission.
2. A finished job's result is replayed to whoever asks, until it is pruned.
3. A result and the region's state become durable together or not at all. A job that is redone
   after a crash starts from the state before it, so nothing is counted twice.
4. The worker that asked for a job last for the first time is the only one. It takes over the
   unfinished job of an earlier worker; the earlier one is refused from then on.
5. A charge is durable in the privacy ledger before `charge` returns. A refusal is raised as the
   class that the ledger raised, with its message.
6. Every wait ends at its deadline with a `BridgeTimeout` that names what was waited for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from flwr.app import RecordDict

from regionfed.errors import StateError, TransportError

ResultKind = Literal["result", "error"]
JobState = Literal["queued", "leased", "done"]


class BridgeTimeout(TransportError):
    """A wait on the bridge ended at its deadline."""


class WorkerSuperseded(StateError):
    """A newer regional ServerApp has taken over this region; this one has to stop."""


class Ledger(Protocol):
    """What the daemon needs of the region's privacy ledger."""

    def charge(self, event_json: str) -> str:
        """Record an event durably and return the ledger's answer (JSON).

        Raises PrivacyError or BudgetExhausted; then nothing was recorded.
        """
        ...


@dataclass(frozen=True)
class Job:
    """One phase of one global round, asked of a region."""

    job_id: str
    kind: str
    content: RecordDict


@dataclass(frozen=True)
class JobResult:
    """A region's answer to a job. `error` is the reason when `kind` is "error"."""

    job_id: str
    kind: ResultKind
    content: RecordDict = field(default_factory=RecordDict)
    error: str = ""


@dataclass(frozen=True)
class BridgeStatus:
    """What a region's desk knows, for people and for `regionfed status`.

    `progress` is the worker's last report, `progress_age_s` and `worker_age_s` are seconds since
    the worker's last report and its last sign of life (negative: there was none). `run` is the
    regional Flower run that the keeper holds, `run_status` its state in Flower's words or the
    keeper's last problem.
    """

    region: str
    version: str
    flwr_version: str
    protocol: int
    jobs: Mapping[str, JobState]
    worker_id: str
    worker_age_s: float
    nodes_online: int
    progress: Mapping[str, object]
    progress_age_s: float
    run: str
    run_status: str


class RegionBridge(ABC):
    """One region's desk, as seen from either face. See the module's invariants."""

    @abstractmethod
    def submit(self, job: Job) -> JobState:
        """Hand in a job; return its state. A job that is known already is left as it is.

        Raises TransportError if the desk cannot be reached within the bridge's patience,
        StateError if the job cannot be made durable.
        """

    @abstractmethod
    def fetch(self, job_id: str, timeout: float) -> JobResult:
        """Wait up to `timeout` seconds for a job's result.

        Raises BridgeTimeout when it is not there by then, StateError when the job is unknown.
        """

    @abstractmethod
    def next_job(self, worker_id: str, wait_s: float, nodes_online: int) -> Job | None:
        """Lease the oldest unfinished job to `worker_id`, waiting up to `wait_s` seconds for one.

        A worker that asks again before it has pushed gets the same job again. `nodes_online` is
        shown by `status`. Raises WorkerSuperseded when a newer worker has taken over.
        """

    @abstractmethod
    def push_result(self, result: JobResult, state: RecordDict | None = None) -> bool:
        """Commit a job's result and, in the same transaction, the region's new state.

        `state=None` leaves the region's state as it is. Returns False, and changes nothing, when
        the job has a result already: the caller then goes on from `load_state()`.
        Raises StateError (unknown job, disk full), WorkerSuperseded.
        """

    @abstractmethod
    def load_state(self) -> RecordDict | None:
        """Return the state committed with the newest result, or None in a new region."""

    @abstractmethod
    def report(self, progress: Mapping[str, object]) -> None:
        """Publish the worker's progress (JSON values): phase, round, live and late clients, ..."""

    @abstractmethod
    def charge(self, event_json: str) -> str:
        """Charge the region's privacy ledger before anything is released; return its answer.

        Raises PrivacyError or BudgetExhausted as the ledger did, PrivacyError when the desk has
        no ledger. A call repeated by the transport is charged once; two calls are two charges.
        """

    @abstractmethod
    def status(self) -> BridgeStatus:
        """Return what the desk knows. Raises TransportError when it cannot be reached."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections. The desk itself and its jobs stay."""
