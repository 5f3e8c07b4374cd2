"""The user's own files as a federation: one file for all, or one file per client."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from regionfed.data.config import DataConfig
from regionfed.data.own.rows import Record, read_records
from regionfed.data.partition import Split, by_column, unit_hash
from regionfed.data.placement import SPLITS, PlacedData, Shares, Unit, place_units, public_words
from regionfed.data.places import index_of, shown
from regionfed.data.types import ClientData, FederationData
from regionfed.errors import DataError
from regionfed.tasks.registry import STANDARD, select_tasks
from regionfed.tasks.spec import TaskSpec


def open_files(config: DataConfig, *, seed: int) -> FederationData:
    """The federation in the files of [data.files].

    A path with {client} is one file per client, of which `load` reads only the one asked for, so
    that a device needs no other; otherwise one file holds all rows.
    """
    chosen = config.tasks or [config.files.task or ""]
    tasks = select_tasks(
        tuple(STANDARD.values()), chosen=chosen, custom=config.custom, source="files"
    )
    path = config.files.path or ""
    if "{client}" in path:
        return FilePerClient(config, tasks=tasks)
    if "{region}" in path:
        raise DataError(
            f"[data.files] path = '{path}' has {{region}} without {{client}}; use both, or one "
            "file with a region column"
        )
    return _one_file(Path(path), config, tasks=tasks, seed=seed)


class FilePerClient:
    """One file per client, found by a pattern with {client} and, with several regions, {region}."""

    def __init__(self, config: DataConfig, *, tasks: tuple[TaskSpec, ...]) -> None:
        self._config = config
        self._tasks = tasks
        self._pattern = config.files.path or ""

    @property
    def tasks(self) -> tuple[TaskSpec, ...]:
        """The tasks that appear in the rows."""
        return self._tasks

    @property
    def regions(self) -> tuple[str, ...]:
        """Regions as configured, else those whose files are there."""
        if self._config.regions is not None or "{region}" not in self._pattern:
            names = self._config.region_names(default=1)
            if len(names) > 1 and "{region}" not in self._pattern:
                raise DataError(
                    f"{len(names)} regions, but [data.files] path = '{self._pattern}' has no "
                    "{region}; put it into the path"
                )
            return names
        return tuple(sorted({region for region, _ in self._found}))

    def clients(self, region: str) -> tuple[str, ...]:
        """Clients as configured (c00, c01, ...), else those whose files are there."""
        index_of(region, self.regions, what="region")
        if self._config.clients_per_region is not None:
            return self._config.client_names(default=1)
        names = sorted(client for place, client in self._found if place in ("", region))
        if not names:
            raise DataError(
                f"no file of region {region} matches [data.files] path = '{self._pattern}' "
                f"(working folder: {Path.cwd()}); correct the path or data.regions"
            )
        return tuple(names)

    def load(self, region: str, client: str) -> ClientData:
        """Reads the client's own file and no other."""
        index_of(region, self.regions, what="region")
        path = Path(self._pattern.replace("{region}", region).replace("{client}", client))
        if not path.is_file():
            index_of(client, self.clients(region), what=f"client of region {region}")
        records = read_records(
            path, self._config.files, tasks=self._tasks, known=_known(self._config)
        )
        return _client_data(region, client, records)

    def vocabulary(self) -> Iterable[str]:
        """Words of the public text file, labels and prefixes; never words of clients' rows."""
        return _vocabulary(self._config, self._tasks)

    @cached_property
    def _found(self) -> tuple[tuple[str, str], ...]:
        """(region, client) of every file that fits the pattern; region '' where it has none."""
        parts = re.split(r"(\{region\}|\{client\})", self._pattern)
        groups: set[str] = set()
        expression = ""
        for part in parts:
            name = part.strip("{}") if part in ("{region}", "{client}") else ""
            if not name:
                expression += re.escape(part)
            elif name in groups:
                expression += f"(?P={name})"
            else:
                groups.add(name)
                expression += f"(?P<{name}>[^/]+?)"
        glob = re.sub(r"\{region\}|\{client\}", "*", self._pattern)
        absolute = Path(glob).is_absolute()
        base = Path(Path(glob).anchor) if absolute else Path()
        relative = str(Path(glob).relative_to(base)) if absolute else glob
        matches = (
            re.fullmatch(expression, str(path))
            for path in sorted(base.glob(relative))
            if path.is_file()
        )
        return tuple(
            (match.groupdict().get("region", ""), match["client"]) for match in matches if match
        )


