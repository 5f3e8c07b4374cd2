"""Logs of every tier: lines for a person, or one JSON object per line with `REGIONFED_LOG=json`.

Flower's processes write in a form of their own, and so do the apps below them and Python when it
fails. In JSON mode a role therefore becomes `python -m regionfed.logs COMMAND`, which makes one object
of every line of the command's output, and of every traceback. Fields: `time` (UTC), `level`, `logger`, `message`,
and `tier`, `role`, `region`, `client` where they are known. No log carries data or keys.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, TextIO

from regionfed.errors import ConfigError

VARIABLE = "REGIONFED_LOG"
FORMATS = ("text", "json")
DRAIN_SECONDS = 2.0
TEXT = "%(asctime)sZ %(levelname)s %(name)s: %(message)s"
WHERE = {
    "tier": "REGIONFED_TIER",
    "role": "REGIONFED_ROLE",
    "region": "REGIONFED_REGION",
    "client": "REGIONFED_CLIENT",
}
"""Fields that say which process speaks, by the variable that tells it."""

if TYPE_CHECKING:
    _Stream = logging.StreamHandler[TextIO]
else:
    _Stream = logging.StreamHandler

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FLOWER = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL)\s*:\s+(.*)")
_DATED = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\S+ (DEBUG|INFO|WARNING|ERROR|CRITICAL) \[?([\w.]+)(?:\]|:) (.*)"
)
_TRACEBACK = "Traceback (most recent call last):"


def wants_json(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether logs are JSON. Raises `ConfigError` for a format that does not exist."""
    given = environ.get(VARIABLE, "").lower() or "text"
    if given not in FORMATS:
        raise ConfigError(f"{VARIABLE} = {given!r} is no format; set it to {' or '.join(FORMATS)}")
    return given == "json"


def set_up_logs(environ: Mapping[str, str] = os.environ) -> None:
    """Log INFO and above to standard error in the format that the environment asks for.

    Called where a process starts; an earlier set-up of this process is replaced. Raises
    `ConfigError` as `wants_json` does.
    """
    handler = _Handler()
    formatter: logging.Formatter = logging.Formatter(TEXT)
    formatter.converter = time.gmtime
    if wants_json(environ):
        formatter = JsonFormatter(place(environ))
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each, _Handler)]
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    # It notes every request at INFO, and a run is looked at every second.
    logging.getLogger("httpx").setLevel(logging.WARNING)


def set_up_app_logs(environ: Mapping[str, str] = os.environ) -> None:
    """`set_up_logs` for a ServerApp in a process that a role started.

    Where the app runs in a process of somebody else (`regionfed simulate`), the logs are left alone.
    """
    if environ.get(WHERE["role"]):
        set_up_logs(environ)


def place(environ: Mapping[str, str]) -> dict[str, str]:
    """Which process this is, in the fields of `WHERE` that are known."""
    return {field: environ[name] for field, name in WHERE.items() if environ.get(name)}


class _Handler(_Stream):
    """This project's own handler; Flower writes its records itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.name.split(".")[0] != "flwr" and bool(super().filter(record))


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__()
        self._fields = dict(fields)

    def format(self, record: logging.LogRecord) -> str:
        """The record's object; a traceback goes into `trace`."""
        entry: dict[str, Any] = {
            "time": _stamp(record.created),
            "level": record.levelname,
            **self._fields,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def structured(lines: Iterable[str], fields: Mapping[str, str]) -> Iterator[str]:
    """One JSON object for each line of a process's output, and for each traceback as a whole."""
    trace: list[str] = []
    for raw in lines:
        line = _COLOUR.sub("", raw).rstrip()
        if trace:
            trace.append(line)
            if line and not line[0].isspace():
                yield _entry("ERROR", "python", "\n".join(trace), fields)
                trace = []
        elif line == _TRACEBACK:
            trace = [line]
        elif line:
            yield _object(line, fields)
    if trace:
        yield _entry("ERROR", "python", "\n".join(trace), fields)


def _object(line: str, fields: Mapping[str, str]) -> str:
    if line.startswith("{") and line.endswith("}"):
        try:
            if isinstance(json.loads(line), dict):
                return line
        except ValueError:
            pass
    if found := _DATED.match(line):
        return _entry(found[1], found[2], found[3], fields)
    if found := _FLOWER.match(line):
        return _entry(found[1], "flwr", found[2], fields)
    return _entry("INFO", "output", line, fields)


def _entry(level: str, logger: str, message: str, fields: Mapping[str, str]) -> str:
    entry = {
        "time": _stamp(time.time()),
        "level": level,
        **fields,
        "logger": logger,
        "message": message,
    }
    return json.dumps(entry, ensure_ascii=False)


def _stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def run_structured(command: Sequence[str]) -> int:
    """Run `command` with its output made structured; its exit status as a shell gives it.

    A request to stop is handed on, and what the process says until its end is still written.
    """
    child = subprocess.Popen(
        list(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    assert child.stdout is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda sent, _: child.send_signal(sent))
    # Processes below the child may outlive it and hold the pipe open: its own end counts.
    reader = threading.Thread(target=_copy, args=(child.stdout, sys.stdout), daemon=True)
    reader.start()
    code = child.wait()
    reader.join(timeout=DRAIN_SECONDS)
    return 128 - code if code < 0 else code


def _copy(source: IO[str], target: IO[str]) -> None:
    for text in structured(source, place(os.environ)):
        target.write(text + "\n")
        target.flush()


if __name__ == "__main__":
    sys.exit(run_structured(sys.argv[1:]))
