"""What the two ends of the bridge tell each other with every call: their versions."""

from __future__ import annotations

from collections.abc import Iterable

from regionfed.errors import TransportError
from regionfed.version import Versions, own_versions

_REGIONFED, _FLWR, _PROTOCOL = "regionfed-version", "flwr-version", "regionfed-protocol"

Metadata = Iterable[tuple[str, str | bytes]]

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", 8 << 20),
    ("grpc.max_receive_message_length", 8 << 20),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.so_reuseport", 0),
)
"""Of both ends. A frame is far below the message limit, so a model of any size passes. Dead
connections are noticed within 30 s."""


def present() -> tuple[tuple[str, str], ...]:
    """This side's versions as call metadata."""
    own = own_versions()
    return (
        (_REGIONFED, own.regionfed),
        (_FLWR, own.flwr),
        (_PROTOCOL, str(own.protocol)),
    )


def check(metadata: Metadata) -> None:
    """Raise TransportError, naming both sides, when the caller's versions do not fit ours."""
    given = {str(key): str(value) for key, value in metadata}
    caller = Versions(
        regionfed=given.get(_REGIONFED, "unknown"),
        flwr=given.get(_FLWR, "unknown"),
        protocol=int(given[_PROTOCOL]) if given.get(_PROTOCOL, "").isdigit() else 0,
    )
    problem = own_versions().mismatch(caller, name="the caller")
    if problem:
        raise TransportError(f"the coordinator daemon refuses the call: {problem}")
