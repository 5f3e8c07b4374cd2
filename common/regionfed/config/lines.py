"""Where in a TOML text a key stands, for error messages."""

from __future__ import annotations

import re

_HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=""")


def key_lines(text: str) -> dict[str, int]:
    """Line number by dotted key and by dotted section, from 1.

    It reads line by line: a key inside a multi-line string may be counted as one, which is good
    enough to point at a place.
    """
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = _plain(header.group(1))
            found.setdefault(section, number)
        elif key := _KEY.match(line):
            name = _plain(key.group(1))
            found.setdefault(f"{section}.{name}" if section else name, number)
    return found


def _plain(key: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in key.split("."))
