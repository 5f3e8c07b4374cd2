"""The built-in federation: any client's share, written on demand."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from regionfed.data.builtin.dialects import build_dialects
from regionfed.data.builtin.lexicon import build_lexicon
from regionfed.data.builtin.queries import QueryWriter, describe_shopper
from regionfed.data.config import DataConfig
from regionfed.data.partition import Split, assign_clients, split_by_hash, stream
from regionfed.data.places import index_of
from regionfed.data.types import ClientData, Row
from regionfed.errors import DataError
from regionfed.tasks.registry import intent_task, ner_task, select_tasks, spell_task
from regionfed.tasks.spec import TaskSpec

_TRIES = 2000
"""Draws for one row of a split; a grammar with fewer distinct queries than that is too small."""


class BuiltinData:
    """Shop queries of regions that mean different things by the same words.

    Which split a query may occur in depends on the query alone, so no test query of any client
    is a training query of another.
    """

    def __init__(self, config: DataConfig, *, seed: int) -> None:
        self._config = config.builtin
        self._partition = config.partition
        self._seed = seed
        self._regions = config.region_names(default=8)
        self._clients = config.client_names(default=10)
        self._tasks = select_tasks(
            (intent_task(), spell_task(), ner_task()),
            chosen=config.tasks,
            custom={},
            source="builtin",
        )
        self._lexicon = build_lexicon(config.builtin)
        self._dialects = build_dialects(
            config.builtin, self._lexicon, regions=self._regions, seed=seed
        )
        self._seats = assign_clients(
            len(self._regions),
            clients=len(self._clients),
            how=config.partition.assignment,
            seed=seed,
        )

    @property
    def tasks(self) -> tuple[TaskSpec, ...]:
        """The tasks that appear in the rows."""
        return self._tasks

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the regions."""
        return self._regions

    def clients(self, region: str) -> tuple[str, ...]:
        """Names of the clients of a region."""
        index_of(region, self._regions, what="region")
        return self._clients

    def load(self, region: str, client: str) -> ClientData:
        """One client's rows: the configured number per task and split, tasks in turn."""
        seat = self._seats[index_of(region, self._regions, what="region")][
            index_of(client, self._clients, what=f"client of region {region}")
        ]
        writer = QueryWriter(
            self._config,
            self._lexicon,
            dialects=self._dialects,
            shopper=describe_shopper(
                self._config,
                self._lexicon,
                place=seat,
                regions=len(self._regions),
                alpha=self._partition.alpha,
                home_probability=self._partition.home_probability,
                seed=self._seed,
            ),
        )

        def rows(split: Split, count: int) -> list[Row]:
            streams = {
                task.name: stream(self._seed, "rows", *seat, task.name, split)
                for task in self._tasks
            }
            return [
                self._draw(writer, task=name, split=split, rng=rng)
                for _ in range(count)
                for name, rng in streams.items()
            ]

        return ClientData(
            region=region,
            client=client,
            train=rows("train", self._config.train_queries),
            validation=rows("validation", self._config.validation_queries),
            test=rows("test", self._config.test_queries),
        )

    def vocabulary(self) -> Iterable[str]:
        """Every word of the generator: queries, misspelt forms, labels, tags and prefixes."""
        seen: dict[str, None] = dict.fromkeys(self._lexicon.all_words())
        for task in self._tasks:
            seen.update(dict.fromkeys(task.labels))
            seen.update(dict.fromkeys(task.prefix.split()))
        return tuple(seen)

    def conflict_truth(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """Share of ambiguous words on which two regions' dialects differ: (regions, regions).

        It describes the regions as they are named when the assignment is 'semantic'.
        """
        return self._dialects.conflict()

    def _draw(
        self, writer: QueryWriter, *, task: str, split: Split, rng: np.random.Generator
    ) -> Row:
        for _ in range(_TRIES):
            row = writer.row(task, rng)
            fits = split_by_hash(
                f"{task}: {row.text}", validation_share=0.15, test_share=0.25, seed=self._seed
            )
            if fits == split:
                return row
        raise DataError(
            f"[data.builtin] knows too few different queries for a {split} split of task "
            f"'{task}': raise products_per_category, brands, categories or max_tokens"
        )