def _one_file(
    path: Path, config: DataConfig, *, tasks: tuple[TaskSpec, ...], seed: int
) -> PlacedData:
    files = config.files
    records = read_records(path, files, tasks=tasks, known=_known(config))
    if not records:
        raise DataError(f"{path} has no row of the tasks {[task.name for task in tasks]}")
    if files.region_column is None:
        regions = config.region_names(default=1)
        shares = _place(records, config, regions=regions, by_region=False, seed=seed)
    else:
        present = tuple(by_column([record.region for record in records]))
        regions = present if config.regions is None else config.region_names(default=1)
        missing = [name for name in regions if name not in present]
        if missing:
            raise DataError(
                f"{path}: column '{files.region_column}' has no row of {missing}; regions present: "
                f"{shown(present)}. Correct data.regions, or leave it out to take those present"
            )
        records = [record for record in records if record.region in regions]
        if files.client_column is None:
            shares = _place(records, config, regions=regions, by_region=True, seed=seed)
        else:
            shares = _by_columns(records, regions)
    return PlacedData(tasks, regions, shares, _vocabulary(config, tasks))


def _by_columns(records: Sequence[Record], regions: tuple[str, ...]) -> Shares:
    held: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        held.setdefault((record.region, record.client), []).append(record)
    order = sorted(held, key=lambda place: (regions.index(place[0]), place[1]))
    return {place: _client_data(*place, held[place]) for place in order}


def _place(
    records: Sequence[Record],
    config: DataConfig,
    *,
    regions: tuple[str, ...],
    by_region: bool,
    seed: int,
) -> Shares:
    """Clients by Dirichlet; regions by their column, by category, or evenly by the row's text."""
    units: dict[Split, list[Unit]] = {split: [] for split in SPLITS}
    by_category = bool(config.files.category_column)
    for record in records:
        if by_region:
            category = record.region
        elif by_category:
            category = record.category
        else:
            category = regions[int(unit_hash(record.row.text, seed=seed) * len(regions))]
        labels = (
            f"{record.row.task}: {record.row.target}" if _few(record, config) else record.row.task
        )
        units[record.split].append(Unit(category, labels, (record.row,)))
    owners = {name: index for index, name in enumerate(regions)}
    return place_units(
        units,
        config=config,
        regions=regions,
        clients=config.client_names(default=10),
        seed=seed,
        owners=None if by_category and not by_region else owners,
    )


def _few(record: Record, config: DataConfig) -> bool:
    """Whether the answer is one of few labels, by which clients can differ."""
    task = config.custom.get(record.row.task) or STANDARD[record.row.task]
    return record.row.target in task.labels


def _client_data(region: str, client: str, records: Sequence[Record]) -> ClientData:
    data = ClientData(region, client)
    lists = {"train": data.train, "validation": data.validation, "test": data.test}
    for record in records:
        lists[record.split].append(record.row)
    return data


def _known(config: DataConfig) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*STANDARD, *config.custom]))


def _vocabulary(config: DataConfig, tasks: tuple[TaskSpec, ...]) -> tuple[str, ...]:
    if config.files.vocabulary is None:
        return public_words(tasks, ())
    path = Path(config.files.vocabulary)
    if not path.is_file():
        raise DataError(f"{path} does not exist; correct `vocabulary` in [data.files]")
    return public_words(tasks, path.read_text(encoding="utf-8").splitlines())
