"""Reading the files under the data folder, with errors that say which file and which column."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from regionfed.errors import DataError


def open_text(path: Path) -> IO[str]:
    """A text file, unpacked when its name ends in .gz. Raises `DataError` if it is not there."""
    if not path.is_file():
        raise DataError(
            f"{path} does not exist; it belongs to the data folder named by `root` in [data] or by "
            "REGIONFED_DATA: complete the folder or name another one"
        )
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def read_csv(path: Path, *, columns: Sequence[str], delimiter: str = ",") -> list[dict[str, str]]:
    """The rows of a CSV file with a header that has at least `columns`."""
    with open_text(path) as file:
        reader = csv.DictReader(file, delimiter=delimiter)
        require_columns(columns, present=reader.fieldnames or (), path=path)
        return list(reader)


def read_jsonl(path: Path, *, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The objects of a JSONL file, each with at least `columns`."""
    return list(iterate_jsonl(path, columns=columns))


def iterate_jsonl(path: Path, *, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file one by one."""
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{path}, line {number}: not JSON ({error}); correct it") from None
            if not isinstance(value, dict):
                raise DataError(f"{path}, line {number}: every line must be an object {{...}}")
            require_columns(columns, present=tuple(value), path=path, line=number)
            yield value


def require_columns(
    columns: Sequence[str], *, present: Sequence[str], path: Path | str, line: int | None = None
) -> None:
    """Raises `DataError` naming file, missing columns and the columns present."""
    missing = [name for name in columns if name not in present]
    if missing:
        where = f"{path}, line {line}" if line else str(path)
        raise DataError(
            f"{where}: no column {', '.join(map(repr, missing))}; columns present: "
            f"{', '.join(map(repr, present)) or 'none'}. Name the right column in [data], or add it "
            "to the file"
        )
