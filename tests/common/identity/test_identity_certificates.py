"""Certificates: names, chain, requests, renewal, and what is refused."""

from __future__ import annotations

import datetime as dt
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from regionfed.errors import IdentityError
from regionfed.identity.authority import create_authority, load_authority, load_certificate
from regionfed.identity.certificates import (
    create_certificate,
    create_request,
    load_request,
    purpose_of,
    renew_certificate,
    sign_request,
)
from regionfed.identity.names import hosts_of, matches


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Run a TLS handshake in memory; raises `ssl.SSLError` as either side would."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
        if not ends:
            return
    raise AssertionError("handshake did not end")


def contexts(folder: Path, *, ca: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.crt", folder / "server.key")
    client = ssl.create_default_context(cafile=str(ca))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    return server, client


@pytest.mark.parametrize(
    "name",
    ["localhost", "127.0.0.1", "coordinator-of-a-region." + "with-a-rather-long-name." * 4 + "org"],
)
def test_case_10_every_name_and_address_of_a_server_is_accepted(tmp_path: Path, name: str) -> None:
    authority = create_authority(tmp_path / "ca", name="test")
    hosts = ["coordinator-of-a-region." + "with-a-rather-long-name." * 4 + "org", "localhost"]
    create_certificate(
        authority, tmp_path, name="server", hosts=[*hosts, "127.0.0.1"], purpose="server"
    )
    assert len(hosts[0]) > 64
    certificate = load_certificate(tmp_path / "server.crt")
    assert hosts_of(certificate.extensions) == [*hosts, "127.0.0.1"]
    handshake(*contexts(tmp_path, ca=tmp_path / "ca" / "ca.crt"), name)


def test_a_name_that_is_not_in_the_certificate_fails_the_handshake(tmp_path: Path) -> None:
    authority = create_authority(tmp_path / "ca", name="test")
    create_certificate(authority, tmp_path, name="server", hosts=["localhost"], purpose="server")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(*contexts(tmp_path, ca=tmp_path / "ca" / "ca.crt"), "elsewhere")


def test_another_sites_authority_is_not_trusted(tmp_path: Path) -> None:
    create_authority(tmp_path / "other", name="test")
    authority = create_authority(tmp_path / "ca", name="test")
    create_certificate(authority, tmp_path, name="server", hosts=["localhost"], purpose="server")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(*contexts(tmp_path, ca=tmp_path / "other" / "ca.crt"), "localhost")


def test_mutual_tls_accepts_the_client_certificate_and_refuses_none(tmp_path: Path) -> None:
    authority = create_authority(tmp_path / "ca", name="test")
    create_certificate(authority, tmp_path, name="server", hosts=["localhost"], purpose="server")
    create_certificate(authority, tmp_path, name="bridge", hosts=[], purpose="client")
    server, client = contexts(tmp_path, ca=tmp_path / "ca" / "ca.crt")
    server.load_verify_locations(tmp_path / "ca" / "ca.crt")
    server.verify_mode = ssl.CERT_REQUIRED
    client.load_cert_chain(tmp_path / "bridge.crt", tmp_path / "bridge.key")
    handshake(server, client, "localhost")
    bare = ssl.create_default_context(cafile=str(tmp_path / "ca" / "ca.crt"))
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate"):
        handshake(server, bare, "localhost")


def test_keys_are_private_and_files_are_kept_unless_forced(tmp_path: Path) -> None:
    authority = create_authority(tmp_path / "ca", name="test")
    files = create_certificate(
        authority, tmp_path / "site", name="server", hosts=["a"], purpose="server"
    )
    assert mode(files.key) == 0o600
    assert mode(tmp_path / "ca" / "ca.key") == 0o600
    assert mode(tmp_path / "site") == mode(tmp_path / "ca") == 0o700
    assert mode(files.certificate) == 0o644
    before = files.key.read_bytes()
    with pytest.raises(IdentityError, match=r"server.crt.*--force"):
        create_certificate(
            authority, tmp_path / "site", name="server", hosts=["a"], purpose="server"
        )
    with pytest.raises(IdentityError, match=r"ca.crt.*--force"):
        create_authority(tmp_path / "ca", name="test")
    assert files.key.read_bytes() == before
    create_certificate(
        authority, tmp_path / "site", name="server", hosts=["a"], purpose="server", force=True
    )
    assert files.key.read_bytes() != before


def test_a_request_is_signed_for_allowed_names_only_and_its_key_never_moves(tmp_path: Path) -> None:
    region, central = tmp_path / "region", tmp_path / "central"
    request_path, key_path = create_request(region, name="server", hosts=["r1.example", "10.0.0.7"])
    key = key_path.read_bytes()
    authority = create_authority(central, name="central")
    request = load_request(request_path)
    with pytest.raises(IdentityError, match=r"10\.0\.0\.7.*--allow 10\.0\.0\.7"):
        sign_request(
            authority,
            request,
            region / "server.crt",
            allowed_hosts=["r1.example"],
            purpose="server",
        )
    assert not (region / "server.crt").exists()
    sign_request(
        authority,
        request,
        region / "server.crt",
        allowed_hosts=["r1.example", "10.0.0.7"],
        purpose="server",
    )
    handshake(*contexts(region, ca=central / "ca.crt"), "10.0.0.7")
    assert key_path.read_bytes() == key
    assert {path.name for path in central.iterdir()} == {"ca.crt", "ca.key"}


def test_a_request_that_was_changed_is_refused(tmp_path: Path) -> None:
    path, _ = create_request(tmp_path, name="server", hosts=["r1.example"])
    request = x509.load_pem_x509_csr(path.read_bytes())
    der = request.public_bytes(serialization.Encoding.DER)
    forged = x509.load_der_x509_csr(der.replace(b"r1.example", b"r2.example"))
    path.write_bytes(forged.public_bytes(serialization.Encoding.PEM))
    with pytest.raises(IdentityError, match="changed after its owner signed it"):
        load_request(path)


def test_renewal_keeps_key_and_names_and_extends_the_end(tmp_path: Path) -> None:
    authority = create_authority(tmp_path / "ca", name="test")
    files = create_certificate(
        authority, tmp_path, name="server", hosts=["a", "b"], purpose="server", days=1
    )
    old, key = load_certificate(files.certificate), files.key.read_bytes()
    renew_certificate(load_authority(tmp_path / "ca"), files.certificate, days=90)
    new = load_certificate(files.certificate)
    assert new.not_valid_after_utc - old.not_valid_after_utc > dt.timedelta(days=88)
    assert hosts_of(new.extensions) == ["a", "b"]
    assert new.public_key() == old.public_key()
    assert purpose_of(new) == "server"
    assert files.key.read_bytes() == key
    other = create_authority(tmp_path / "other", name="other")
    with pytest.raises(IdentityError, match="its own authority"):
        renew_certificate(other, files.certificate)


def test_a_certificate_never_outlives_its_authority(tmp_path: Path) -> None:
    authority = create_authority(tmp_path / "ca", name="test", days=10)
    files = create_certificate(
        authority, tmp_path, name="server", hosts=["a"], purpose="server", days=397
    )
    end = load_certificate(files.certificate).not_valid_after_utc
    assert end == authority.certificate.not_valid_after_utc


@pytest.mark.parametrize("host", ["", "with space", "https://x", "x:8443", "a" * 64, "ü.example"])
def test_a_host_that_dns_does_not_allow_is_named(tmp_path: Path, host: str) -> None:
    authority = create_authority(tmp_path / "ca", name="test")
    with pytest.raises(IdentityError, match="neither an IP address nor a DNS name"):
        create_certificate(authority, tmp_path, name="server", hosts=[host], purpose="server")


def test_a_server_certificate_without_a_host_is_refused(tmp_path: Path) -> None:
    authority = create_authority(tmp_path / "ca", name="test")
    with pytest.raises(IdentityError, match="--host NAME"):
        create_certificate(authority, tmp_path, name="server", hosts=[], purpose="server")


def test_a_mixed_up_authority_is_named(tmp_path: Path) -> None:
    create_authority(tmp_path / "a", name="a")
    create_authority(tmp_path / "b", name="b")
    (tmp_path / "a" / "ca.key").write_bytes((tmp_path / "b" / "ca.key").read_bytes())
    with pytest.raises(IdentityError, match="is not the key of"):
        load_authority(tmp_path / "a")


@pytest.mark.parametrize(
    ("host", "names", "expected"),
    [
        ("R1.example", ["r1.example"], True),
        ("a.r1.example", ["*.r1.example"], True),
        ("a.b.r1.example", ["*.r1.example"], False),
        ("r1.example", ["*.r1.example"], False),
        ("[::1]", ["::1"], True),
        ("10.0.0.1", ["10.0.0.2"], False),
    ],
)
def test_host_matching(host: str, names: list[str], expected: bool) -> None:
    assert matches(host, names) is expected
