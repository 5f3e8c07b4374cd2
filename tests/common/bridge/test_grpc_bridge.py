"""What only a network can do to the bridge: loss, cuts, versions, TLS (cases 7, 9, 11, 13, 37)."""

from __future__ import annotations

import datetime
import ipaddress
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from flwr.app import Array, ArrayRecord, RecordDict

from regionfed.bridge import bridge_pb2 as pb
from regionfed.bridge import bridge_pb2_grpc as rpc
from regionfed.bridge.api import Job, JobResult
from regionfed.bridge.client import BridgeTls, GrpcBridge
from regionfed.bridge.connect import bridge_for, desk_in_process
from regionfed.bridge.contents import CHUNK, encode
from regionfed.bridge.desk import Desk
from regionfed.bridge.frames import CONTENT, STATE, send
from regionfed.bridge.handshake import present
from regionfed.bridge.local import LocalBridge
from regionfed.bridge.store import JobStore
from regionfed.errors import ConfigError, IdentityError, TransportError
from regionfed_coordinator.daemon.server import DeskServer, ServerTls


def content(value: float, size: int = 4) -> RecordDict:
    return RecordDict({"theta": ArrayRecord({"flat": Array(np.full(size, value, np.float32))})})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    made = JobStore(tmp_path / "desk", durable=False)
    yield made
    made.close()


@pytest.fixture
def desk(store: JobStore) -> Desk:
    return Desk(store, region="north")


@pytest.fixture
def server(desk: Desk) -> Iterator[DeskServer]:
    made = DeskServer(desk, "127.0.0.1:0")
    yield made
    made.stop(0)


def address(server: DeskServer) -> str:
    return f"127.0.0.1:{server.port}"


def test_a_fetch_outlives_a_restart_of_the_daemon(desk: Desk) -> None:
    server = DeskServer(desk, "127.0.0.1:0")
    bind = address(server)
    bridge = GrpcBridge(bind, patience=30.0)
    bridge.submit(Job("7:1:train", "train", content(1.0)))
    got: list[JobResult] = []
    thread = threading.Thread(target=lambda: got.append(bridge.fetch("7:1:train", 30.0)))
    thread.start()
    time.sleep(0.3)
    server.stop(0)
    time.sleep(0.3)
    server = DeskServer(desk, bind)
    worker = LocalBridge(desk)
    assert worker.next_job("w1", 1.0, 1) is not None
    worker.push_result(JobResult("7:1:train", "result", content(2.0)))
    thread.join(20.0)
    bridge.close()
    server.stop(0)
    assert [float(r.content.array_records["theta"]["flat"].numpy()[0]) for r in got] == [2.0]


def test_an_unreachable_daemon_is_named_with_its_address() -> None:
    bridge = GrpcBridge("127.0.0.1:1", patience=0.6)
    start = time.monotonic()
    with pytest.raises(TransportError, match=r"127\.0\.0\.1:1: status failed .*UNAVAILABLE"):
        bridge.status()
    assert time.monotonic() - start < 10.0
    bridge.close()


def test_something_else_at_the_address_is_named() -> None:
    other = grpc.server(ThreadPoolExecutor(1))
    port = other.add_insecure_port("127.0.0.1:0")
    other.start()
    bridge = GrpcBridge(f"127.0.0.1:{port}", patience=1.0)
    with pytest.raises(TransportError, match="something else than a RegionFed coordinator"):
        bridge.status()
    bridge.close()
    other.stop(0)


def test_case_9_a_transfer_cut_in_the_middle_changes_nothing_and_can_be_repeated(
    desk: Desk, server: DeskServer
) -> None:
    whole = list(send(pb.Head(job_id="7:1:train", kind="train"), [(CONTENT, encode(content(1.0)))]))
    with grpc.insecure_channel(address(server)) as channel:
        stub = rpc.RegionBridgeStub(channel)
        for cut in (1, 2, len(whole) - 1):
            with pytest.raises(grpc.RpcError, match="transfer stopped"):
                stub.Submit(iter(whole[:cut]), metadata=present(), timeout=10)
        damaged = [pb.Frame.FromString(f.SerializeToString()) for f in whole]
        damaged[2].chunk = damaged[2].chunk[:-1] + b"!"
        with pytest.raises(grpc.RpcError, match="arrived damaged"):
            stub.Submit(iter(damaged), metadata=present(), timeout=10)
        assert desk.store.states() == {}
        assert list(desk.store.spool.folder.iterdir()) == []
        assert stub.Submit(iter(whole), metadata=present(), timeout=10).state == "queued"


