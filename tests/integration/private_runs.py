"""Private runs on the convex federation: configuration and what to read from their folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from test_convex_federation import configure, write_rows

from regionfed.config.federation import FederationConfig
from regionfed.errors import StateError
from regionfed.privacy.ledger_sqlite import LEDGER_SUFFIX, SqliteLedger
from regionfed.run.folder import RunFolder
from regionfed.run.records import PrivacyRecord

SECURE = {"secure_aggregation": {"enabled": True}}


def prepare(
    tmp_path: Path, *, strategy: str = "none", name: str = "run", **changes: dict[str, Any]
) -> tuple[FederationConfig, RunFolder]:
    """The convex federation with sections changed, and a folder for it."""
    write_rows(tmp_path / "rows.jsonl")
    given = configure(tmp_path / "rows.jsonl", strategy).model_dump(mode="json")
    for section, values in changes.items():
        given[section].update(values)
    config = FederationConfig.model_validate(given)
    return config, RunFolder.create(config, out=tmp_path / name)


def ledgers(folder: RunFolder) -> dict[str, SqliteLedger]:
    """The run's ledgers by region; a file that a killed process had only just made has none yet."""
    found = {}
    for path in sorted(folder.path.rglob(f"*{LEDGER_SUFFIX}")):
        try:
            found[path.name.removesuffix(LEDGER_SUFFIX)] = SqliteLedger.existing(path)
        except StateError as error:
            if "is empty" not in str(error):
                raise
    return found


def charges(folder: RunFolder) -> list[PrivacyRecord]:
    """The charges that the metrics tell of."""
    return [record for record in folder.metrics().read() if isinstance(record, PrivacyRecord)]


def theta(folder: RunFolder) -> np.ndarray:
    """The newest global model."""
    checkpoint = folder.checkpoints(1).load_latest()
    assert checkpoint is not None
    return checkpoint.arrays["theta"]
