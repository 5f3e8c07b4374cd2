"""Print the requirements of `pyproject.toml`, base or of named extras, one a line.

Images install third-party packages from this list before the project's own code is copied, so a
change of code does not download PyTorch again. PyTorch is left out: its own step installs it.

Usage: python dependencies.py PYPROJECT [EXTRA ...]    (no extra: the base requirements)
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def requirements(pyproject: Path, extras: list[str]) -> list[str]:
    """The base requirements, or those of `extras` with references to other extras resolved.

    Raises `SystemExit` for an extra that the project does not declare.
    """
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    declared = project["optional-dependencies"]
    if not extras:
        return [line for line in project["dependencies"] if not re.match(r"torch\b", line)]
    lines: list[str] = []
    for extra in extras:
        if extra not in declared:
            raise SystemExit(f"extra {extra!r} is not in {pyproject}; declared: {sorted(declared)}")
        for line in declared[extra]:
            nested = re.fullmatch(rf"{project['name']}\[([^\]]+)\]", line)
            lines += requirements(pyproject, nested[1].split(",")) if nested else [line]
    return lines


if __name__ == "__main__":
    names = [name for word in sys.argv[2:] for name in word.split(",") if name]
    print("\n".join(requirements(Path(sys.argv[1]), names)))
