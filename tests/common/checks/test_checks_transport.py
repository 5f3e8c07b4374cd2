"""Addresses and TLS: each fault of case 7 and case 11 is named as itself, against real peers."""

from __future__ import annotations

import datetime as dt
import http.server
import socket
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from regionfed.checks.address import Address, check_listens, check_resolves, parse_address
from regionfed.checks.result import CheckResult, Code, Status
from regionfed.checks.transport import check_plain, check_tls
from regionfed.errors import ConfigError
from regionfed.identity import authority as authority_module
from regionfed.identity.authority import Authority, create_authority
from regionfed.identity.certificates import create_certificate

TIMEOUT = 2.0


@contextmanager
def grpc_server(folder: Path | None, *, client_ca: Path | None = None) -> Iterator[Address]:
    """A gRPC server without services; with TLS if `folder` holds `server.crt` and its key."""
    server = grpc.server(futures.ThreadPoolExecutor(1))
    if folder is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        pair = ((folder / "server.key").read_bytes(), (folder / "server.crt").read_bytes())
        credentials = grpc.ssl_server_credentials(
            [pair],
            root_certificates=None if client_ca is None else client_ca.read_bytes(),
            require_client_auth=client_ca is not None,
        )
        port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield Address("127.0.0.1", port)
    finally:
        server.stop(None)


@contextmanager
def http_server() -> Iterator[Address]:
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Address("127.0.0.1", server.server_port)
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    authority = create_authority(tmp_path / "ca", name="test")
    create_certificate(
        authority, tmp_path, name="server", hosts=["127.0.0.1", "localhost"], purpose="server"
    )
    return tmp_path


def tls(address: Address, site: Path, **options: Path) -> CheckResult:
    return check_tls(address, what="peer", ca=site / "ca" / "ca.crt", timeout=TIMEOUT, **options)


def test_a_sound_tls_peer_passes(site: Path) -> None:
    with grpc_server(site) as address:
        assert tls(address, site).status is Status.OK


def test_case_7_an_unresolvable_name_is_shown(site: Path) -> None:
    result = check_resolves(Address("no-such-host.invalid", 9092), what="SuperLink")
    assert result.code is Code.ADDRESS_UNRESOLVED
    assert "no-such-host.invalid:9092" in result.message


def test_case_7_a_refused_connection_is_shown(site: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", free.getsockname()[1])
        result = tls(address, site)
    assert result.code is Code.ADDRESS_REFUSED
    assert str(address) in result.message


def test_a_full_queue_is_a_timeout() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        address = Address("127.0.0.1", busy.getsockname()[1])
        queued = []
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex((address.host, address.port))
            queued.append(client)
        result = check_listens(address, what="peer", timeout=0.3)
        for client in queued:
            client.close()
    assert result.code is Code.ADDRESS_TIMEOUT


def test_case_11_tls_against_a_plain_grpc_peer(site: Path) -> None:
    with grpc_server(None) as address:
        assert tls(address, site).code is Code.PEER_IS_PLAIN


def test_case_11_tls_against_a_plain_http_peer(site: Path) -> None:
    with http_server() as address:
        assert tls(address, site).code is Code.PEER_IS_PLAIN


def test_case_11_plain_against_a_tls_peer(site: Path) -> None:
    with grpc_server(site) as address:
        assert check_plain(address, what="peer", timeout=TIMEOUT).code is Code.PEER_IS_TLS


def test_plain_against_plain_passes() -> None:
    with grpc_server(None) as address:
        assert check_plain(address, what="peer", timeout=TIMEOUT).status is Status.OK
    with http_server() as address:
        assert check_plain(address, what="peer", timeout=TIMEOUT).status is Status.OK


def test_a_peer_that_says_nothing_is_named(site: Path) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen(8)
        address = Address("127.0.0.1", mute.getsockname()[1])
        result = check_tls(address, what="peer", ca=site / "ca" / "ca.crt", timeout=0.2)
        assert result.code is Code.PEER_SILENT
        assert check_plain(address, what="peer", timeout=0.2).code is Code.PEER_SILENT


def test_case_11_an_address_that_is_not_in_the_certificate(site: Path) -> None:
    other = create_authority(site / "other", name="other")
    create_certificate(
        other, site / "o", name="server", hosts=["r1.example", "10.9.8.7"], purpose="server"
    )
    with grpc_server(site / "o") as address:
        result = check_tls(address, what="peer", ca=site / "other/ca.crt", timeout=TIMEOUT)
    assert result.code is Code.CERTIFICATE_NAME
    assert "r1.example, 10.9.8.7" in result.message
    assert "'127.0.0.1'" in result.message


def test_case_11_an_authority_that_is_not_known(site: Path) -> None:
    create_authority(site / "other", name="other")
    with grpc_server(site) as address:
        result = check_tls(address, what="peer", ca=site / "other/ca.crt", timeout=TIMEOUT)
    assert result.code is Code.CERTIFICATE_UNKNOWN_CA
    assert "CN=test" in result.message


def shifted(monkeypatch: pytest.MonkeyPatch, site: Path, shift: dt.timedelta) -> Authority:
    """An authority and a server certificate made by a clock that is wrong by `shift`."""

    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
            return dt.datetime.now(tz) + shift

    class Module:
        datetime, timedelta, UTC = Clock, dt.timedelta, dt.UTC

    monkeypatch.setattr(authority_module, "dt", Module)
    authority = create_authority(site / "shifted", name="shifted")
    create_certificate(
        authority, site / "s", name="server", hosts=["127.0.0.1"], purpose="server", days=1
    )
    monkeypatch.undo()
    return authority


@pytest.mark.parametrize(
    ("days", "code"),
    [(-3, Code.CERTIFICATE_EXPIRED), (3, Code.CERTIFICATE_NOT_YET_VALID)],
)
def test_case_11_a_certificate_out_of_its_time(
    site: Path, monkeypatch: pytest.MonkeyPatch, days: int, code: Code
) -> None:
    authority = shifted(monkeypatch, site, dt.timedelta(days=days))
    assert authority.certificate is not None
    with grpc_server(site / "s") as address:
        result = check_tls(address, what="peer", ca=site / "shifted/ca.crt", timeout=TIMEOUT)
    assert result.code is code
    assert "the clock here shows" in result.message


def test_mutual_tls_asks_for_a_certificate_and_accepts_a_signed_one(site: Path) -> None:
    authority = create_authority(site / "bridge-ca", name="bridge")
    create_certificate(authority, site, name="bridge", hosts=[], purpose="client")
    with grpc_server(site, client_ca=site / "bridge-ca/ca.crt") as address:
        assert tls(address, site).code is Code.PEER_WANTS_CERTIFICATE
        accepted = tls(address, site, certificate=site / "bridge.crt", key=site / "bridge.key")
        assert accepted.status is Status.OK


def test_a_missing_authority_file_is_named(site: Path) -> None:
    with grpc_server(site) as address:
        result = check_tls(address, what="peer", ca=site / "none.crt", timeout=TIMEOUT)
    assert result.code is Code.IDENTITY_FILE
    assert "none.crt" in result.message


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":9092", "host:0", "host:70000", "http://host:1", "host:9092/x"]
)
def test_case_7_a_malformed_address_is_shown(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an address; expected HOST:PORT"):
        parse_address(text, what="REGIONFED_FLEET")


def test_ipv6_addresses_keep_their_brackets() -> None:
    address = parse_address("[::1]:9092", what="x")
    assert address == Address("::1", 9092)
    assert str(address) == "[::1]:9092"
