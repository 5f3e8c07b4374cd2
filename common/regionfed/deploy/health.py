"""Health of the process in this container, in the exit status; started every few seconds.

Run as a file, with the standard library only, so that it costs 20 ms of CPU. A gRPC server has to
answer the opening of HTTP/2 (RFC 9113 section 3.4), a metrics server a request: a port that
merely accepts connections may belong to a process that hangs.

`REGIONFED_HEALTH` is `grpc:HOST:PORT`, `http:HOST:PORT/PATH`, or empty for the Flower processes'
own health server.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path

PROBLEM_FILE = Path(tempfile.gettempdir()) / "regionfed-problem"
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
    opening = _HTTP2_OPENING
    if kind == "http":
        opening = f"GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode()
    try:
        with socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS) as peer:
            peer.settimeout(TIMEOUT_SECONDS)
            peer.sendall(opening)
            answer = peer.recv(16)
    except (OSError, ValueError) as error:
        return f"{probe} does not answer: {error}"
    if kind == "http":
        return "" if b" 200" in answer else f"{probe} answers {answer!r}"
    return "" if len(answer) > 3 and answer[3] == 4 else f"{probe} is no gRPC server: {answer!r}"


if __name__ == "__main__":
    found = problem(os.environ.get("REGIONFED_HEALTH") or DEFAULT)
    print(found or "ok")
    sys.exit(1 if found else 0)
