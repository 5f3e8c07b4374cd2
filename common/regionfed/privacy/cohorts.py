"""Who is asked when clients limit how often they take part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regionfed.training.seeds import derive_seed


def rotation(clients: Sequence[str], *, size: int, round: int, seed: int, region: str) -> list[str]:
    """The cohort of a round, sorted: everybody's turn comes before anybody's second.

    A seeded order is walked through in steps of `size`, so over T rounds no client takes part
    more than ceil(T*size/n) times, and never sooner than floor(n/size) rounds after the last.
    """
    names = sorted(clients)
    if size >= len(names):
        return names
    rng = np.random.default_rng(derive_seed("rotation", seed, region))
    order = [names[i] for i in rng.permutation(len(names))]
    start = (round - 1) * size
    return sorted(order[(start + step) % len(order)] for step in range(size))
