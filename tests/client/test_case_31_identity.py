"""Case 31: a client without an identity or a partition fails loudly; it never trains on all rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from regionfed.config.federation import FederationConfig
from regionfed.config.load import load_config
from regionfed.errors import ConfigError, DataError
from regionfed_client.runtime import client_runtime, release_runtimes

ROWS = {"c0": 3, "c1": 5}


@pytest.fixture
def config(tmp_path: Path) -> Iterator[FederationConfig]:
    with (tmp_path / "rows.jsonl").open("w") as file:
        for client, count in ROWS.items():
            for split in ("train", "validation", "test"):
                for number in range(count):
                    place = {"region": "north", "client": client, "split": split}
                    text = {"text": f"{client} {split} {number}", "target": f"word {number}"}
                    file.write(json.dumps({**text, **place}) + "\n")
        # A client that has rows, but none to train on.
        for split in ("validation", "test"):
            row = {"text": "x", "target": "y", "region": "north", "client": "c2", "split": split}
            file.write(json.dumps(row) + "\n")
    (tmp_path / "federation.toml").write_text(
        "[data]\nsource = 'files'\n"
        "[data.custom.titles]\nkind = 'text'\n"
        f"[data.files]\npath = '{tmp_path}/rows.jsonl'\ntask = 'titles'\n"
        "region_column = 'region'\nclient_column = 'client'\nsplit_column = 'split'\n"
        "[model]\npreset = 'tiny'\n"
    )
    yield load_config(tmp_path / "federation.toml", environ={})
    release_runtimes()


@pytest.mark.parametrize(
    "node", [{}, {"region": "north"}, {"client": "c0"}, {"region": "", "client": "c0"}]
)
def test_case_31_a_node_that_does_not_say_who_it_is_is_refused(
    config: FederationConfig, node: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match="--node-config"), client_runtime(config, node):
        pass


@pytest.mark.parametrize(("region", "client"), [("north", "c7"), ("west", "c0"), ("north", "c2")])
def test_case_31_a_partition_that_cannot_be_resolved_is_named(
    config: FederationConfig, region: str, client: str
) -> None:
    node: dict[str, object] = {"region": region, "client": client}
    with client_runtime(config, node) as runtime, pytest.raises(DataError) as refused:
        runtime.rows()
    assert (client if region == "north" else region) in str(refused.value)


@pytest.mark.parametrize("client", list(ROWS))
def test_case_31_a_client_has_its_own_rows_and_no_others(
    config: FederationConfig, client: str
) -> None:
    with client_runtime(config, {"region": "north", "client": client}) as runtime:
        rows = runtime.rows()
    for split in ("train", "validation", "test"):
        texts = {row.text for row in getattr(rows, split)}
        assert texts == {f"{client} {split} {number}" for number in range(ROWS[client])}
