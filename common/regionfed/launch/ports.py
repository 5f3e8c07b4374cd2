"""Ports for the processes of a local federation."""

from __future__ import annotations

import contextlib
import ipaddress
import socket

from regionfed.errors import ConfigError, TransportError


class Ports:
    """Hands out loopback ports: counting up from `base`, or free ones where `base` is 0.

    Raises ConfigError for a host beyond loopback (local processes speak without TLS) and
    TransportError, naming the port, when a counted port is taken.
    """

    def __init__(self, host: str, base: int) -> None:
        if not _is_loopback(host):
            raise ConfigError(
                f"network.host = {host!r} is beyond loopback, where `regionfed up` would listen "
                "without TLS; set it to 127.0.0.1, or deploy the tiers with certificates"
            )
        self.host = host
        self._next = base
        self._given: set[int] = set()

    def take(self, what: str) -> str:
        """The HOST:PORT at which `what` will listen."""
        if self._next == 0:
            return f"{self.host}:{self._free()}"
        port = self._next
        self._next += 1
        with contextlib.closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, port))
            except OSError as error:
                raise TransportError(
                    f"port {port} of {self.host}, wanted for {what}, is taken "
                    f"({error.strerror}); set network.base_port to another value, or to 0 for "
                    "free ports"
                ) from error
        return f"{self.host}:{port}"

    def _free(self) -> int:
        while True:
            with contextlib.closing(socket.socket()) as probe:
                probe.bind((self.host, 0))
                port = int(probe.getsockname()[1])
            if port not in self._given:
                self._given.add(port)
                return port


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
