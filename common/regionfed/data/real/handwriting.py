"""Handwritten characters: one writer per client, a group of writers per region.

Char74K has 55 writers who each wrote every one of 62 characters once; it is shaped like FEMNIST
but is not FEMNIST, and is named so wherever it is reported.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regionfed.data.config import DataConfig
from regionfed.data.partition import assign_clients, stream
from regionfed.data.placement import PlacedData, public_words
from regionfed.data.types import ClientData, Row
from regionfed.errors import DataError
from regionfed.tasks.registry import CHARACTERS, characters_task, select_tasks
from regionfed.tasks.spec import TaskSpec

Writer = list[Row]
"""All rows of one writer."""


def open_handwriting(config: DataConfig, *, seed: int) -> PlacedData:
    """The federation of writers: 5 regions of up to 11 unless configured otherwise."""
    path = config.data_root() / "handwriting" / "char74k_hnd62_28x28.npz"
    images, labels, writers = _read(path)
    tasks = select_tasks((characters_task(),), chosen=config.tasks, custom={}, source="handwriting")
    rows = [
        Row(tasks[0].name, "", CHARACTERS[label], image)
        for image, label in zip(images, labels.tolist(), strict=True)
    ]
    by_writer = [
        [rows[index] for index in np.flatnonzero(writers == writer).tolist()]
        for writer in np.unique(writers)
    ]
    default = 5
    free = len(by_writer) - config.handwriting.unseen_writers
    regions = config.region_names(default=default)
    clients = config.client_names(default=max(1, free // len(regions)))
    return place_writers(
        by_writer, config=config, tasks=tasks, regions=regions, clients=clients, seed=seed
    )


def place_writers(
    writers: list[Writer],
    *,
    config: DataConfig,
    tasks: tuple[TaskSpec, ...],
    regions: tuple[str, ...],
    clients: tuple[str, ...],
    seed: int,
) -> PlacedData:
    """One writer per client; related writers (by how much ink they use) share a region.

    Raises `DataError` when there are fewer writers than clients and unseen writers together.
    """
    settings = config.handwriting
    seats = len(regions) * len(clients)
    if len(writers) < seats + settings.unseen_writers:
        raise DataError(
            f"source '{config.source}' has {len(writers)} writers, but {len(regions)} regions of "
            f"{len(clients)} clients and {settings.unseen_writers} unseen writers need "
            f"{seats + settings.unseen_writers}; lower data.regions, data.clients_per_region or "
            "data.handwriting.unseen_writers"
        )
    order = stream(seed, "writers").permutation(len(writers)).tolist()
    unseen = [row for index in order[: settings.unseen_writers] for row in writers[index]]
    taken = order[settings.unseen_writers : settings.unseen_writers + seats]
    ranked = sorted(taken, key=lambda index: (_ink(writers[index]), index))
    moved = assign_clients(
        len(regions), clients=len(clients), how=config.partition.assignment, seed=seed
    )
    shares: dict[tuple[str, str], ClientData] = {}
    for region, row in zip(regions, moved, strict=True):
        for client, (r, c) in zip(clients, row, strict=True):
            seat = r * len(clients) + c
            share = _split_writer(
                writers[ranked[seat]], config=config, seed=seed, writer=ranked[seat]
            )
            if settings.unseen_writers:
                share["test"] = unseen[seat::seats]
            shares[region, client] = ClientData(region, client, **share)
    return PlacedData(tasks, regions, shares, public_words(tasks, ()))


def _split_writer(
    rows: Writer, *, config: DataConfig, seed: int, writer: int
) -> dict[str, list[Row]]:
    settings = config.handwriting
    order = stream(seed, "writer", writer).permutation(len(rows)).tolist()
    test = 0 if settings.unseen_writers else round(settings.test_share * len(rows))
    validation = test + round(settings.validation_share * len(rows))
    return {
        "test": [rows[index] for index in order[:test]],
        "validation": [rows[index] for index in order[test:validation]],
        "train": [rows[index] for index in order[validation:]],
    }


def _ink(rows: Writer) -> float:
    return float(np.mean([row.image.mean() for row in rows if row.image is not None]))


def _read(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    if not path.is_file():
        raise DataError(
            f"{path} does not exist; complete the data folder, or name another one by `root` in "
            "[data] or by REGIONFED_DATA"
        )
    names = ("images", "labels", "writers")
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in names if name not in file.files]
            if missing:
                raise DataError(f"{path}: no array {missing}; arrays present: {file.files}")
            images, labels, writers = (file[name] for name in names)
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is no readable .npz file: {error}") from None
    return images, labels.astype(np.int64), writers.astype(np.int64)
