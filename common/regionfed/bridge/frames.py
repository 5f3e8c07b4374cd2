"""One transfer over gRPC: a head, then named parts in chunks, each closed by length and CRC."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from regionfed.bridge import bridge_pb2 as pb
from regionfed.errors import TransportError

CONTENT = "content"
STATE = "state"


def send(head: pb.Head, parts: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[pb.Frame]:
    """Yield the frames of a transfer; `head.parts` is set here."""
    parts = list(parts)
    head.parts = len(parts)
    yield pb.Frame(head=head)
    for name, pieces in parts:
        yield pb.Frame(part=pb.Part(name=name))
        size, crc = 0, 0
        for piece in pieces:
            size += len(piece)
            crc = zlib.crc32(piece, crc)
            yield pb.Frame(chunk=piece)
        yield pb.Frame(end=pb.End(bytes=size, crc32=crc))


class Incoming:
    """Reads a transfer as it arrives; every way in which it can be cut is a TransportError."""

    def __init__(self, frames: Iterable[pb.Frame]) -> None:
        self._frames = iter(frames)
        self.head: pb.Head = self._next("head").head

    def parts(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield name and pieces of each part. A part is used up before the next is asked for."""
        for _ in range(self.head.parts):
            name = self._next("part").part.name
            pieces = self._chunks(name)
            yield name, pieces
            for _ in pieces:
                pass

    def _next(self, *kinds: str) -> pb.Frame:
        frame = next(self._frames, None)
        if frame is None:
            raise TransportError(f"the transfer stopped where {' or '.join(kinds)} was due")
        if frame.WhichOneof("body") not in kinds:
            raise TransportError(
                f"the transfer holds {frame.WhichOneof('body')} where {' or '.join(kinds)} was due"
            )
        return frame

    def _chunks(self, name: str) -> Iterator[bytes]:
        size, crc = 0, 0
        while True:
            frame = self._next("chunk", "end")
            if frame.WhichOneof("body") == "end":
                break
            size += len(frame.chunk)
            crc = zlib.crc32(frame.chunk, crc)
            yield frame.chunk
        if (size, crc) != (frame.end.bytes, frame.end.crc32):
            raise TransportError(
                f"part {name!r} arrived damaged: {size} of {frame.end.bytes} bytes, checksum "
                f"{crc:08x}, expected {frame.end.crc32:08x}"
            )
