"""Files of the desk: written aside, flushed, renamed; each closed by its length and CRC."""

from __future__ import annotations

import contextlib
import os
import struct
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from regionfed.bridge.contents import CHUNK
from regionfed.errors import StateError

_FOOTER = struct.Struct("<QI")
_SUFFIX = ".rec"
_ASIDE = ".tmp"


class Spool:
    """A folder of immutable files with names of their own.

    A file that `write` returned is complete; it counts once the index refers to it, and one that
    it never refers to is removed by `sweep`. `durable=False` leaves out the flush to disk: such
    files survive the process, not the machine.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder
        self.durable = durable
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StateError(f"cannot make the folder {folder}: {error.strerror}") from error

    def write(self, pieces: Iterable[bytes]) -> str:
        """Write a new file and return its name.

        Raises StateError, leaving nothing behind, when the disk is full or not writable. What
        `pieces` raises goes through.
        """
        name = uuid.uuid4().hex + _SUFFIX
        aside = self.folder / (name + _ASIDE)
        try:
            with open(aside, "xb") as file:
                size, crc = 0, 0
                for piece in pieces:
                    file.write(piece)
                    size += len(piece)
                    crc = zlib.crc32(piece, crc)
                file.write(_FOOTER.pack(size, crc))
                file.flush()
                if self.durable:
                    os.fsync(file.fileno())
            os.replace(aside, self.folder / name)
            self._flush_folder()
        except OSError as error:
            self._drop(aside)
            raise StateError(
                f"cannot write {self.folder / name}: {error.strerror}; nothing was changed. "
                "Free space on this volume, then ask again"
            ) from error
        except BaseException:
            self._drop(aside)
            raise
        return name

    def read(self, name: str) -> Iterator[bytes]:
        """Yield a file's bytes. Raises StateError when it is missing or damaged.

        The file is opened at once, so it can be removed while it is being read.
        """
        path = self.folder / name
        try:
            file = open(path, "rb")  # noqa: SIM115 - closed by the generator below
        except OSError as error:
            raise StateError(f"cannot read {path}: {error.strerror}") from error

        def pieces() -> Iterator[bytes]:
            with file:
                left = os.fstat(file.fileno()).st_size - _FOOTER.size
                size, crc = 0, 0
                while left > 0 and (piece := file.read(min(CHUNK, left))):
                    left -= len(piece)
                    size += len(piece)
                    crc = zlib.crc32(piece, crc)
                    yield piece
                footer = file.read(_FOOTER.size)
            if len(footer) != _FOOTER.size or _FOOTER.unpack(footer) != (size, crc):
                raise StateError(f"{path} is damaged: length or checksum do not match")

        return pieces()

    def remove(self, *names: str | None) -> None:
        """Remove files that are no longer referred to; a missing one is fine."""
        for name in names:
            if name:
                self._drop(self.folder / name)

    def sweep(self, keep: Collection[str]) -> int:
        """Remove half-written files and files that are not in `keep`; return how many."""
        kept = set(keep)
        stale = [
            path
            for path in self.folder.iterdir()
            if path.name.endswith(_ASIDE) or (path.suffix == _SUFFIX and path.name not in kept)
        ]
        for path in stale:
            self._drop(path)
        return len(stale)

    def _flush_folder(self) -> None:
        if not self.durable:
            return
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @staticmethod
    def _drop(path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
