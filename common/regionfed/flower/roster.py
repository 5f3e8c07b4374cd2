"""Which node is which: names of connected nodes, kept up to date."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from flwr.serverapp import Grid

Resolver = Callable[[Grid, Iterable[int]], Mapping[int, str]]
"""Names of the given node ids; ids that cannot be named (yet) are absent."""


class Roster:
    """Names of the nodes that a grid shows at present.

    `resolve` is asked about new node ids until it names them, at most every `retry_seconds`. When two live ids claim one name, the one seen
    last holds it: a process that restarted without a stable identity leaves its old id behind
    until the SuperLink notices.
    """

    def __init__(self, grid: Grid, resolve: Resolver, *, retry_seconds: float = 1.0) -> None:
        self._grid = grid
        self._resolve = resolve
        self._retry = retry_seconds
        self._names: dict[int, str] = {}
        self._order: list[int] = []
        self._tried: dict[int, float] = {}
        self._live: dict[str, int] = {}

    def refresh(self) -> None:
        """Look at the grid once and name the nodes that are new."""
        ids = [int(node) for node in self._grid.get_node_ids()]
        now = time.monotonic()
        new = [
            node
            for node in ids
            if node not in self._names and now - self._tried.get(node, -1e9) >= self._retry
        ]
        if new:
            found = self._resolve(self._grid, new)
            for node in new:
                self._tried[node] = now
                if node in found:
                    self._names[node] = found[node]
                    self._order.append(node)
        present = set(ids)
        self._live = {self._names[node]: node for node in self._order if node in present}

    def node_of(self, name: str) -> int | None:
        """The node id under which `name` is connected, or None."""
        return self._live.get(name)

    def names(self) -> list[str]:
        """Names that are connected, sorted."""
        return sorted(self._live)

    def wait_for(self, wanted: Iterable[str], *, at_least: int, deadline: float) -> list[str]:
        """Wait until all `wanted` names are there, or the deadline has passed.

        Returns the wanted names that are connected, sorted; it may be fewer than `at_least` (the
        caller names the missing ones). Returns early only when everybody is there.
        """
        wanted = sorted(wanted)
        end = time.monotonic() + deadline
        while True:
            self.refresh()
            here = [name for name in wanted if name in self._live]
            if len(here) == len(wanted) or time.monotonic() >= end:
                return here
            time.sleep(0.05 if deadline < 5 else 0.3)
