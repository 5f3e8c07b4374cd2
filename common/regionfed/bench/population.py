"""Who takes part in a benchmark: regions, clients, their rows as model inputs, and one model.

Read and encoded once per data section, model section and seed, and shared by all systems that are
compared on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from regionfed.bench.marks import mark_word, marked
from regionfed.config.federation import FederationConfig
from regionfed.data.config import DataConfig
from regionfed.data.open import open_data
from regionfed.data.types import ClientData, FederationData, Row
from regionfed.errors import DataError, ModelError
from regionfed.method.vectors import Vector
from regionfed.models.base import EncodedRows, FederatedModel
from regionfed.models.build import build_model
from regionfed.models.config import ModelConfig
from regionfed.models.flat import FlatModel
from regionfed.tasks.spec import TaskKind, TaskSpec

HELD_OUT = ("validation", "test")


@dataclass(frozen=True)
class Member:
    """One client: its rows as model inputs, and the histogram of labels behind h_r."""

    region: str
    client: str
    train: EncodedRows
    validation: EncodedRows
    labels: Mapping[str, float]

    @property
    def examples(self) -> int:
        """Training rows."""
        return len(self.train)


@dataclass(frozen=True)
class HeldOut:
    """Held-out rows of a region, client after client.

    `asked` are the rows as the model sees them, `rows` as they are scored, `sizes` the number of
    rows by client, in their order.
    """

    asked: EncodedRows
    rows: Sequence[Row]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Population:
    """All clients by region in name order, and the model that every one of them trains in turn.

    `initial` (d,) is theta_0. `marked`: the region's token is in every input (`bench.marks`).
    """

    tasks: tuple[TaskSpec, ...]
    regions: tuple[str, ...]
    members: Mapping[str, tuple[Member, ...]]
    held_out: Mapping[tuple[str, str], HeldOut]
    model: FederatedModel
    flat: FlatModel
    initial: Vector
    marked: bool

    def everyone(self) -> list[Member]:
        """All clients, region by region."""
        return [member for region in self.regions for member in self.members[region]]


def open_population(config: FederationConfig, *, marked: bool = False) -> Population:
    """The population of a configuration; the two used last are kept in memory.

    Raises `ModelError` for a model with averaged buffers, `DataError` for a client without rows to
    train on, and what data and model raise.
    """
    return _open(
        config.data.model_dump_json(), config.model.model_dump_json(), config.run.seed, marked
    )


@lru_cache(maxsize=2)
def _open(data_section: str, model_section: str, seed: int, with_marks: bool) -> Population:
    data = open_data(DataConfig.model_validate_json(data_section), seed)
    words = list(data.vocabulary())
    if with_marks:
        words = [mark_word(place) for place in range(len(data.regions))] + words
    model = build_model(
        ModelConfig.model_validate_json(model_section),
        tasks=data.tasks,
        vocabulary=words,
        seed=seed,
    )
    flat = FlatModel(model.module)
    if flat.buffer_layout.size:
        raise ModelError(
            "the benchmark compares flat vectors, and this model averages buffers (BatchNorm "
            "statistics) beside its vector; use a model without, for example model.cnn = 'lenet'"
        )
    members: dict[str, tuple[Member, ...]] = {}
    held_out: dict[tuple[str, str], HeldOut] = {}
    for place, region in enumerate(data.regions):
        mark = place if with_marks else None
        shares = [data.load(region, client) for client in sorted(data.clients(region))]
        members[region] = tuple(
            _member(share, data=data, model=model, mark=mark) for share in shares
        )
        for split in HELD_OUT:
            rows = [row for share in shares for row in getattr(share, split)]
            held_out[region, split] = HeldOut(
                asked=model.encode(_shown(rows, tasks=data.tasks, mark=mark)),
                rows=rows,
                sizes={share.client: len(getattr(share, split)) for share in shares},
            )
    return Population(
        tasks=data.tasks,
        regions=tuple(sorted(data.regions)),
        members=members,
        held_out=held_out,
        model=model,
        flat=flat,
        initial=flat.read(),
        marked=with_marks,
    )


def _member(
    share: ClientData, *, data: FederationData, model: FederatedModel, mark: int | None
) -> Member:
    if not share.train:
        raise DataError(
            f"client {share.client} of region {share.region} has no rows to train on; raise "
            "data.partition.min_rows or use fewer clients_per_region"
        )
    return Member(
        region=share.region,
        client=share.client,
        train=model.encode(_shown(share.train, tasks=data.tasks, mark=mark)),
        validation=model.encode(_shown(share.validation, tasks=data.tasks, mark=mark)),
        labels=_histogram(share.train, tasks=data.tasks),
    )


def _shown(rows: Sequence[Row], *, tasks: Sequence[TaskSpec], mark: int | None) -> Sequence[Row]:
    return rows if mark is None else marked(rows, region=mark, tasks=tasks)


def _histogram(rows: Sequence[Row], *, tasks: Sequence[TaskSpec]) -> dict[str, float]:
    """Labels of the first task that has classes (algorithm section 3.6)."""
    kinds = (TaskKind.CLASSIFICATION, TaskKind.IMAGE)
    task = next((task.name for task in tasks if task.kind in kinds), None)
    counts: dict[str, float] = {}
    for row in rows:
        if row.task == task:
            counts[row.target] = counts.get(row.target, 0.0) + 1.0
    return counts
