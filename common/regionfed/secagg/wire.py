"""Length-prefixed packing: one unambiguous byte string for signatures, states and messages."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TypeVar

from regionfed.secagg.errors import MalformedMessage

Scalar = bytes | str | int | float
Fields = Mapping[str, Scalar]

_LENGTH = struct.Struct(">I")
_T = TypeVar("_T", bytes, str, int, float)


def pack(fields: Iterable[bytes]) -> bytes:
    """Join byte strings so that no two different sequences give the same bytes."""
    parts: list[bytes] = []
    for field in fields:
        parts += (_LENGTH.pack(len(field)), field)
    return b"".join(parts)


def unpack(data: bytes, *, count: int | None = None) -> tuple[bytes, ...]:
    """Undo `pack`; raises MalformedMessage on cut or trailing bytes, or on another count."""
    fields: list[bytes] = []
    position = 0
    while position < len(data):
        start = position + _LENGTH.size
        if start > len(data):
            raise MalformedMessage("a packed field is cut in its length; discard the message")
        (length,) = _LENGTH.unpack_from(data, position)
        position = start + length
        if position > len(data):
            raise MalformedMessage(
                f"a packed field announces {length} bytes and has {len(data) - start}; "
                "discard the message"
            )
        fields.append(bytes(data[start:position]))
    if count is not None and len(fields) != count:
        raise MalformedMessage(f"expected {count} packed fields, got {len(fields)}")
    return tuple(fields)


def pack_int(value: int) -> bytes:
    """Eight bytes, big-endian, of a number in [0, 2^64)."""
    return value.to_bytes(8, "big")


def unpack_int(data: bytes) -> int:
    """Undo `pack_int`; raises MalformedMessage when there are not eight bytes."""
    if len(data) != 8:
        raise MalformedMessage(f"a packed number has 8 bytes, this one has {len(data)}")
    return int.from_bytes(data, "big")


def pack_names(names: Iterable[str]) -> bytes:
    """Pack client names in their given order."""
    return pack(name.encode() for name in names)


def unpack_text(data: bytes) -> str:
    """Decode UTF-8; raises MalformedMessage when it is none."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedMessage("a name in the message is not UTF-8") from error


def unpack_names(data: bytes) -> tuple[str, ...]:
    """Undo `pack_names`."""
    return tuple(unpack_text(name) for name in unpack(data))


def pack_named(rows: Iterable[tuple[str, bytes]]) -> bytes:
    """Pack a table of names and values."""
    return pack(part for name, data in rows for part in (name.encode(), data))


def unpack_named(data: bytes) -> tuple[tuple[str, bytes], ...]:
    """Undo `pack_named`; raises MalformedMessage."""
    parts = unpack(data)
    if len(parts) % 2:
        raise MalformedMessage("a table of names and values has a name without value")
    return tuple(
        (unpack_text(name), value) for name, value in zip(parts[::2], parts[1::2], strict=True)
    )


def take(fields: Fields, key: str, kind: type[_T]) -> _T:
    """Read one field of a message; raises MalformedMessage when absent or of another type."""
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, kind):
        raise MalformedMessage(
            f"field {key!r} should be {kind.__name__}, got {type(value).__name__}; "
            "both tiers must run the same version"
        )
    return value
