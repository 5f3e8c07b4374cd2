"""Datasets loaded through the `datasets` library: ESCI, Amazon Reviews 2023, FEMNIST.

A local folder may stand in for the hub name: one written by `Dataset.save_to_disk`, or one with
the files of the hub repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from regionfed.data.config import DataConfig
from regionfed.data.partition import Split, split_by_hash
from regionfed.data.placement import SPLITS, PlacedData, Unit, place_units, public_words
from regionfed.data.real.handwriting import Writer, place_writers
from regionfed.data.real.read import require_columns
from regionfed.data.real.reviews import Review, place_reviews
from regionfed.data.real.spelling import normal
from regionfed.data.types import Row
from regionfed.errors import DataError
from regionfed.tasks.registry import (
    CHARACTERS,
    characters_task,
    relevance_task,
    select_tasks,
    sentiment_task,
)

HUB_NAMES: Mapping[str, str] = {
    "esci": "tasksource/esci",
    "amazon_reviews": "McAuley-Lab/Amazon-Reviews-2023",
    "femnist": "flwrlabs/femnist",
}
"""The usual hub name of each loader."""

_MAX_WORDS = 64


def open_hub(config: DataConfig, *, seed: int) -> PlacedData:
    """The federation of the configured hub dataset.

    Raises `DataError` when the `datasets` library is missing, the dataset cannot be loaded, or it
    lacks a column.
    """
    if config.hub.dataset == "esci":
        return _open_esci(config, seed=seed)
    if config.hub.dataset == "amazon_reviews":
        return _open_reviews(config, seed=seed)
    return _open_femnist(config, seed=seed)


def _open_esci(config: DataConfig, *, seed: int) -> PlacedData:
    """Task 'relevance': how well a product fits a query. A region is a locale."""
    tasks = select_tasks((relevance_task(),), chosen=config.tasks, custom={}, source="hub")
    columns = ("query", "product_title", "product_locale", "esci_label")
    units: dict[Split, list[Unit]] = {split: [] for split in SPLITS}
    for locale in config.hub.locales:
        wanted = (
            row
            for row in _rows(config, columns=columns)
            if row["product_locale"] == locale and row["query"] and row["product_title"]
        )
        for item in islice(wanted, config.hub.max_rows):
            query = normal(item["query"])
            words = f"{query} : {normal(item['product_title'])}".split()[:_MAX_WORDS]
            row = Row(tasks[0].name, " ".join(words), normal(item["esci_label"]))
            split = split_by_hash(query, validation_share=0.1, test_share=0.2)
            units[split].append(Unit(locale, row.target, (row,)))
    regions = config.region_names(default=len(config.hub.locales))
    shares = place_units(
        units, config=config, regions=regions, clients=config.client_names(default=10), seed=seed
    )
    texts = (row.text for unit in units["train"] for row in unit.rows)
    return PlacedData(tasks, regions, shares, public_words(tasks, texts))


def _open_reviews(config: DataConfig, *, seed: int) -> PlacedData:
    """Task 'sentiment'. A region is a product category."""
    tasks = select_tasks((sentiment_task(),), chosen=config.tasks, custom={}, source="hub")
    reviews: list[Review] = []
    for category in config.hub.categories:
        # The repository holds one JSONL per category; the library runs no repository script.
        file = f"raw/review_categories/{category}.jsonl"
        rows = _rows(config, columns=("rating", "title", "text"), file=file)
        for row in islice(rows, config.hub.max_rows):
            text = f"{row['title'] or ''} {row['text'] or ''}"
            reviews.append((category, str(int(float(row["rating"]))), text))
    return place_reviews(
        reviews, config=config, tasks=tasks, max_words=_MAX_WORDS, max_rows=None, seed=seed
    )


def _open_femnist(config: DataConfig, *, seed: int) -> PlacedData:
    """Task 'characters'. A client is a writer; the writers with most characters are taken."""
    tasks = select_tasks((characters_task(),), chosen=config.tasks, custom={}, source="hub")
    found: dict[str, Writer] = {}
    rows = _rows(config, columns=("image", "writer_id", "character"))
    for item in islice(rows, config.hub.max_rows):
        # FEMNIST is black on white; the models see ink as high values.
        image = 255 - np.asarray(item["image"], dtype=np.uint8)
        row = Row(tasks[0].name, "", CHARACTERS[int(item["character"])], image)
        found.setdefault(str(item["writer_id"]), []).append(row)
    ranked = sorted(found, key=lambda name: (-len(found[name]), name))
    regions = config.region_names(default=10)
    clients = config.client_names(default=max(1, min(10, len(found) // len(regions))))
    needed = len(regions) * len(clients) + config.handwriting.unseen_writers
    return place_writers(
        [found[name] for name in ranked[:needed]],
        config=config,
        tasks=tasks,
        regions=regions,
        clients=clients,
        seed=seed,
    )


def _rows(
    config: DataConfig, *, columns: tuple[str, ...], file: str | None = None
) -> Iterator[Mapping[str, Any]]:
    """The rows of the training split, or of one JSONL `file` of the dataset, streamed."""
    try:
        import datasets
    except ImportError:
        raise DataError(
            "data.source = 'hub' needs the library `datasets`: pip install 'regionfed[data]'"
        ) from None
    name = config.hub.name or HUB_NAMES[config.hub.dataset]
    local = Path(name)
    try:
        if file is not None:
            if not local.is_dir():
                at = f"@{config.hub.revision}" if config.hub.revision else ""
                name = f"hf://datasets/{name}{at}"
            loaded = datasets.load_dataset(
                "json", data_files=f"{name}/{file}", split="train", streaming=True
            )
        elif (local / "state.json").is_file():
            loaded = datasets.load_from_disk(str(local))
        else:
            loaded = datasets.load_dataset(
                name, split="train", streaming=True, revision=config.hub.revision
            )
        iterator = iter(loaded)
        first = next(iterator, None)
    except Exception as error:  # the library raises errors of many libraries below it
        raise DataError(
            f"the dataset '{name}' cannot be loaded ({type(error).__name__}: {error}); check the "
            "network, the name, or give a local folder as data.hub.name"
        ) from error
    if first is None:
        raise DataError(f"the dataset '{name}' has no rows in its training split")
    require_columns(columns, present=tuple(first), path=name)
    yield first
    yield from iterator
