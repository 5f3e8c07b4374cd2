"""The bridge to a coordinator's daemon over gRPC."""

from __future__ import annotations

import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

import grpc
from flwr.app import RecordDict

from regionfed.bridge import bridge_pb2 as pb
from regionfed.bridge import bridge_pb2_grpc as rpc
from regionfed.bridge.api import (
    BridgeStatus,
    BridgeTimeout,
    Job,
    JobResult,
    JobState,
    RegionBridge,
    ResultKind,
)
from regionfed.bridge.contents import decode, encode
from regionfed.bridge.faults import recover, transport_error
from regionfed.bridge.frames import CONTENT, STATE, Incoming, send
from regionfed.bridge.handshake import CHANNEL_OPTIONS, present
from regionfed.errors import IdentityError, TransportError

logger = logging.getLogger(__name__)
T = TypeVar("T")

PATIENCE_S = 120.0
"""How long a call is repeated while the daemon is away (it may be restarting)."""
TRANSFER_S = 900.0
"""Deadline of one transfer of a job, a result or a state."""
SHORT_S = 30.0
_PAUSE_S = 0.5
_ON_ITS_WAY = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)
"""Codes of a call that was lost rather than refused: gRPC gives all four when a peer dies."""


@dataclass(frozen=True)
class BridgeTls:
    """Files of mutual TLS: the CA that signed the daemon, and this side's certificate and key."""

    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def from_environment(cls) -> BridgeTls | None:
        """Read REGIONFED_BRIDGE_CA, _CERT and _KEY; None when none of them is set.

        Raises IdentityError when only some are set.
        """
        names = ("REGIONFED_BRIDGE_CA", "REGIONFED_BRIDGE_CERT", "REGIONFED_BRIDGE_KEY")
        given = [os.environ.get(name, "") for name in names]
        if not any(given):
            return None
        if not all(given):
            missing = [name for name, value in zip(names, given, strict=True) if not value]
            raise IdentityError(f"TLS to the coordinator daemon also needs {', '.join(missing)}")
        return cls(*map(Path, given))

    def credentials(self) -> grpc.ChannelCredentials:
        """Read the files. Raises IdentityError naming one that cannot be read."""
        contents = []
        for path in (self.ca, self.key, self.certificate):
            try:
                contents.append(path.read_bytes())
            except OSError as error:
                raise IdentityError(f"cannot read {path}: {error.strerror}") from error
        return grpc.ssl_channel_credentials(*contents)


