"""Files that hold secrets: mode 0600, replaced whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from regionfed.errors import IdentityError


def write_private(path: Path, data: bytes) -> None:
    """Write with mode 0600, durable before the rename that makes it visible."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_private(path: Path) -> bytes:
    """Read a secret file; raises IdentityError when absent or open to other users."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError as error:
        raise IdentityError(f"{path}: no such key file; enrol this device first") from error
    if mode & 0o077:
        raise IdentityError(
            f"{path}: mode {mode:04o} lets other users read the key; run chmod 600 {path}"
        )
    return path.read_bytes()
