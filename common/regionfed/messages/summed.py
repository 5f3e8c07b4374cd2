"""Messages of exchanges in which clients send integers that are only ever summed.

Steps of secure aggregation travel inside as one byte string each: `pack_step` writes the flat
table of a step (regionfed.secagg.messages) as JSON, `unpack_step` reads it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass

from regionfed.errors import UpdateError
from regionfed.messages.wire import MaskedVector, WireMessage

SECURE = "secure"
"""Action behind the message type of steps without data."""

Scalar = bytes | str | int | float


@dataclass(frozen=True)
class SummedVector(WireMessage):
    """A client's clipped values as integer steps modulo 2^32, masked under secure aggregation.

    The only message with content about a client's data in the private modes. `receipt` is the
    client's signed receipt of the masking step, empty without masks.
    """

    client: str
    round: int
    words: MaskedVector | None = None
    receipt: bytes = b""


@dataclass(frozen=True)
class SecureOrder(WireMessage):
    """A step of secure aggregation without data: `step` is a packed RoundOpen or UnmaskRequest.

    An UnmaskRequest may bring the RoundOpen of the next round along as `following`; it is taken up
    after the step.
    """

    run: str
    region: str
    round: int
    digest: str
    channel: str
    step: bytes
    following: bytes = b""


@dataclass(frozen=True)
class SecureAnswer(WireMessage):
    """The client's packed OpenReply or UnmaskReply: keys, sealed shares, or shares.

    `following` is its OpenReply to what the order brought along, empty where it refused that.
    """

    client: str
    round: int
    step: bytes
    following: bytes = b""


def pack_step(fields: Mapping[str, Scalar]) -> bytes:
    """A step's flat table as JSON; bytes in base64."""
    table = {
        key: {"bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
        for key, value in fields.items()
    }
    return json.dumps(table, separators=(",", ":")).encode()


def unpack_step(data: bytes) -> dict[str, Scalar]:
    """Undo `pack_step`; raises UpdateError for anything else."""
    try:
        table = json.loads(data)
        return {
            str(key): base64.b64decode(value["bytes"], validate=True)
            if isinstance(value, dict)
            else _scalar(value)
            for key, value in table.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UpdateError("a step of secure aggregation that cannot be read") from error


def _scalar(value: object) -> Scalar:
    if isinstance(value, str | int | float):
        return value
    raise TypeError(type(value).__name__)