class GrpcBridge(RegionBridge):
    """One face's connection to its daemon.

    A call that is lost on its way (the daemon restarts, the network drops) is repeated until
    `patience` seconds have passed; then it is a TransportError with the address in it. All calls
    are safe to repeat.
    """

    def __init__(
        self, address: str, *, tls: BridgeTls | None = None, patience: float = PATIENCE_S
    ) -> None:
        self.address = address
        self.patience = patience
        self._worker_id = ""
        options = list(CHANNEL_OPTIONS)
        self._channel = (
            grpc.insecure_channel(address, options=options)
            if tls is None
            else grpc.secure_channel(address, tls.credentials(), options=options)
        )
        self._stub = rpc.RegionBridgeStub(self._channel)
        self._metadata = present()

    def submit(self, job: Job) -> JobState:
        """See RegionBridge."""

        def call() -> JobState:
            head = pb.Head(job_id=job.job_id, kind=job.kind)
            frames = send(head, [(CONTENT, encode(job.content))])
            reply = self._stub.Submit(frames, timeout=TRANSFER_S, metadata=self._metadata)
            return cast(JobState, reply.state)

        return self._persist("submit", call)

    def fetch(self, job_id: str, timeout: float) -> JobResult:
        """See RegionBridge."""
        end = time.monotonic() + timeout

        def call() -> JobResult:
            left = max(0.0, end - time.monotonic())
            request = pb.FetchRequest(job_id=job_id, timeout_s=left)
            incoming = self._open(self._stub.Fetch, request, timeout=left + TRANSFER_S)
            content = _only_part(incoming)
            head = incoming.head
            return JobResult(head.job_id, cast(ResultKind, head.kind), content, head.error)

        try:
            return self._persist("fetch", call, end=end)
        except BridgeTimeout:
            raise
        except TransportError as error:
            if time.monotonic() >= end:
                raise BridgeTimeout(
                    f"no result of job {job_id} after {timeout:g} s: {error}"
                ) from error
            raise

    def next_job(self, worker_id: str, wait_s: float, nodes_online: int) -> Job | None:
        """See RegionBridge."""
        self._worker_id = worker_id

        def call() -> Job | None:
            request = pb.NextJobRequest(
                worker_id=worker_id, wait_s=wait_s, nodes_online=nodes_online
            )
            incoming = self._open(self._stub.NextJob, request, timeout=wait_s + TRANSFER_S)
            if not incoming.head.kind:
                return None
            content = _only_part(incoming)
            return Job(incoming.head.job_id, incoming.head.kind, content)

        return self._persist("next_job", call)

    def push_result(self, result: JobResult, state: RecordDict | None = None) -> bool:
        """See RegionBridge."""

        def call() -> bool:
            head = pb.Head(
                job_id=result.job_id,
                kind=result.kind,
                error=result.error,
                worker_id=self._worker_id,
            )
            parts = [(CONTENT, encode(result.content))]
            if state is not None:
                parts.append((STATE, encode(state)))
            reply = self._stub.PushResult(
                send(head, parts), timeout=TRANSFER_S, metadata=self._metadata
            )
            return bool(reply.accepted)

        return self._persist("push_result", call)

    def load_state(self) -> RecordDict | None:
        """See RegionBridge."""

        def call() -> RecordDict | None:
            incoming = self._open(self._stub.LoadState, pb.LoadStateRequest(), timeout=TRANSFER_S)
            return _only_part(incoming) if incoming.head.kind else None

        return self._persist("load_state", call)

    def report(self, progress: Mapping[str, object]) -> None:
        """See RegionBridge."""
        request = pb.ReportRequest(progress_json=json.dumps(dict(progress)))
        self._persist("report", lambda: self._unary(self._stub.Report, request))

    def charge(self, event_json: str) -> str:
        """See RegionBridge."""
        # One id for all repetitions of this call: the desk charges it once.
        request = pb.ChargeRequest(event_json=event_json, request_id=uuid.uuid4().hex)
        reply = self._persist("charge", lambda: self._unary(self._stub.Charge, request))
        return str(reply.answer_json)

    def status(self) -> BridgeStatus:
        """See RegionBridge."""
        reply = self._persist("status", lambda: self._unary(self._stub.Status, pb.StatusRequest()))
        return BridgeStatus(
            region=reply.region,
            version=reply.version,
            flwr_version=reply.flwr_version,
            protocol=reply.protocol,
            jobs=cast(dict[str, JobState], dict(reply.jobs)),
            worker_id=reply.worker_id,
            worker_age_s=reply.worker_age_s,
            nodes_online=reply.nodes_online,
            progress=json.loads(reply.progress_json),
            progress_age_s=reply.progress_age_s,
            run=reply.run,
            run_status=reply.run_status,
        )

    def close(self) -> None:
        """See RegionBridge."""
        self._channel.close()

    def _unary(self, method: Callable[..., T], request: object) -> T:
        return method(request, timeout=SHORT_S, metadata=self._metadata)

    def _open(
        self, method: Callable[..., Iterator[pb.Frame]], request: object, *, timeout: float
    ) -> Incoming:
        return Incoming(method(request, timeout=timeout, metadata=self._metadata))

    def _persist(self, name: str, call: Callable[[], T], *, end: float | None = None) -> T:
        """Repeat a call that was lost, for `patience` seconds from its first loss."""
        lost_at: float | None = None
        while True:
            began = time.monotonic()
            try:
                return call()
            except grpc.RpcError as error:
                refused = recover(error)
                if refused is not None:
                    raise refused from error
                now = time.monotonic()
                lost_at = began if lost_at is None else lost_at
                waited = now - lost_at
                give_up = waited >= self.patience or (end is not None and now >= end)
                if error.code() not in _ON_ITS_WAY or give_up:
                    raise transport_error(
                        error, address=self.address, call=name, waited=waited
                    ) from error
                logger.warning(
                    "%s: the daemon at %s is away (%s), asking again",
                    name,
                    self.address,
                    error.code().name,
                )
            time.sleep(_PAUSE_S)


def _only_part(incoming: Incoming) -> RecordDict:
    """The content of a transfer of one part."""
    contents = [decode(pieces) for _, pieces in incoming.parts()]
    if len(contents) != 1:
        raise TransportError(f"the transfer has {len(contents)} parts, 1 was due")
    return contents[0]
