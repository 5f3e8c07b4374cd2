"""Rows, a client's share of them, and the source that hands them out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from regionfed.tasks.spec import TaskSpec


@dataclass(frozen=True, slots=True)
class Row:
    """One example of one task.

    `text` is the input without a task prefix (NER: tokens joined by single spaces); `target` is
    the label's name, the corrected text, or one tag per token joined by single spaces. `image` is
    (height, width) uint8 for image tasks and None otherwise.
    """

    task: str
    text: str
    target: str
    image: NDArray[np.uint8] | None = None


@dataclass(frozen=True, slots=True)
class ClientData:
    """One client's rows. Rows of `test` are never trained on and never used to choose anything."""

    region: str
    client: str
    train: list[Row] = field(default_factory=list)
    validation: list[Row] = field(default_factory=list)
    test: list[Row] = field(default_factory=list)


class FederationData(Protocol):
    """A source of rows, already placed in regions and clients.

    Deterministic: the same configuration and seed give the same rows in every process. `load`
    builds one client's share without keeping the others in memory, and raises `DataError` for a
    region or client that does not exist (it never falls back to other rows).
    """

    @property
    def tasks(self) -> tuple[TaskSpec, ...]:
        """The tasks that appear in the rows, in the order of the configuration."""

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the regions."""

    def clients(self, region: str) -> tuple[str, ...]:
        """Names of the clients of a region, for example `c00`, `c01`."""

    def load(self, region: str, client: str) -> ClientData:
        """One client's rows."""

    def vocabulary(self) -> Iterable[str]:
        """Public words (not read from clients) from which a word vocabulary can be built."""
