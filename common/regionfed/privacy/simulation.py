"""Whether this process simulates: only there may scores be measured outside the promise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_simulating = False


@contextmanager
def simulation() -> Iterator[None]:
    """All tiers run in this process on data of one person for the time of the block."""
    global _simulating
    before, _simulating = _simulating, True
    try:
        yield
    finally:
        _simulating = before


def in_simulation() -> bool:
    """Whether the block of `simulation` is being run."""
    return _simulating
