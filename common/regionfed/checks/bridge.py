"""Whether a coordinator's daemon answers this side, and runs the same version."""

from __future__ import annotations

from regionfed.bridge.client import BridgeTls, GrpcBridge
from regionfed.checks.address import Address
from regionfed.checks.result import CheckResult, Code, failed, passed
from regionfed.errors import IdentityError, RegionFedError


def check_daemon(
    address: Address, *, what: str, tls: BridgeTls | None, timeout: float
) -> CheckResult:
    """Whether the daemon at `address` answers a status call; a refused version is named.

    The transport itself is checked apart (`check_tls`), so a failure here is the daemon's answer.
    """
    try:
        bridge = GrpcBridge(str(address), tls=tls, patience=timeout)
    except IdentityError as error:
        return failed(what, Code.IDENTITY_FILE, str(error), fix="`regionfed certs client` makes it")
    try:
        status = bridge.status()
    except RegionFedError as error:
        if "install the same version" in str(error):
            return failed(
                what,
                Code.VERSION_MISMATCH,
                str(error),
                fix="deploy the same image version on all parts of the region",
            )
        return failed(
            what,
            Code.PEER_SILENT,
            f"the daemon at {address} gave no status ({error})",
            fix="look at the daemon's log",
        )
    finally:
        bridge.close()
    return passed(
        what, f"the daemon of region {status.region} at {address} runs regionfed {status.version}"
    )
