"""What a person sees when a command fails, and where the details are kept."""

from __future__ import annotations

import os
import tempfile
import traceback
from pathlib import Path

from rich.console import Console
from rich.text import Text

from regionfed.errors import RegionFedError

UNEXPECTED = 1

_log_folder: Path | None = None


def keep_logs_in(folder: Path | None) -> None:
    """Where the traceback of an unexpected failure goes; None: the temporary folder."""
    global _log_folder
    _log_folder = folder


def report_failure(error: RegionFedError) -> int:
    """Print an error that the user can act on in red; the exit code of its kind."""
    if _debugging():
        traceback.print_exception(error)
    _red(f"error: {error}")
    return error.exit_code


def report_unexpected(error: Exception) -> int:
    """Print a failure nobody foresaw as one line that names the file with its traceback."""
    if _debugging():
        traceback.print_exception(error)
        return UNEXPECTED
    text = "".join(traceback.format_exception(error))
    _red(f"internal error: {type(error).__name__}: {error}. Traceback: {_keep(text)}")
    return UNEXPECTED


def _keep(text: str) -> Path:
    """Write a traceback for its owner only and return its path."""
    folder = _log_folder if _log_folder is not None and _log_folder.is_dir() else None
    handle, name = tempfile.mkstemp(prefix="regionfed-error-", suffix=".log", dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)


def _red(message: str) -> None:
    # soft_wrap keeps a line whole, so that a log or a test finds it as it was written.
    Console(stderr=True, highlight=False).print(Text(message, style="red"), soft_wrap=True)


def _debugging() -> bool:
    return os.environ.get("REGIONFED_DEBUG", "") not in ("", "0")
