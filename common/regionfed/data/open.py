"""One entry for all sources: from the `[data]` section to a federation's rows."""

from __future__ import annotations

from functools import lru_cache

from regionfed.data.builtin.source import BuiltinData
from regionfed.data.config import DataConfig
from regionfed.data.hub import open_hub
from regionfed.data.own.source import open_files
from regionfed.data.real.handwriting import open_handwriting
from regionfed.data.real.queries import open_queries
from regionfed.data.real.reviews import open_reviews
from regionfed.data.types import FederationData

_NEEDS_ROOT = ("queries", "reviews", "handwriting")


def open_data(config: DataConfig, seed: int) -> FederationData:
    """The rows that the section describes, placed under this seed.

    Parsed once per process for equal sections and seeds; files that change meanwhile are not read
    again. Raises `DataError` (a file, a column, a name) or `ConfigError` (a task) with the fix.
    """
    if config.source in _NEEDS_ROOT:
        config = config.model_copy(update={"root": config.data_root()})
    return _open(config.model_dump_json(), seed)


@lru_cache(maxsize=4)
def _open(section: str, seed: int) -> FederationData:
    config = DataConfig.model_validate_json(section)
    match config.source:
        case "builtin":
            return BuiltinData(config, seed=seed)
        case "queries":
            return open_queries(config, seed=seed)
        case "reviews":
            return open_reviews(config, seed=seed)
        case "handwriting":
            return open_handwriting(config, seed=seed)
        case "hub":
            return open_hub(config, seed=seed)
        case "files":
            return open_files(config, seed=seed)
