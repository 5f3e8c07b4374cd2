"""What a peer speaks, and whether its certificate is one that this side may trust.

The peers are gRPC and HTTP servers; a plain one answers the opening bytes of HTTP/2 (RFC 9113
section 3.4) or of HTTP/1.1, a TLS one answers a ClientHello.
"""

from __future__ import annotations

import datetime as dt
import socket
import ssl
from pathlib import Path

from cryptography import x509

from regionfed.checks.address import Address, check_listens
from regionfed.checks.result import CheckResult, Code, failed, passed
from regionfed.identity.names import hosts_of

HTTP2_OPENING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""Connection preface and an empty SETTINGS frame."""

_EXPIRED, _NOT_YET_VALID, _HOST_MISMATCH, _ADDRESS_MISMATCH = 10, 9, 62, 64
_UNKNOWN_ISSUER = {2, 18, 19, 20, 21, 24}
"""X509_V_ERR_* of OpenSSL's x509_vfy.h."""

_CERTIFICATE_ALERTS = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE")


class _ClosedAfterHandshake(ConnectionError):
    """A TLS 1.3 server looks at the client's certificate after the client's handshake is over."""


def check_tls(
    address: Address,
    *,
    what: str,
    ca: Path,
    certificate: Path | None = None,
    key: Path | None = None,
    timeout: float,
) -> CheckResult:
    """Whether `address` speaks TLS with a certificate that `ca` vouches for, now and by that name.

    `certificate` and `key` are shown to a peer that asks for them (mutual TLS).
    """
    listening = check_listens(address, what=what, timeout=timeout)
    if listening.failed:
        return listening
    try:
        context = ssl.create_default_context(cafile=str(ca))
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        return failed(
            what,
            Code.IDENTITY_FILE,
            f"{ca} or the client certificate cannot be used ({error})",
            fix="`regionfed certs show FOLDER` lists what a folder of certificates holds",
        )
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        _handshake(address, context, timeout=timeout)
    except ssl.SSLCertVerificationError as error:
        return _explain(error, address, what=what, ca=ca, timeout=timeout)
    except (ssl.SSLError, OSError) as error:
        return _without_handshake(error, address, what=what, timeout=timeout)
    return passed(what, f"{address} speaks TLS, and {ca} vouches for it")


def check_plain(address: Address, *, what: str, timeout: float) -> CheckResult:
    """Whether `address` speaks plain HTTP or gRPC; a TLS server is named as such."""
    listening = check_listens(address, what=what, timeout=timeout)
    if listening.failed:
        return listening
    if speaks_plain(address, timeout=timeout):
        return passed(what, f"{address} speaks without TLS")
    try:
        _handshake(address, _trusting(), timeout=timeout)
    except (ssl.SSLError, OSError):
        return _silent(address, what=what)
    return failed(
        what,
        Code.PEER_IS_TLS,
        f"{address} speaks TLS, but this side is configured to speak without",
        fix="set network.tls = true and give the peer's ca.crt; do not switch the peer's TLS off",
    )


