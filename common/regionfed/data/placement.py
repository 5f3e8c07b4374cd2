"""From labelled examples to clients: one rule for all splits, and the source that serves them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from regionfed.data.config import DataConfig
from regionfed.data.partition import (
    Split,
    assign_clients,
    by_category,
    by_dirichlet,
    by_shares,
    owners_by_size,
    stream,
)
from regionfed.data.places import index_of
from regionfed.data.types import ClientData, Row
from regionfed.errors import DataError
from regionfed.tasks.spec import TaskSpec

SPLITS: tuple[Split, ...] = ("train", "validation", "test")

Shares = dict[tuple[str, str], ClientData]
"""Clients' rows by (region, client)."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What is placed as one: all rows of a query. `category` decides the region, `label` the client."""

    category: str
    label: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class PlacedData:
    """A federation whose rows are in memory, parsed once per process."""

    tasks: tuple[TaskSpec, ...]
    regions: tuple[str, ...]
    shares: Mapping[tuple[str, str], ClientData]
    words: tuple[str, ...] = field(default=(), repr=False)

    def clients(self, region: str) -> tuple[str, ...]:
        """Names of the clients of a region."""
        index_of(region, self.regions, what="region")
        return tuple(client for place, client in self.shares if place == region)

    def load(self, region: str, client: str) -> ClientData:
        """One client's rows; raises `DataError` for a place that does not exist."""
        index_of(client, self.clients(region), what=f"client of region {region}")
        return self.shares[region, client]

    def vocabulary(self) -> Iterable[str]:
        """Public words of the source, labels and prefixes."""
        return self.words


def public_words(tasks: Sequence[TaskSpec], texts: Iterable[str]) -> tuple[str, ...]:
    """Prefixes, labels, then the words of public texts, most frequent first."""
    first = [word for task in tasks for word in (*task.prefix.split(), *task.labels)]
    counted = Counter(word for text in texts for word in text.split())
    ranked = sorted(counted, key=lambda word: (-counted[word], word))
    return tuple(dict.fromkeys([*first, *ranked]))


def place_units(
    units: Mapping[Split, Sequence[Unit]],
    *,
    config: DataConfig,
    regions: tuple[str, ...],
    clients: tuple[str, ...],
    seed: int,
    owners: Mapping[str, int] | None = None,
) -> Shares:
    """Every unit to exactly one client of its split (benchmark section 3).

    The region follows from the category, the client from a Dirichlet draw over the training
    units' labels; held-out units follow the same shares. `owners` fixes the region of every category, and then every unit
    goes home. Raises `DataError` when a region could
    own no category or a client would get fewer than `partition.min_rows` units.
    """
    partition = config.partition
    sizes = Counter(unit.category for split in SPLITS for unit in units.get(split, ()))
    if len(sizes) < len(regions):
        raise DataError(
            f"source '{config.source}' has {len(sizes)} categories ({sorted(sizes)}), which cannot "
            f"be shared by {len(regions)} regions; set data.regions to {len(sizes)} or fewer"
        )
    home_probability = partition.home_probability if owners is None else 1.0
    owner_of = owners_by_size(sizes, regions=len(regions)) if owners is None else owners

    def regional(split: Split) -> dict[str, list[Unit]]:
        held = list(units.get(split, ()))
        index = by_category(
            [unit.category for unit in held],
            owners=owner_of,
            regions=len(regions),
            home_probability=home_probability,
            rng=stream(seed, "region", split),
        )
        result: dict[str, list[Unit]] = {name: [] for name in regions}
        for unit, region in zip(held, index.tolist(), strict=True):
            result[regions[region]].append(unit)
        return result

    placed = {split: regional(split) for split in SPLITS}
    count = len(clients)
    seats: list[list[dict[Split, list[Row]]]] = []
    for region in regions:
        train = placed["train"][region]
        owner, shares = by_dirichlet(
            [unit.label for unit in train],
            clients=count,
            alpha=partition.alpha,
            min_rows=partition.min_rows,
            max_draws=partition.max_draws,
            rng=stream(seed, "client", region),
            where=f"region {region}",
        )
        holders = {"train": owner} | {
            split: by_shares(
                [unit.label for unit in placed[split][region]],
                shares=shares,
                clients=count,
                rng=stream(seed, "client", region, split),
            )
            for split in SPLITS[1:]
        }
        row_of: list[dict[Split, list[Row]]] = [{s: [] for s in SPLITS} for _ in clients]
        for split in SPLITS:
            for unit, client in zip(placed[split][region], holders[split].tolist(), strict=True):
                row_of[client][split].extend(unit.rows)
        seats.append(row_of)
    moved = assign_clients(len(regions), clients=count, how=partition.assignment, seed=seed)
    return {
        (region, client): ClientData(region, client, **seats[r][c])
        for region, row in zip(regions, moved, strict=True)
        for client, (r, c) in zip(clients, row, strict=True)
    }
