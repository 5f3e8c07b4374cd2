"""Addresses: `HOST:PORT` texts, name resolution, and whether anybody listens."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from regionfed.checks.result import CheckResult, Code, failed, passed
from regionfed.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Address:
    """A host name or IP address and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, *, what: str) -> Address:
    """Read `HOST:PORT` (IPv6 in brackets).

    Raises `ConfigError` that shows the text and names `what` it is the address of.
    """
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    number = int(port) if port.isascii() and port.isdigit() else 0
    if not colon or not host or "/" in host or not 1 <= number <= 65535:
        raise ConfigError(
            f"{what}: {text!r} is not an address; expected HOST:PORT with a port from 1 to 65535, "
            "for example region-1.example.org:9092, without a scheme"
        )
    return Address(host, number)


def check_resolves(address: Address, *, what: str) -> CheckResult:
    """Whether the host name of `address` resolves to an IP address on this machine."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return failed(
            what,
            Code.ADDRESS_UNRESOLVED,
            f"host name {address.host!r} of {address} does not resolve here ({reason})",
            fix="correct the name, or make it known to this host (DNS, /etc/hosts, or the "
            "container's network)",
        )
    return passed(what, f"{address.host} is {found[0][4][0]}")


def check_listens(address: Address, *, what: str, timeout: float) -> CheckResult:
    """Whether something accepts TCP connections at `address` within `timeout` seconds."""
    resolved = check_resolves(address, what=what)
    if resolved.failed:
        return resolved
    try:
        socket.create_connection((address.host, address.port), timeout=timeout).close()
    except TimeoutError:
        return failed(
            what,
            Code.ADDRESS_TIMEOUT,
            f"{address} gave no answer to a connection within {timeout:g} s",
            fix="look for a firewall that drops packets, a wrong address, or a host that is down",
        )
    except OSError as error:
        if error.errno == errno.ECONNREFUSED:
            message = f"{address} refused the connection: the host is there, nothing listens"
            fix = (
                "start the peer, or correct the port; a process that binds 127.0.0.1 is not "
                "reachable from other hosts"
            )
        else:
            message = f"{address} cannot be reached ({error.strerror or error})"
            fix = "check the address, the route to that network, and the firewall"
        return failed(what, Code.ADDRESS_REFUSED, message, fix=fix)
    return passed(what, f"{address} accepts connections")
