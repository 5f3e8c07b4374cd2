"""The desk behind gRPC: frames in and out, errors by name."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from regionfed.bridge import bridge_pb2 as pb
from regionfed.bridge import bridge_pb2_grpc as rpc
from regionfed.bridge.api import ResultKind
from regionfed.bridge.desk import Desk
from regionfed.bridge.faults import abort
from regionfed.bridge.frames import CONTENT, STATE, Incoming, send
from regionfed.bridge.handshake import check
from regionfed.bridge.store import StoredResult
from regionfed.errors import RegionFedError, TransportError

Method = Callable[..., Any]


def _unary(method: Method) -> Method:
    """Check the caller's versions and send a RegionFedError by name."""

    @functools.wraps(method)
    def guarded(self: DeskServicer, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            check(context.invocation_metadata())
            return method(self, request, context)
        except RegionFedError as error:
            return abort(context, error)

    return guarded


def _stream(method: Method) -> Method:
    """As `_unary`, for a method that yields frames."""

    @functools.wraps(method)
    def guarded(
        self: DeskServicer, request: Any, context: grpc.ServicerContext
    ) -> Iterator[pb.Frame]:
        try:
            check(context.invocation_metadata())
            yield from method(self, request, context)
        except RegionFedError as error:
            abort(context, error)

    return guarded


class DeskServicer(rpc.RegionBridgeServicer):
    """Serves one region's desk to callers of the same version."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @_unary
    def Submit(self, request: Iterator[pb.Frame], context: grpc.ServicerContext) -> pb.SubmitReply:
        """See RegionBridge.submit."""
        incoming = Incoming(request)
        head = incoming.head
        if not head.job_id or not head.kind:
            raise TransportError("a job needs an id and a kind")
        (_, pieces) = next(incoming.parts())
        return pb.SubmitReply(state=self.desk.submit(head.job_id, head.kind, pieces))

    @_stream
    def Fetch(self, request: pb.FetchRequest, context: grpc.ServicerContext) -> Iterator[pb.Frame]:
        """See RegionBridge.fetch."""
        stored, pieces = self.desk.result(
            request.job_id, request.timeout_s, alive=context.is_active
        )
        head = pb.Head(job_id=stored.job_id, kind=stored.kind, error=stored.error)
        yield from send(head, [(CONTENT, pieces)])

    @_stream
    def NextJob(
        self, request: pb.NextJobRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.Frame]:
        """See RegionBridge.next_job."""
        leased = self.desk.lease(
            request.worker_id, request.wait_s, request.nodes_online, alive=context.is_active
        )
        if leased is None:
            yield from send(pb.Head(), [])
            return
        job, pieces = leased
        yield from send(pb.Head(job_id=job.job_id, kind=job.kind), [(CONTENT, pieces)])

    @_unary
    def PushResult(
        self, request: Iterator[pb.Frame], context: grpc.ServicerContext
    ) -> pb.PushReply:
        """See RegionBridge.push_result. Nothing is committed before the last byte is checked."""
        incoming = Incoming(request)
        head = incoming.head
        if head.kind not in ("result", "error"):
            raise TransportError(f"a result is 'result' or 'error', got {head.kind!r}")
        spool = self.desk.store.spool
        files: dict[str, str] = {}
        try:
            for name, pieces in incoming.parts():
                if name not in (CONTENT, STATE) or name in files:
                    raise TransportError(f"a result has no part {name!r}")
                files[name] = spool.write(pieces)
            if CONTENT not in files:
                raise TransportError("the result has no content")
        except BaseException:
            spool.remove(*files.values())
            raise
        kind: ResultKind = "error" if head.kind == "error" else "result"
        stored = StoredResult(head.job_id, kind, head.error, files[CONTENT])
        accepted = self.desk.finish(head.worker_id, stored, state_file=files.get(STATE))
        return pb.PushReply(accepted=accepted)

    @_stream
    def LoadState(
        self, request: pb.LoadStateRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.Frame]:
        """See RegionBridge.load_state."""
        pieces = self.desk.store.region_state()
        if pieces is None:
            yield from send(pb.Head(), [])
        else:
            yield from send(pb.Head(kind=STATE), [(STATE, pieces)])

    @_unary
    def Report(self, request: pb.ReportRequest, context: grpc.ServicerContext) -> pb.ReportReply:
        """See RegionBridge.report."""
        progress = json.loads(request.progress_json)
        if not isinstance(progress, dict):
            raise TransportError("a progress report is a JSON object")
        self.desk.report(progress)
        return pb.ReportReply()

    @_unary
    def Charge(self, request: pb.ChargeRequest, context: grpc.ServicerContext) -> pb.ChargeReply:
        """See RegionBridge.charge."""
        return pb.ChargeReply(answer_json=self.desk.charge(request.event_json, request.request_id))

    @_unary
    def Status(self, request: pb.StatusRequest, context: grpc.ServicerContext) -> pb.StatusReply:
        """See RegionBridge.status."""
        status = self.desk.status()
        return pb.StatusReply(
            region=status.region,
            version=status.version,
            flwr_version=status.flwr_version,
            protocol=status.protocol,
            jobs=status.jobs,
            worker_id=status.worker_id,
            worker_age_s=status.worker_age_s,
            nodes_online=status.nodes_online,
            progress_json=json.dumps(dict(status.progress)),
            progress_age_s=status.progress_age_s,
            run=status.run,
            run_status=status.run_status,
        )
