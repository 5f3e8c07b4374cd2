"""Case 28: clients and regions weigh what the configuration says, whoever answers first.

Clients and regions have different numbers of rows. The expectation is plain numpy in float64,
written from the specification (algorithm section 2).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convex_model import WIDTH
from test_convex_federation import ETA, configure, pseudo_gradient

from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.flower.local import Fault
from regionfed.run.folder import RunFolder
from regionfed.run.summary import History

ROUNDS = 2
SIZES = {"r0": {"c0": 4, "c1": 20}, "r1": {"c0": 6, "c1": 9, "c2": 30}}
Table = dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]


def write_rows(path: Path) -> Table:
    """A data file, and its training rows as arrays by region and client."""
    rng = np.random.default_rng(11)
    table: Table = {}
    with path.open("w") as file:
        for region, clients in SIZES.items():
            for client, size in clients.items():
                own = rng.standard_normal(WIDTH)
                for split, count in (("train", size), ("validation", 4), ("test", 4)):
                    x = rng.standard_normal((count, WIDTH)).round(3)
                    y = (x @ own).round(3)
                    if split == "train":
                        table.setdefault(region, {})[client] = (x, y)
                    for row, target in zip(x, y, strict=True):
                        fields = {"text": " ".join(map(str, row)), "target": str(target)}
                        place = {"split": split, "region": region, "client": client}
                        file.write(json.dumps({**fields, **place}) + "\n")
    return table


def trained(
    path: Path, *, clients: str, regions: str, faults: dict[str, dict[str, Fault]] | None = None
) -> tuple[np.ndarray, History]:
    """theta after all rounds, and what was recorded."""
    given: dict[str, Any] = configure(path.parent / "rows.jsonl", "grad").model_dump(mode="json")
    given["run"] |= {"rounds": ROUNDS, "evaluate_every": 0}
    given["coordinator"]["client_weights"] = clients
    given["server"]["region_weights"] = regions
    config = FederationConfig.model_validate(given)
    folder = RunFolder.create(config, out=path)
    assert simulate(config, folder, faults=faults or {}).status == "ok"
    checkpoint = folder.checkpoints(1).load_latest()
    assert checkpoint is not None
    return checkpoint.arrays["theta"], History(folder.metrics().read())


def straight_line(table: Table, *, clients: str, regions: str) -> np.ndarray:
    theta = np.linspace(-1, 1, WIDTH)
    for _ in range(ROUNDS):
        means, sizes = [], []
        for members in table.values():
            weights = [len(y) if clients == "examples" else 1 for _, y in members.values()]
            updates = [pseudo_gradient(theta, rows) for rows in members.values()]
            means.append(np.average(updates, axis=0, weights=weights))
            sizes.append(sum(len(y) for _, y in members.values()))
        theta = theta - ETA * np.average(
            means, axis=0, weights=sizes if regions == "examples" else None
        )
    return theta


@pytest.mark.parametrize("regions", ["equal", "examples"])
@pytest.mark.parametrize("clients", ["equal", "examples"])
def test_case_28_weights_are_the_configured_ones(
    tmp_path: Path, clients: str, regions: str
) -> None:
    table = write_rows(tmp_path / "rows.jsonl")
    theta, history = trained(tmp_path / "run", clients=clients, regions=regions)
    expected = straight_line(table, clients=clients, regions=regions)
    np.testing.assert_allclose(theta, expected, atol=1e-6)
    total = sum(sum(members.values()) for members in SIZES.values())
    for record in history.rounds:
        for region, members in SIZES.items():
            share = sum(members.values()) / total if regions == "examples" else 1 / len(SIZES)
            assert record.regions[region].weight == pytest.approx(share)


def test_case_28_the_four_ways_to_weigh_differ(tmp_path: Path) -> None:
    table = write_rows(tmp_path / "rows.jsonl")
    ways = [
        straight_line(table, clients=clients, regions=regions)
        for clients in ("equal", "examples")
        for regions in ("equal", "examples")
    ]
    apart = [np.abs(a - b).max() for i, a in enumerate(ways) for b in ways[:i]]
    assert min(apart) > 1e-3


def test_case_28_who_answers_first_changes_no_bit(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl")
    ways = {"clients": "examples", "regions": "examples"}
    theta, _ = trained(tmp_path / "first", **ways)
    late = {"r1": {"c0": Fault(delay=0.4)}, "r0": {"c0": Fault(delay=0.2)}}
    other, history = trained(tmp_path / "other", **ways, faults=late)
    assert all(not record.left_out for record in history.rounds)
    assert other.tobytes() == theta.tobytes()
