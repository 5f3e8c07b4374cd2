"""Key and certificate files: written once, whole, with the right modes.

A private key is readable by its owner only (0600, folder 0700); what is public is 0644. A file
that exists is never replaced unless the caller says so.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from regionfed.errors import IdentityError

PRIVATE_FILE, PUBLIC_FILE = 0o600, 0o644
PRIVATE_FOLDER = 0o700


def private_folder(path: Path) -> Path:
    """Create `path` with mode 0700 if it is missing; an existing folder keeps its mode.

    Raises `IdentityError` if it cannot be created.
    """
    try:
        path.mkdir(parents=True, mode=PRIVATE_FOLDER, exist_ok=True)
    except OSError as error:
        raise IdentityError(
            f"folder {path} cannot be created: {error.strerror}; choose a folder that this user "
            f"(UID {os.getuid()}) may write"
        ) from error
    return path


def refuse_existing(paths: list[Path], *, force: bool) -> None:
    """Raise `IdentityError` that names the files which exist, unless `force`."""
    present = [str(path) for path in paths if path.exists()]
    if present and not force:
        raise IdentityError(
            f"{', '.join(present)} exists and is kept; --force replaces it (nodes that know the "
            "old key or certificate then have to be told)"
        )


def write_file(path: Path, content: bytes, *, private: bool) -> None:
    """Write aside, flush to disk and rename, so that a reader sees the old file or the new one.

    Raises `IdentityError` if the folder cannot be written.
    """
    mode = PRIVATE_FILE if private else PUBLIC_FILE
    try:
        descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                os.fchmod(stream.fileno(), mode)
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(aside, path)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise IdentityError(
            f"{path} cannot be written: {error.strerror}; check the folder's owner and free space"
        ) from error


def read_file(path: Path, *, what: str) -> bytes:
    """Content of `path`; `IdentityError` that names `what` it should hold if it is unreadable."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise IdentityError(
            f"{what} {path} does not exist; make it with `regionfed certs` or correct the path"
        ) from None
    except OSError as error:
        raise IdentityError(
            f"{what} {path} cannot be read by UID {os.getuid()}: {error.strerror}; run as the "
            "file's owner, or give this user its own copy"
        ) from error
