"""The `[data]` section: where rows come from and how they are placed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from regionfed.config.base import Section
from regionfed.data.sections import (
    BuiltinConfig,
    CustomTask,
    FilesConfig,
    HandwritingConfig,
    HubConfig,
    PartitionConfig,
    QueriesConfig,
    ReviewsConfig,
)
from regionfed.errors import DataError

ROOT_VARIABLE = "REGIONFED_DATA"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class DataConfig(Section):
    """`[data]`: the source of the rows, the tasks, the regions and their clients."""

    source: Literal["builtin", "queries", "reviews", "handwriting", "hub", "files"] = Field(
        default="builtin",
        description="Where rows come from: the built-in generator, real files under `root`, a hub "
        "dataset, or files of your own.",
    )
    root: Path | None = Field(
        default=None,
        description="Folder of the real files (queries, reviews, handwriting). Absent: the "
        f"environment variable {ROOT_VARIABLE}.",
    )
    tasks: list[str] = Field(
        default=[],
        description="Names of the tasks, in the order of the report. Empty: all of the source.",
    )
    regions: int | list[str] | None = Field(
        default=None,
        description="Number of regions (named r00, r01, ...) or their names. Absent: the source's "
        "own number, or those found in the region column.",
    )
    clients_per_region: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Clients of a region (named c00, c01, ...). Absent: the source's own number.",
    )
    custom: dict[str, CustomTask] = Field(
        default={}, description="Tasks of your own by name, or other labels for a standard task."
    )
    partition: PartitionConfig = PartitionConfig()
    builtin: BuiltinConfig = BuiltinConfig()
    queries: QueriesConfig = QueriesConfig()
    reviews: ReviewsConfig = ReviewsConfig()
    handwriting: HandwritingConfig = HandwritingConfig()
    hub: HubConfig = HubConfig()
    files: FilesConfig = FilesConfig()

    @field_validator("regions")
    @classmethod
    def _regions_are_usable(cls, value: int | list[str] | None) -> int | list[str] | None:
        if isinstance(value, int) and not 1 <= value <= 1000:
            raise ValueError(f"{value} regions; allowed are 1 to 1000")
        if isinstance(value, list):
            if not value:
                raise ValueError("an empty list of regions; name at least one")
            if len(set(value)) != len(value):
                raise ValueError("a region is named twice")
            for name in value:
                if not _NAME.fullmatch(name):
                    raise ValueError(
                        f"'{name}' is not a region's name; use letters, digits, '_', '-' and '.'"
                    )
        return value

    @field_validator("tasks")
    @classmethod
    def _tasks_once(cls, value: list[str]) -> list[str]:
        if len(set(value)) != len(value):
            raise ValueError("a task is named twice")
        return value

    @model_validator(mode="after")
    def _source_is_complete(self) -> Self:
        if self.source == "files":
            if self.files.path is None:
                raise ValueError("source 'files' needs `path` in [data.files]")
            if self.files.task is None and self.files.task_column is None:
                raise ValueError("source 'files' needs `task` or `task_column` in [data.files]")
            if self.files.task_column is not None and not self.tasks:
                raise ValueError(
                    "source 'files' with `task_column` needs `tasks` in [data]: their order is "
                    "shared by all tiers"
                )
        chosen = self.builtin.conflicting_regions
        if self.source == "builtin" and chosen is not None:
            names = self.region_names(default=8)
            unknown = sorted(set(chosen) - set(names))
            if unknown:
                raise ValueError(
                    f"builtin.conflicting_regions names {unknown}, which are no regions; "
                    f"regions are {list(names)}"
                )
        return self

    def region_names(self, *, default: int) -> tuple[str, ...]:
        """Names of the regions; `default` is their number when the section gives none."""
        chosen = default if self.regions is None else self.regions
        if isinstance(chosen, int):
            return tuple(f"r{index:02d}" for index in range(chosen))
        return tuple(chosen)

    def client_names(self, *, default: int) -> tuple[str, ...]:
        """Names of a region's clients; `default` is their number when the section gives none."""
        count = default if self.clients_per_region is None else self.clients_per_region
        return tuple(f"c{index:02d}" for index in range(count))

    def data_root(self) -> Path:
        """Folder of the real files.

        Raises `DataError` when neither `root` nor the environment names a folder that exists.
        """
        given = self.root or (
            Path(os.environ[ROOT_VARIABLE]) if os.environ.get(ROOT_VARIABLE) else None
        )
        if given is None:
            raise DataError(
                f"data.source = '{self.source}' reads real files, but no folder is given: set "
                f"`root` in [data] or the environment variable {ROOT_VARIABLE}"
            )
        if not given.is_dir():
            raise DataError(
                f"the data folder {given} does not exist; correct `root` in [data] or the "
                f"environment variable {ROOT_VARIABLE}"
            )
        return given
