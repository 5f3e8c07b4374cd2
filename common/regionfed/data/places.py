"""Names of regions and clients, looked up with an error that lists what exists."""

from __future__ import annotations

from collections.abc import Sequence

from regionfed.errors import DataError


def index_of(name: str, names: Sequence[str], *, what: str) -> int:
    """Position of a name; raises `DataError` that names it and the ones there are."""
    try:
        return names.index(name)
    except ValueError:
        raise DataError(f"'{name}' is no {what} of this data; there are {shown(names)}") from None


def shown(names: Sequence[str]) -> str:
    """Names for an error message, at most twelve."""
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
