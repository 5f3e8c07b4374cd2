"""The gRPC server of a region's desk: mutual TLS, health, a clean stop."""

from __future__ import annotations

from concurrent import futures
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from regionfed.bridge import bridge_pb2_grpc as rpc
from regionfed.bridge.desk import Desk
from regionfed.bridge.handshake import CHANNEL_OPTIONS
from regionfed.errors import IdentityError, TransportError
from regionfed_coordinator.daemon.servicer import DeskServicer

SERVICE = "regionfed.bridge.v1.RegionBridge"
"""Name under which the health service reports the desk; "" reports the whole process."""
_THREADS = 16
"""Calls at a time. Waiting calls hold a thread: two faces, their restarts, and status."""


@dataclass(frozen=True)
class ServerTls:
    """Files of mutual TLS: this daemon's certificate and key, and the CA of its callers."""

    certificate: Path
    key: Path
    ca: Path

    def credentials(self) -> grpc.ServerCredentials:
        """Read the files. Raises IdentityError naming one that cannot be read."""
        contents = []
        for path in (self.key, self.certificate, self.ca):
            try:
                contents.append(path.read_bytes())
            except OSError as error:
                raise IdentityError(f"cannot read {path}: {error.strerror}") from error
        key, certificate, ca = contents
        return grpc.ssl_server_credentials([(key, certificate)], ca, require_client_auth=True)


class DeskServer:
    """Listens from the moment it is made. Raises TransportError when the address is taken."""

    def __init__(self, desk: Desk, bind: str, *, tls: ServerTls | None = None) -> None:
        self._server = grpc.server(
            futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="desk"),
            options=list(CHANNEL_OPTIONS),
        )
        self._health = health.HealthServicer()
        rpc.add_RegionBridgeServicer_to_server(DeskServicer(desk), self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        try:
            if tls is None:
                self.port = self._server.add_insecure_port(bind)
            else:
                self.port = self._server.add_secure_port(bind, tls.credentials())
        except RuntimeError as error:
            raise TransportError(
                f"cannot listen on {bind}: the port is taken or the address is not this host's"
            ) from error
        self._server.start()
        self.set_serving(True)

    def set_serving(self, serving: bool) -> None:
        """Say through the health service whether the desk takes work."""
        status = health_pb2.HealthCheckResponse
        value = status.SERVING if serving else status.NOT_SERVING
        for name in ("", SERVICE):
            self._health.set(name, value)

    def stop(self, grace: float = 5.0) -> None:
        """Refuse new calls, let running ones end within `grace` seconds."""
        self._health.enter_graceful_shutdown()
        self._server.stop(grace).wait()
