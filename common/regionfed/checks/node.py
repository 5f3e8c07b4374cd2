"""Whether a SuperLink knows a node's key, and whether the two clocks agree.

Asks the Fleet API (flwr 1.39, gRPC) to activate the node with a heartbeat of zero seconds. The
SuperLink looks at the signature, then at its clock, then at the key, and refuses the heartbeat at
the end, so nothing changes there. Where it stops says what is wrong.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import grpc
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from regionfed.checks.address import Address
from regionfed.checks.result import CheckResult, Code, failed, passed, skipped
from regionfed.errors import IdentityError
from regionfed.identity.keys import load_node_key

_METHOD = "/flwr.proto.Fleet/ActivateNode"
_AHEAD_SECONDS, _BEHIND_SECONDS = 5, 305
"""How far a node's clock may be ahead of the SuperLink's, and how far behind (flwr 1.39)."""


class Verdict(Enum):
    """Where the SuperLink stopped."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    BAD_CLOCK = "bad clock"
    OTHER = "other"


Ask = Callable[[dt.timedelta], tuple[Verdict, str]]
"""Ask with the time of signing moved by so much; the verdict and the SuperLink's own words."""


def check_node_key(
    address: Address, *, what: str, ca: Path, node_key: Path, timeout: float
) -> CheckResult:
    """Whether the SuperLink at `address` lets the node with this key in."""
    try:
        key = load_node_key(node_key)
    except IdentityError as error:
        return failed(
            what,
            Code.IDENTITY_FILE,
            str(error),
            fix="a node key is made by `regionfed certs node`",
        )
    with grpc.secure_channel(
        str(address), grpc.ssl_channel_credentials(ca.read_bytes())
    ) as channel:
        return judge(
            lambda shift: _ask(channel, key, shift=shift, timeout=timeout),
            what=what,
            address=address,
            node_key=node_key,
        )


def judge(ask: Ask, *, what: str, address: Address, node_key: Path) -> CheckResult:
    """Turn the SuperLink's verdicts into a finding; asks again only if the clocks disagree."""
    verdict, words = ask(dt.timedelta(0))
    if verdict is Verdict.KNOWN:
        return passed(what, f"{address} knows the node key {node_key}, and the clocks agree")
    if verdict is Verdict.UNKNOWN:
        return failed(
            what,
            Code.NODE_KEY_UNKNOWN,
            f"{address} does not know the node key {node_key}",
            fix=f"hand {node_key}.pub to the SuperLink's owner, who registers it under this "
            "node's name: `flwr supernode register FILE SUPERLINK --name NAME`",
        )
    if verdict is Verdict.BAD_CLOCK:
        return failed(
            what,
            Code.CLOCK_SKEW,
            f"the clock here is {_skew(ask)} that of {address}, which lets a node's clock be "
            f"{_AHEAD_SECONDS} s ahead and {_BEHIND_SECONDS} s behind",
            fix="synchronise both clocks (NTP)",
        )
    return skipped(what, f"{address} did not say whether it knows the node key ({words})")


def _skew(ask: Ask) -> str:
    """How the clocks differ, as far as two more questions tell."""
    step = dt.timedelta(seconds=_BEHIND_SECONDS - _AHEAD_SECONDS)
    if ask(-step)[0] is not Verdict.BAD_CLOCK:
        return f"up to {step.seconds + _AHEAD_SECONDS} s ahead of"
    if ask(step)[0] is not Verdict.BAD_CLOCK:
        return f"between {_BEHIND_SECONDS} and {step.seconds + _BEHIND_SECONDS} s behind"
    return "more than five minutes away from"


def _ask(
    channel: grpc.Channel, key: ec.EllipticCurvePrivateKey, *, shift: dt.timedelta, timeout: float
) -> tuple[Verdict, str]:
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    moment = (dt.datetime.now(dt.UTC) + shift).isoformat()
    call = channel.unary_unary(_METHOD)
    try:
        call(
            _activate_request(public),
            timeout=timeout,
            metadata=(
                ("flwr-public-key-bin", public),
                ("flwr-timestamp", moment),
                ("flwr-signature-bin", key.sign(moment.encode(), ec.ECDSA(hashes.SHA256()))),
            ),
        )
    except grpc.RpcError as error:
        return _verdict(error.code(), error.details() or "")
    return Verdict.OTHER, "it accepted a heartbeat of zero seconds"


def _activate_request(public_key: bytes) -> bytes:
    """An ActivateNodeRequest with field 1, the public key; its heartbeat is left at zero."""
    length, size = b"", len(public_key)
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return b"\x0a" + length + bytes([size]) + public_key


def _verdict(status: grpc.StatusCode, details: str) -> tuple[Verdict, str]:
    words = f"{status.name}: {details}"
    if status is grpc.StatusCode.INVALID_ARGUMENT:
        return Verdict.KNOWN, words
    if status is grpc.StatusCode.FAILED_PRECONDITION:
        return Verdict.UNKNOWN, words
    if status is grpc.StatusCode.UNAUTHENTICATED and "timestamp" in details:
        return Verdict.BAD_CLOCK, words
    return Verdict.OTHER, words
