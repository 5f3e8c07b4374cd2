"""Writing files so that a crash leaves either the old or the new one."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside `path`, flush to the disk, then rename over it.

    The folder is made when it is absent. Raises OSError as the file system does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        commit(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def commit(aside: Path, path: Path) -> None:
    """Rename a written file to its name and make the rename durable."""
    os.replace(aside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def sync(path: Path) -> None:
    """Flush a file that another library wrote to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
