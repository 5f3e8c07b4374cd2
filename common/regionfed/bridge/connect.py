"""How a face of the coordinator finds its region's desk: in this process, or at an address."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from regionfed.bridge.api import RegionBridge
from regionfed.bridge.client import BridgeTls, GrpcBridge
from regionfed.bridge.desk import Desk
from regionfed.bridge.local import LocalBridge
from regionfed.errors import ConfigError

ADDRESS = "REGIONFED_BRIDGE"
"""Environment variable with the daemon's HOST:PORT, where the settings do not give it."""

_desks: dict[str, Desk] = {}


@contextmanager
def desk_in_process(desk: Desk) -> Iterator[None]:
    """Let `bridge_for` find this desk, for a federation that runs in one process."""
    if desk.region in _desks:
        raise ConfigError(f"region {desk.region!r} has a desk in this process already")
    _desks[desk.region] = desk
    try:
        yield
    finally:
        del _desks[desk.region]


def bridge_for(region: str, settings: Mapping[str, object]) -> RegionBridge:
    """Connect to a region's desk; the caller closes the bridge.

    `settings` are the node's or the run's settings; their key `bridge` is the daemon's HOST:PORT.
    TLS is used when REGIONFED_BRIDGE_CA, _CERT and _KEY are set. Raises ConfigError when there is
    no desk and no address, IdentityError when a TLS file cannot be read.
    """
    desk = _desks.get(region)
    if desk is not None:
        return LocalBridge(desk)
    address = str(settings.get("bridge") or "") or os.environ.get(ADDRESS, "")
    if not address:
        raise ConfigError(
            f'no address of the coordinator daemon of region {region!r}: give bridge="HOST:PORT" '
            f"in the node's or run's settings, or set {ADDRESS}"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(f"address {address!r} of the coordinator daemon is not HOST:PORT")
    return GrpcBridge(address, tls=BridgeTls.from_environment())
