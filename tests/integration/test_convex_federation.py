"""The whole federation against straight-line code of its own, on a small convex problem.

Every tier's app runs; the expectation is plain numpy in float64, written from the specification
(algorithm sections 2 and 3) and sharing no code with the packages.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from convex_model import WIDTH

from regionfed.bridge.contents import decode
from regionfed.bridge.store import JobStore
from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.run.folder import RunFolder
from regionfed_coordinator.state import RegionState

REGIONS, CLIENTS, ROUNDS, STEPS, RATE = 3, 4, 5, 3, 0.2
ETA, ETA_RES, ALPHA_MIN, META_RATE = 0.9, 0.35, 0.5, 0.1


def write_rows(path: Path) -> dict[str, dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]]:
    """A data file, and the same rows as arrays by region, client and split."""
    rng = np.random.default_rng(3)
    shared = rng.standard_normal(WIDTH)
    table: dict[str, dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]] = {}
    with path.open("w") as file:
        for r in range(REGIONS):
            own = shared + (0.2 + 0.5 * r) * rng.standard_normal(WIDTH)
            for c in range(CLIENTS):
                for split, count in (("train", 12), ("validation", 8), ("test", 4)):
                    x = rng.standard_normal((count, WIDTH)).round(3)
                    y = (x @ own + 0.1 * rng.standard_normal(count)).round(3)
                    table.setdefault(f"r{r}", {}).setdefault(f"c{c}", {})[split] = (x, y)
                    for row, target in zip(x, y, strict=True):
                        text = " ".join(map(str, row))
                        fields = {"text": text, "target": str(target), "split": split}
                        file.write(
                            json.dumps({**fields, "region": f"r{r}", "client": f"c{c}"}) + "\n"
                        )
    return table


def configure(path: Path, strategy: str, *, meta_steps: int = 1) -> FederationConfig:
    return FederationConfig.model_validate(
        {
            "run": {"rounds": ROUNDS, "evaluate_every": 2},
            "data": {
                "source": "files",
                "custom": {"regression": {"kind": "text"}},
                "files": {
                    "path": str(path),
                    "task": "regression",
                    "region_column": "region",
                    "client_column": "client",
                    "split_column": "split",
                },
            },
            "model": {"kind": "factory", "factory": "convex_model:regression"},
            "training": {
                "optimizer": "sgd",
                "learning_rate": RATE,
                "steps": STEPS,
                "batch_size": 64,
            },
            "server": {"learning_rate": ETA},
            "method": {
                "strategy": strategy,
                "alpha": {"minimum": ALPHA_MIN, "scale": "scale-free"},
                "residual": {"learning_rate": ETA_RES},
                "meta": {"steps": meta_steps, "learning_rate": META_RATE},
            },
            "privacy": {"mode": "off"},
        }
    )


def gradient(w: np.ndarray, rows: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    x, y = rows
    return x.T @ (x @ w - y) / len(y)


def pseudo_gradient(w: np.ndarray, rows: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    start = w.copy()
    for _ in range(STEPS):
        w = w - RATE * gradient(w, rows)
    return start - w


def mean_of_k_gradients(w: np.ndarray, rows: tuple[np.ndarray, np.ndarray], k: int) -> np.ndarray:
    total = np.zeros_like(w)
    for _ in range(k):
        g = gradient(w, rows)
        total += g
        w = w - META_RATE * g
    return total / k


def validation_loss(w: np.ndarray, region: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]):
    errors = [x @ w - y for x, y in (region[c]["validation"] for c in region)]
    return 0.5 * np.mean(np.concatenate(errors) ** 2)


def straight_line(table, strategy: str, *, meta_steps: int = 1):
    """theta after all rounds and the part that each region serves."""
    theta = np.linspace(-1, 1, WIDTH)
    residual = {name: np.zeros(WIDTH) for name in table}
    mu = None
    for _ in range(ROUNDS):
        g = {
            name: np.mean(
                [
                    pseudo_gradient(theta + residual[name], rows["train"])
                    for rows in region.values()
                ],
                axis=0,
            )
            for name, region in table.items()
        }
        mean = np.mean(list(g.values()), axis=0)
        theta = theta - ETA * mean
        d = {name: float(np.linalg.norm(g[name] - mean)) for name in g}
        if mu is None:
            mu = float(np.median(list(d.values())))
        if strategy == "residual":
            for name in table:
                residual[name] = residual[name] - ETA_RES * (g[name] - mean)
    parts = {}
    for name, region in table.items():
        alpha = ALPHA_MIN + (1 - ALPHA_MIN) / (1 + math.exp(-(d[name] - mu) / mu))
        if strategy == "residual":
            direction, rhos = residual[name], [1.0]
        else:
            trains = [rows["train"] for rows in region.values()]
            direction = {
                "grad": lambda n=name: mean - g[n],
                "interp": lambda t=trains: -np.mean([pseudo_gradient(theta, r) for r in t], axis=0),
                "meta": lambda t=trains: (
                    -np.mean([mean_of_k_gradients(theta, r, meta_steps) for r in t], axis=0)
                ),
            }[strategy]()
            direction = alpha * direction
            rhos = [i / 40 for i in range(1, 41)]
        losses = [validation_loss(theta + rho * direction, region) for rho in rhos]
        best = int(np.argmin(losses))
        helps = losses[best] < validation_loss(theta, region)
        parts[name] = rhos[best] * direction if helps else None
    return theta, parts


@pytest.mark.parametrize(
    ("strategy", "meta_steps"),
    [("residual", 1), ("grad", 1), ("interp", 1), ("meta", 1), ("meta", 3)],
)
def test_five_rounds_equal_straight_line_code(
    tmp_path: Path, strategy: str, meta_steps: int
) -> None:
    table = write_rows(tmp_path / "rows.jsonl")
    config = configure(tmp_path / "rows.jsonl", strategy, meta_steps=meta_steps)
    folder = RunFolder.create(config, out=tmp_path / "run")
    result = simulate(config, folder)
    theta, parts = straight_line(table, strategy, meta_steps=meta_steps)

    checkpoint = folder.checkpoints(1).load_latest()
    assert checkpoint is not None
    assert checkpoint.round == ROUNDS
    np.testing.assert_allclose(checkpoint.arrays["theta"], theta, atol=1e-6)
    assert any(part is not None for part in parts.values())
    for name, part in parts.items():
        served = region_state(folder, name).part
        if part is None:
            assert served is None
        else:
            assert served is not None
            np.testing.assert_allclose(served, part, atol=2e-6)
        assert result.regions[name].served == (part is not None)


def region_state(folder: RunFolder, region: str) -> RegionState:
    store = JobStore(folder.region(region))
    try:
        pieces = store.region_state()
        assert pieces is not None
        return RegionState.from_record(decode(pieces))
    finally:
        store.close()
