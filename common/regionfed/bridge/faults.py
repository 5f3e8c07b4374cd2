"""Errors across the bridge: a named class travels as such, with its message."""

from __future__ import annotations

import grpc

from regionfed import errors
from regionfed.bridge.api import BridgeTimeout, WorkerSuperseded
from regionfed.errors import RegionFedError, TransportError

KEY = "regionfed-error"
"""Trailing metadata key with the class name."""

_CLASSES: dict[str, type[RegionFedError]] = {
    cls.__name__: cls
    for cls in (
        *(c for c in vars(errors).values() if isinstance(c, type)),
        BridgeTimeout,
        WorkerSuperseded,
    )
    if issubclass(cls, RegionFedError)
}
_LONGEST = 4000


def abort(context: grpc.ServicerContext, error: RegionFedError) -> None:
    """End a call with an error that `recover` turns back into the same class. Does not return."""
    name = next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in _CLASSES)
    context.set_trailing_metadata(((KEY, name),))
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error)[:_LONGEST])


def recover(error: grpc.RpcError) -> RegionFedError | None:
    """The error that the desk raised, or None when the call failed on its way."""
    for key, name in error.trailing_metadata() or ():
        if key == KEY:
            return _CLASSES.get(str(name), RegionFedError)(error.details())
    return None


def transport_error(
    error: grpc.RpcError, *, address: str, call: str, waited: float
) -> TransportError:
    """What to tell a person when the daemon cannot be reached or is not one."""
    hints = {
        grpc.StatusCode.UNIMPLEMENTED: "something else than a RegionFed coordinator listens there",
        grpc.StatusCode.DEADLINE_EXCEEDED: "it does not answer in time",
    }
    details = str(error.details() or "no details")
    hint = hints.get(error.code(), "")
    if "SSL" in details or "handshake" in details.lower() or "certificate" in details.lower():
        hint = "check that both sides use TLS, with certificates of one CA that name this address"
    return TransportError(
        f"coordinator daemon at {address}: {call} failed after {waited:.0f} s with "
        f"{error.code().name} ({details}){'; ' + hint if hint else ''}"
    )
