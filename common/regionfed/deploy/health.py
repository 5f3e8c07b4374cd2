"""Health of the process in this container, in the exit status; started every few seconds.

Run as a file, with the standard library only, so that it costs 20 ms of CPU. A gRPC server has to
answer the opening of HTTP/2 (RFC 9113 section 3.4), a metrics server a request: a port that
merely accepts connections may belong to a process that hangs.

`REGIONFED_HEALTH` is `grpc:HOST:PORT`, `http:HOST:PORT/PATH`, `tls:HOST:PORT` for a server whose
certificate is checked elsewhere, or empty for the Flower processes' own health server.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
from pathlib import Path

PROBLEM_FILE = Path("/tmp/regionfed-problem")
"""Why the process cannot start yet, written by `regionfed.deploy.start`."""

DEFAULT = "grpc:127.0.0.1:9099"
TIMEOUT_SECONDS = 3.0
_HTTP2_OPENING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def problem(probe: str) -> str:
    """Empty if the process answers, else what is wrong in one line."""
    if PROBLEM_FILE.exists():
        return PROBLEM_FILE.read_text(errors="replace").strip()
    kind, _, rest = probe.partition(":")
    where, _, path = rest.partition("/")
    host, _, port = where.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS) as peer:
            peer.settimeout(TIMEOUT_SECONDS)
            if kind == "tls":
                return _shakes_hands(peer)
            http = f"GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode()
            peer.sendall(http if kind == "http" else _HTTP2_OPENING)
            answer = peer.recv(16)
    except (OSError, ValueError) as error:
        return f"{probe} does not answer: {error}"
    if kind == "http":
        return "" if b" 200" in answer else f"{probe} answers {answer!r}"
    return "" if len(answer) > 3 and answer[3] == 4 else f"{probe} is no gRPC server: {answer!r}"


def _shakes_hands(peer: socket.socket) -> str:
    """Empty once the peer has completed a TLS handshake; raises `OSError` if it does not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.wrap_socket(peer).close()
    return ""


if __name__ == "__main__":
    found = problem(os.environ.get("REGIONFED_HEALTH") or DEFAULT)
    print(found or "ok")
    sys.exit(1 if found else 0)
