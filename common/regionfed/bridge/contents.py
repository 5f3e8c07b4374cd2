"""Records to bytes and back: what is in a part of a transfer or in a file of the spool.

Layout: length of the description (4 bytes, little-endian), description (`Contents` of
bridge.proto), then the bytes of all arrays in the order in which it lists them. All records travel
by name and kind. Nothing is unpickled: an array's bytes stay what Flower made of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from regionfed.bridge import bridge_pb2 as pb
from regionfed.errors import TransportError, UpdateError

CHUNK = 1 << 20
"""Largest piece of bytes that is sent or written at once."""
LARGEST_DESCRIPTION = 1 << 28

Scalar = bool | int | float | str | bytes


def encode(content: RecordDict) -> Iterator[bytes]:
    """Yield a record dictionary as pieces of at most `CHUNK` bytes.

    Raises UpdateError for a value that no record may hold (an integer beyond 64 bits).
    """
    description = pb.Contents()
    for name, record in content.items():
        described = description.records.add(name=name)
        if isinstance(record, ArrayRecord):
            described.arrays.SetInParent()
            for key, array in record.items():
                described.arrays.arrays.add(
                    name=key,
                    dtype=array.dtype,
                    shape=array.shape,
                    stype=array.stype,
                    bytes=len(array.data),
                )
        else:
            values = described.metrics if isinstance(record, MetricRecord) else described.config
            values.SetInParent()
            for key, value in record.items():
                values.values.add(name=key, value=_to_value(value, where=f"{name}.{key}"))
    head = description.SerializeToString()
    yield from _pieces(struct.pack("<I", len(head)) + head)
    for record in content.array_records.values():
        for array in record.values():
            yield from _pieces(array.data)


def decode(pieces: Iterable[bytes]) -> RecordDict:
    """Read what `encode` wrote, however it was cut. Raises TransportError when it is damaged."""
    source = _Source(pieces)
    (size,) = struct.unpack("<I", source.take(4, "the length of the description"))
    if size > LARGEST_DESCRIPTION:
        raise TransportError(f"a description of {size} bytes is not one of ours")
    description = pb.Contents()
    try:
        description.ParseFromString(source.take(size, "the description"))
    except ValueError as error:
        raise TransportError(f"the description cannot be read: {error}") from error
    content = RecordDict()
    for record in description.records:
        match record.WhichOneof("body"):
            case "arrays":
                arrays = ArrayRecord()
                for meta in record.arrays.arrays:
                    arrays[meta.name] = Array(
                        dtype=meta.dtype,
                        shape=tuple(meta.shape),
                        stype=meta.stype,
                        data=source.take(meta.bytes, f"array {record.name}.{meta.name}"),
                    )
                content[record.name] = arrays
            case "metrics":
                content[record.name] = MetricRecord(_from_values(record.metrics))
            case "config":
                content[record.name] = ConfigRecord(_from_values(record.config))
            case _:
                raise TransportError(f"record {record.name!r} is of an unknown kind")
    source.must_be_empty()
    return content


def _pieces(data: bytes) -> Iterator[bytes]:
    view = memoryview(data)
    for start in range(0, len(view), CHUNK):
        yield bytes(view[start : start + CHUNK])


def _to_value(value: Scalar | list[Scalar], *, where: str) -> pb.Value:
    match value:
        case bool():
            return pb.Value(flag=value)
        case int():
            if -(2**63) <= value < 2**63:
                return pb.Value(integer=value)
            if 0 <= value < 2**64:
                return pb.Value(large_integer=value)
            raise UpdateError(f"{where} = {value} does not fit 64 bits")
        case float():
            return pb.Value(number=value)
        case str():
            return pb.Value(text=value)
        case bytes():
            return pb.Value(data=value)
        case list():
            return pb.Value(
                items=pb.ValueList(values=[_to_value(item, where=where) for item in value])
            )


def _from_values(record: pb.ValueRecord) -> Mapping[str, Scalar | list[Scalar]]:
    return {named.name: _from_value(named.value) for named in record.values}


def _from_value(value: pb.Value) -> Scalar | list[Scalar]:
    match value.WhichOneof("body"):
        case "items":
            return [_from_scalar(item) for item in value.items.values]
        case _:
            return _from_scalar(value)


def _from_scalar(value: pb.Value) -> Scalar:
    which = value.WhichOneof("body")
    if which is None or which == "items":
        raise TransportError("a value without content, or a list within a list")
    scalar: Scalar = getattr(value, which)
    return scalar


class _Source:
    """Takes bytes in the wanted sizes from pieces of any size."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")

    def take(self, size: int, what: str) -> bytes:
        if size <= len(self._rest):
            out, self._rest = bytes(self._rest[:size]), self._rest[size:]
            return out
        parts, have = [self._rest], len(self._rest)
        while have < size:
            piece = next(self._pieces, None)
            if piece is None:
                raise TransportError(f"the data ends within {what}: {have} of {size} bytes")
            parts.append(memoryview(piece))
            have += len(piece)
        keep = len(parts[-1]) - (have - size)
        parts[-1], self._rest = parts[-1][:keep], parts[-1][keep:]
        return b"".join(parts)

    def must_be_empty(self) -> None:
        extra = len(self._rest) + sum(len(piece) for piece in self._pieces)
        if extra:
            raise TransportError(f"{extra} bytes after the end of the last array")
