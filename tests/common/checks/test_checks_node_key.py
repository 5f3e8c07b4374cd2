"""Node keys and clocks, judged by a Fleet service that answers as flwr 1.39 does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.proto.fleet_pb2 import ActivateNodeRequest

from regionfed.checks.address import Address
from regionfed.checks.node import check_node_key
from regionfed.checks.result import Code, Status
from regionfed.identity.authority import create_authority
from regionfed.identity.certificates import create_certificate
from regionfed.identity.keys import create_node_key, load_node_public_key


class Fleet(grpc.GenericRpcHandler):
    """Looks at signature, clock, key and heartbeat, in that order."""

    def __init__(self, known: set[bytes], *, clock: dt.timedelta) -> None:
        self.known, self.clock = known, clock
        self.activated: list[bytes] = []

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if details.method != "/flwr.proto.Fleet/ActivateNode":
            return None
        return grpc.unary_unary_rpc_method_handler(
            self.activate, request_deserializer=ActivateNodeRequest.FromString
        )

    def activate(self, request: ActivateNodeRequest, context: grpc.ServicerContext) -> bytes:
        sent = dict(context.invocation_metadata())
        key = serialization.load_pem_public_key(sent["flwr-public-key-bin"])
        moment = sent["flwr-timestamp"]
        key.verify(sent["flwr-signature-bin"], moment.encode(), ec.ECDSA(hashes.SHA256()))
        behind = dt.datetime.now(dt.UTC) + self.clock - dt.datetime.fromisoformat(moment)
        if not -5 < behind.total_seconds() < 305:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid timestamp")
        if request.public_key not in self.known:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "Failed to activate SuperNode.")
        if not request.heartbeat_interval:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Invalid heartbeat interval.")
        self.activated.append(request.public_key)
        return b""


@contextmanager
def fleet(folder: Path, handler: Fleet) -> Iterator[Address]:
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[handler])
    pair = ((folder / "server.key").read_bytes(), (folder / "server.crt").read_bytes())
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    server.start()
    try:
        yield Address("127.0.0.1", port)
    finally:
        server.stop(None)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    authority = create_authority(tmp_path / "ca", name="test")
    create_certificate(authority, tmp_path, name="server", hosts=["127.0.0.1"], purpose="server")
    create_node_key(tmp_path, name="node")
    return tmp_path


def public_pem(path: Path) -> bytes:
    return load_node_public_key(path).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


@pytest.mark.parametrize(
    ("clock", "code", "words"),
    [
        (0, Code.OK, "the clocks agree"),
        (-60, Code.CLOCK_SKEW, "up to 305 s ahead of"),
        (400, Code.CLOCK_SKEW, "between 305 and 605 s behind"),
        (-7200, Code.CLOCK_SKEW, "more than five minutes away"),
    ],
)
def test_case_11_a_clock_that_is_off_is_named(
    site: Path, clock: int, code: Code, words: str
) -> None:
    handler = Fleet({public_pem(site / "node.pub")}, clock=dt.timedelta(seconds=clock))
    with fleet(site, handler) as address:
        result = check_node_key(
            address, what="node", ca=site / "ca/ca.crt", node_key=site / "node", timeout=3
        )
    assert result.code is code, result
    assert words in result.message
    assert handler.activated == []


def test_case_12_an_unknown_node_key_is_named(site: Path) -> None:
    with fleet(site, Fleet(set(), clock=dt.timedelta(0))) as address:
        result = check_node_key(
            address, what="node", ca=site / "ca/ca.crt", node_key=site / "node", timeout=3
        )
    assert result.code is Code.NODE_KEY_UNKNOWN
    assert "flwr supernode register" in result.fix


def test_a_file_that_is_no_node_key_is_named(site: Path) -> None:
    (site / "node").write_text("hello")
    with fleet(site, Fleet(set(), clock=dt.timedelta(0))) as address:
        result = check_node_key(
            address, what="node", ca=site / "ca/ca.crt", node_key=site / "node", timeout=3
        )
    assert result.code is Code.IDENTITY_FILE


def test_a_service_that_is_no_superlink_is_skipped_with_its_words(site: Path) -> None:
    class Other(Fleet):
        def service(self, details: grpc.HandlerCallDetails) -> None:
            return None

    with fleet(site, Other(set(), clock=dt.timedelta(0))) as address:
        result = check_node_key(
            address, what="node", ca=site / "ca/ca.crt", node_key=site / "node", timeout=3
        )
    assert result.status is Status.SKIPPED
    assert "UNIMPLEMENTED" in result.message
