"""Who shares masks with whom, and what that choice is worth against colluding clients.

All pairs up to the configured limit (Bonawitz et al. 2017); above it a ring in random order where
each client is tied to the k/2 next on either side (the k-regular graph of Bell et al. 2020).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from regionfed.secagg.config import SecAggConfig
from regionfed.secagg.context import RoundContext


@dataclass(frozen=True)
class MaskGraph:
    """Graph of one round; `cohort` is sorted, a client's share index is its place in it from 1."""

    context: RoundContext
    config: SecAggConfig
    cohort: tuple[str, ...]

    @cached_property
    def index(self) -> dict[str, int]:
        """Share index of each client, from 1."""
        return {name: place for place, name in enumerate(self.cohort, start=1)}

    @property
    def complete(self) -> bool:
        """Whether every pair shares a mask."""
        size = len(self.cohort)
        return size <= self.config.complete_limit or size <= self.config.neighbours + 1

    @cached_property
    def _ring(self) -> tuple[list[str], dict[str, int]]:
        # The nonce is fresh and every client computes the order itself, so nobody picks places.
        seed = b"regionfed/ring/v1" + self.context.digest
        order = sorted(self.cohort, key=lambda name: hashlib.sha256(seed + name.encode()).digest())
        return order, {name: place for place, name in enumerate(order)}

    def holders(self, name: str) -> tuple[str, ...]:
        """The client and its neighbours, in cohort order: those who hold its shares."""
        if self.complete:
            return self.cohort
        order, place = self._ring
        half = self.config.neighbours // 2
        middle = place[name]
        near = {order[(middle + step) % len(order)] for step in range(-half, half + 1)}
        return tuple(sorted(near))

    @property
    def threshold(self) -> int:
        """Survivors that the whole round needs."""
        return self.config.threshold(len(self.cohort))

    @property
    def share_threshold(self) -> int:
        """Shares that reconstruct one client's secret."""
        size = len(self.cohort) if self.complete else self.config.neighbours + 1
        return self.config.threshold(size)


def smallest_honest_sum(*, clients: int, threshold: int, colluding: int) -> int:
    """Fewest honest clients whose sum a lying coordinator can see in one round.

    It may name different survivors to different clients. Each honest client calls at most
    n - t dead, and a dead one's key needs t - m honest answers, so at most h(n-t)/(t-m) of the h
    honest keys fall; the sum covers the others. 0: secrecy is lost (2t <= n + m).
    """
    honest = clients - colluding
    if 2 * threshold <= clients + colluding:
        return 0
    exposed = honest * (clients - threshold) // (threshold - colluding)
    return max(0, honest - exposed)


def neighbourhood_risk(*, clients: int, marked: int, neighbours: int, limit: int) -> float:
    """Chance that more than `limit` of one client's random neighbours are among the `marked`.

    The hypergeometric tail: with `marked` colluding clients the chance that a neighbourhood is
    unsafe, with `marked` dropped ones that it cannot be unmasked. Multiply by n for the round.
    """
    others = clients - 1
    total = math.comb(others, neighbours)
    tail = sum(
        math.comb(marked, hit) * math.comb(others - marked, neighbours - hit)
        for hit in range(limit + 1, min(marked, neighbours) + 1)
    )
    return tail / total


def ordered(names: Sequence[str]) -> tuple[str, ...]:
    """A cohort in its one canonical order."""
    return tuple(sorted(names))