def test_a_result_cut_before_its_state_commits_neither(desk: Desk, server: DeskServer) -> None:
    bridge = GrpcBridge(address(server))
    bridge.submit(Job("7:1:train", "train", content(1.0)))
    assert bridge.next_job("w1", 1.0, 1) is not None
    head = pb.Head(job_id="7:1:train", kind="result", worker_id="w1")
    whole = list(send(head, [(CONTENT, encode(content(2.0))), (STATE, encode(content(3.0)))]))
    with grpc.insecure_channel(address(server)) as channel:
        stub = rpc.RegionBridgeStub(channel)
        with pytest.raises(grpc.RpcError, match="transfer stopped"):
            stub.PushResult(iter(whole[:-2]), metadata=present(), timeout=10)
    assert desk.store.states() == {"7:1:train": "queued"}
    assert bridge.load_state() is None
    assert len(list(desk.store.spool.folder.iterdir())) == 1
    bridge.close()


def test_a_model_far_beyond_the_message_limit_passes_in_small_frames(
    desk: Desk, server: DeskServer
) -> None:
    record = RecordDict(
        {"theta": ArrayRecord({"flat": Array(np.arange(6_000_000, dtype=np.float32))})}
    )
    sizes = [f.ByteSize() for f in send(pb.Head(), [(CONTENT, encode(record))])]
    assert max(sizes) <= CHUNK + 64
    bridge = GrpcBridge(address(server))
    bridge.submit(Job("7:1:train", "train", record))
    job = bridge.next_job("w1", 10.0, 1)
    assert job is not None
    assert job.content == record
    bridge.close()


def test_case_37_another_version_is_refused_by_name(server: DeskServer) -> None:
    with grpc.insecure_channel(address(server)) as channel:
        stub = rpc.RegionBridgeStub(channel)
        old = (("regionfed-version", "0.0.1"), ("flwr-version", "1.39.0"))
        with pytest.raises(grpc.RpcError, match=r"caller runs regionfed 0\.0\.1 \(protocol 0\)"):
            stub.Status(pb.StatusRequest(), metadata=old, timeout=10)


def test_a_port_that_is_taken_is_named(desk: Desk, server: DeskServer) -> None:
    with pytest.raises(TransportError, match=str(server.port)):
        DeskServer(desk, address(server))


def test_where_a_face_finds_its_desk(
    desk: Desk, server: DeskServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REGIONFED_BRIDGE", raising=False)
    with desk_in_process(desk):
        assert isinstance(bridge_for("north", {}), LocalBridge)
    with pytest.raises(ConfigError, match="region 'north'"):
        bridge_for("north", {})
    with pytest.raises(ConfigError, match="HOST:PORT"):
        bridge_for("north", {"bridge": "somewhere"})
    monkeypatch.setenv("REGIONFED_BRIDGE", address(server))
    bridge = bridge_for("north", {"bridge": ""})
    assert bridge.status().region == "north"
    bridge.close()


class Authority:
    """A throw-away CA that signs certificates for 127.0.0.1."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.key = ec.generate_private_key(ec.SECP384R1())
        self.ca = folder / f"{name}-ca.pem"
        self.certificate = self._sign(name, self.key, ca=True)
        self.ca.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def _sign(
        self, name: str, key: ec.EllipticCurvePrivateKey, *, ca: bool = False
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
                critical=False,
            )
        )
        return builder.sign(self.key, hashes.SHA384())

    def issue(self, name: str) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP384R1())
        certificate = self._sign(name, key)
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths


def test_mutual_tls_lets_in_who_has_a_certificate_of_the_ca(desk: Desk, tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    certificate, key = ours.issue("daemon")
    server = DeskServer(
        desk, "127.0.0.1:0", tls=ServerTls(certificate=certificate, key=key, ca=ours.ca)
    )
    try:
        good = GrpcBridge(address(server), tls=BridgeTls(ours.ca, *ours.issue("face")))
        assert good.status().region == "north"
        good.close()
        for tls in (None, BridgeTls(ours.ca, *theirs.issue("stranger"))):
            bad = GrpcBridge(address(server), tls=tls, patience=0.5)
            with pytest.raises(TransportError, match=address(server)):
                bad.status()
            bad.close()
    finally:
        server.stop(0)


def test_tls_settings_that_are_not_whole_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGIONFED_BRIDGE_CA", str(tmp_path / "none.pem"))
    with pytest.raises(IdentityError, match="REGIONFED_BRIDGE_CERT, REGIONFED_BRIDGE_KEY"):
        bridge_for("north", {"bridge": "127.0.0.1:9"})
    monkeypatch.setenv("REGIONFED_BRIDGE_CERT", "c")
    monkeypatch.setenv("REGIONFED_BRIDGE_KEY", "k")
    with pytest.raises(IdentityError, match=r"none\.pem"):
        bridge_for("north", {"bridge": "127.0.0.1:9"})