def speaks_plain(address: Address, *, timeout: float) -> bool:
    """Whether the peer answers the opening of plain HTTP/2 or HTTP/1.1 within `timeout` seconds."""
    openings = (HTTP2_OPENING, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    return any(_answers_plain(address, opening, timeout=timeout) for opening in openings)


def peer_certificate(address: Address, *, timeout: float) -> x509.Certificate | None:
    """The certificate that a peer shows, unverified; None if it shows none."""
    try:
        der = _handshake(address, _trusting(), timeout=timeout)
    except (ssl.SSLError, OSError):
        return None
    return None if der is None else x509.load_der_x509_certificate(der)


def _trusting() -> ssl.SSLContext:
    """A context that verifies nothing: for looking at a certificate, never for using a peer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def _handshake(address: Address, context: ssl.SSLContext, *, timeout: float) -> bytes | None:
    """Shake hands, and wait for a refusal that comes after it; the peer's certificate (DER)."""
    with (
        socket.create_connection((address.host, address.port), timeout=timeout) as plain,
        context.wrap_socket(plain, server_hostname=address.host) as secure,
    ):
        certificate = secure.getpeercert(binary_form=True)
        if secure.selected_alpn_protocol() == "h2":
            try:
                secure.sendall(HTTP2_OPENING)
                answer = secure.recv(1)
            except TimeoutError:
                raise
            except OSError as error:
                raise _ClosedAfterHandshake(str(error)) from error
            if not answer:
                raise _ClosedAfterHandshake("the peer closed the connection")
        return certificate


def _explain(
    error: ssl.SSLCertVerificationError, address: Address, *, what: str, ca: Path, timeout: float
) -> CheckResult:
    """Name what is wrong with the peer's certificate."""
    shown = peer_certificate(address, timeout=timeout)
    now = dt.datetime.now(dt.UTC)
    clock = f"the clock here shows {now:%Y-%m-%d %H:%M} UTC"
    if error.verify_code == _EXPIRED:
        ended = f" on {shown.not_valid_after_utc:%Y-%m-%d %H:%M} UTC" if shown else ""
        return failed(
            what,
            Code.CERTIFICATE_EXPIRED,
            f"the certificate of {address} expired{ended}; {clock}",
            fix="on the peer: `regionfed certs renew`, then restart it; or set this clock right",
        )
    if error.verify_code == _NOT_YET_VALID:
        begins = f" until {shown.not_valid_before_utc:%Y-%m-%d %H:%M} UTC" if shown else ""
        return failed(
            what,
            Code.CERTIFICATE_NOT_YET_VALID,
            f"the certificate of {address} is not valid{begins}; {clock}",
            fix="one of the two clocks is wrong: synchronise them (NTP)",
        )
    if error.verify_code in (_HOST_MISMATCH, _ADDRESS_MISMATCH):
        names = ", ".join(hosts_of(shown.extensions)) if shown else "other names"
        return failed(
            what,
            Code.CERTIFICATE_NAME,
            f"the certificate of {address} is for {names}, not for {address.host!r}",
            fix=f"dial one of these names, or on the peer: `regionfed certs server --force --host "
            f"{address.host}` with all its names",
        )
    if error.verify_code in _UNKNOWN_ISSUER:
        issuer = shown.issuer.rfc4514_string() if shown else "another authority"
        return failed(
            what,
            Code.CERTIFICATE_UNKNOWN_CA,
            f"{ca} does not vouch for the certificate of {address}, which was signed by {issuer}",
            fix="get the ca.crt of the peer's site again; if its authority was made anew, all "
            "peers need the new file",
        )
    return failed(
        what,
        Code.CERTIFICATE_REJECTED,
        f"the certificate of {address} is refused: {error.verify_message}",
        fix="have the peer make a new certificate with `regionfed certs server`",
    )


def _without_handshake(
    error: OSError, address: Address, *, what: str, timeout: float
) -> CheckResult:
    """Name why the handshake did not come to verifying anything."""
    reason = getattr(error, "reason", "") or str(error)
    alert = any(alert in reason for alert in _CERTIFICATE_ALERTS)
    if alert or isinstance(error, _ClosedAfterHandshake):
        return failed(
            what,
            Code.PEER_WANTS_CERTIFICATE,
            f"{address} asks for a client certificate and refused what was shown ({reason})",
            fix="give a client certificate that the peer's authority signed (`regionfed certs "
            "client`)",
        )
    if speaks_plain(address, timeout=timeout):
        return failed(
            what,
            Code.PEER_IS_PLAIN,
            f"{address} speaks without TLS, but this side is configured to speak TLS",
            fix="start the peer with its certificate; network.tls = false is for loopback only",
        )
    return _silent(address, what=what)


def _silent(address: Address, *, what: str) -> CheckResult:
    return failed(
        what,
        Code.PEER_SILENT,
        f"{address} accepts connections, but speaks neither TLS nor HTTP",
        fix="another service may listen there, or the peer is still starting or hangs; correct the "
        "port, or look at the peer's log",
    )


def _answers_plain(address: Address, opening: bytes, *, timeout: float) -> bool:
    try:
        with socket.create_connection((address.host, address.port), timeout=timeout) as peer:
            peer.sendall(opening)
            answer = peer.recv(9)
    except OSError:
        return False
    settings_frame = len(answer) == 9 and answer[3] == 4
    return settings_frame or answer.startswith(b"HTTP/1.")
