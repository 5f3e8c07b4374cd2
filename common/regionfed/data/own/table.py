"""Tables in JSONL, CSV or Parquet, read as plain records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from regionfed.data.real.read import read_csv, read_jsonl, require_columns
from regionfed.errors import DataError

Format = Literal["auto", "jsonl", "csv", "parquet"]

_ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}


def read_table(path: Path, *, kind: Format, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The records of a table that has at least `columns`.

    Raises `DataError` naming the file when it is missing, its format is unknown or broken, or a
    column is not there.
    """
    if not path.is_file():
        raise DataError(
            f"{path} does not exist (working folder: {Path.cwd()}); correct `path` in [data.files]"
        )
    chosen = _format(path) if kind == "auto" else kind
    try:
        if chosen == "jsonl":
            return read_jsonl(path, columns=columns)
        if chosen == "csv":
            return list(read_csv(path, columns=columns))
        return _read_parquet(path, columns=columns)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error}); convert it to UTF-8") from None


def _format(path: Path) -> Format:
    name = path.with_suffix("") if path.suffix == ".gz" else path
    found = _ENDINGS.get(name.suffix.lower())
    if found is None:
        raise DataError(
            f"{path}: the format cannot be told from the ending '{path.suffix}'; endings known are "
            f"{', '.join(_ENDINGS)} (.gz after text is fine), or set `format` in [data.files]"
        )
    return found


def _read_parquet(path: Path, *, columns: Sequence[str]) -> list[dict[str, Any]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(
            f"{path}: Parquet needs the library `pyarrow`: pip install 'regionfed[data]'"
        ) from None
    try:
        file = pyarrow.parquet.ParquetFile(path)
        require_columns(columns, present=tuple(file.schema_arrow.names), path=path)
        records: list[dict[str, Any]] = file.read(columns=list(columns)).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path} is no readable Parquet file: {error}") from None
    return records
