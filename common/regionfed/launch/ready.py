"""Whether a process listens, or says that it serves."""

from __future__ import annotations

import contextlib
import socket

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_LOOK_S = 1.0


def listens(address: str) -> bool:
    """Whether something accepts connections at HOST:PORT."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), _LOOK_S):
        return True
    return False


def serves(address: str) -> bool:
    """Whether the gRPC health service at HOST:PORT says SERVING."""
    with grpc.insecure_channel(address) as channel:
        try:
            reply = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=_LOOK_S
            )
        except grpc.RpcError:
            return False
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)
