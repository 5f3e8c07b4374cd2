"""Pure placement of rows: which region, which client, which split (benchmark section 3).

Every function works on row numbers and is a function of its arguments and its seed alone. Random
streams are keyed by words (`stream`), so that one client's draw does not depend on another's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regionfed.errors import DataError

Assignment = Literal["semantic", "random", "adversarial"]
Split = Literal["train", "validation", "test"]


def stream(seed: int, *words: str | int) -> np.random.Generator:
    """A random generator of its own for (seed, words), the same in every process."""
    key = hashlib.blake2b("\x1f".join([str(seed), *map(str, words)]).encode(), digest_size=16)
    return np.random.default_rng(int.from_bytes(key.digest(), "big"))


def unit_hash(text: str, *, seed: int = 0) -> float:
    """A number in [0, 1) that depends on the text and the seed alone."""
    digest = hashlib.blake2b(f"{seed}\x1f{text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2.0**64


def split_by_hash(text: str, *, validation_share: float, test_share: float, seed: int = 0) -> Split:
    """The split of a row by its text, so that equal texts never fall on two sides."""
    place = unit_hash(text, seed=seed)
    if place < test_share:
        return "test"
    return "validation" if place < test_share + validation_share else "train"


def by_column(values: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Row numbers by the value of a column, values in sorted order."""
    found: dict[str, list[int]] = {}
    for index, value in enumerate(values):
        found.setdefault(value, []).append(index)
    return {value: np.array(found[value], np.int64) for value in sorted(found)}


def owners_by_size(sizes: Mapping[str, int], *, regions: int) -> dict[str, int]:
    """The region that owns each category: equally many categories each, balanced by rows.

    Largest category first, to the region with the fewest rows among those with room. With fewer
    categories than regions the remaining regions own none.
    """
    room = -(-len(sizes) // regions)
    held = [0] * regions
    owned = [0] * regions
    owners: dict[str, int] = {}
    for category in sorted(sizes, key=lambda name: (-sizes[name], name)):
        region = min(
            (index for index in range(regions) if owned[index] < room),
            key=lambda index: (held[index], owned[index], index),
        )
        owners[category] = region
        held[region] += sizes[category]
        owned[region] += 1
    return owners


def by_category(
    categories: Sequence[str],
    *,
    owners: Mapping[str, int],
    regions: int,
    home_probability: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """The region of every row: its category's owner with `home_probability`, else another one."""
    home = np.array([owners[category] for category in categories], np.int64)
    if regions == 1:
        return np.zeros(len(home), np.int64)
    away = (home + rng.integers(1, regions, size=len(home))) % regions
    stays = rng.random(len(home)) < home_probability
    return np.where(stays, home, away)


def dirichlet_shares(
    labels: Sequence[str], *, clients: int, alpha: float, rng: np.random.Generator
) -> dict[str, NDArray[np.float64]]:
    """For every label, the share of its rows that each client gets: (clients,), sums to 1."""
    return {label: rng.dirichlet(np.full(clients, alpha)) for label in sorted(set(labels))}


def by_dirichlet(
    labels: Sequence[str],
    *,
    clients: int,
    alpha: float,
    min_rows: int,
    max_draws: int,
    rng: np.random.Generator,
    where: str,
) -> tuple[NDArray[np.int64], dict[str, NDArray[np.float64]]]:
    """The client of every row, and the shares by label from which it was drawn.

    The draw is repeated until every client has `min_rows` rows. Raises `DataError`, naming
    `where`, when there are too few rows for that or `max_draws` draws did not reach it.
    """
    if len(labels) < clients * min_rows:
        raise DataError(
            f"{where}: {len(labels)} rows cannot give {clients} clients at least {min_rows} each; "
            "use fewer clients_per_region or a smaller partition.min_rows"
        )
    rows = by_column(labels)
    for _ in range(max_draws):
        shares = dirichlet_shares(labels, clients=clients, alpha=alpha, rng=rng)
        owner = np.zeros(len(labels), np.int64)
        for label, index in rows.items():
            cuts = (np.cumsum(shares[label])[:-1] * len(index)).round().astype(np.int64)
            for client, part in enumerate(np.split(rng.permutation(index), cuts)):
                owner[part] = client
        if np.bincount(owner, minlength=clients).min() >= min_rows:
            return owner, shares
    raise DataError(
        f"{where}: {max_draws} Dirichlet draws with partition.alpha = {alpha:g} left a client "
        f"under partition.min_rows = {min_rows}; use a larger alpha, fewer clients_per_region, a "
        "smaller min_rows or a larger partition.max_draws"
    )


def by_shares(
    labels: Sequence[str],
    *,
    shares: Mapping[str, NDArray[np.float64]],
    clients: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """The client of every held-out row, drawn from the training rows' shares of its label."""
    even = np.full(clients, 1.0 / clients)
    owner = np.zeros(len(labels), np.int64)
    for label, index in by_column(labels).items():
        owner[index] = rng.choice(clients, size=len(index), p=shares.get(label, even))
    return owner


def assign_clients(
    regions: int, *, clients: int, how: Assignment, seed: int
) -> list[list[tuple[int, int]]]:
    """Who sits at each place: `result[region][client]` is the (region, client) by related data.

    'semantic' leaves all where their data belongs, 'random' shuffles everyone, 'adversarial'
    gives every region clients from all the others in turn, so that neighbours share least.
    """
    places = [(region, client) for region in range(regions) for client in range(clients)]
    if how == "random":
        order = stream(seed, "assignment").permutation(len(places))
        places = [places[index] for index in order]
    elif how == "adversarial":
        places = [((region + client) % regions, client) for region, client in places]
    return [places[region * clients : (region + 1) * clients] for region in range(regions)]
