"""A private run that is useful: a small head on a frozen encoder, many clients, epsilon 2.

    python benchmarks/private_head.py [--clients 2000] [--rounds 10] [--json]

Eight regions of simulated clients on the built-in shop queries. The encoder is a frozen random
projection of the words of a query; the head that is trained has 3,080 parameters. Clients are
trained in one batch per region instead of one message each; cohorts, clipping, encoding, integer
sum, noise and ledger are those of the tiers. The same run without clipping and noise is the
yardstick: how much of its gain over the untrained head is kept.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regionfed.config.federation import FederationConfig
from regionfed.data.open import open_data
from regionfed.data.types import Row
from regionfed.privacy.cohorts import rotation
from regionfed.privacy.ledger import InMemoryLedger
from regionfed.privacy.modes import Mode
from regionfed.privacy.planning import noise_to_signal
from regionfed.privacy.quantities import Channel, Quantity
from regionfed.privacy.release_pipeline import release_pipeline
from regionfed.privacy.terms import RegionTerms

Vector = NDArray[np.float32]

FEATURES, LABELS, ROWS, TEST_ROWS, STEPS, RATE, SEED = 384, 8, 16, 4, 3, 1.0, 5


@dataclass(frozen=True)
class Outcome:
    """Accuracies over all clients' test rows, and what the private run cost."""

    clients_per_region: int
    cohort: int
    parameters: int
    rounds: int
    noise_multiplier: float
    ratio: float
    untrained: float
    non_private: float
    private: float
    kept: float
    epsilon: float
    seconds: float


class Encoder:
    """Words to frozen features: a random projection of the bag of words, and a ReLU."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._words: dict[str, Vector] = {}

    def features(self, rows: list[Row]) -> Vector:
        """Features of rows, (rows, FEATURES)."""
        out = np.zeros((len(rows), FEATURES), dtype=np.float32)
        for place, row in enumerate(rows):
            for word in row.text.split():
                out[place] += self._word(word)
        np.maximum(out, 0.0, out=out)
        norms = np.linalg.norm(out, axis=1, keepdims=True)
        return np.asarray(out / np.maximum(norms, 1e-6), dtype=np.float32)

    def _word(self, word: str) -> Vector:
        if word not in self._words:
            self._words[word] = self._rng.standard_normal(FEATURES).astype(np.float32)
        return self._words[word]


@dataclass(frozen=True)
class Region:
    """All clients of one region: features in half precision, labels as numbers."""

    names: tuple[str, ...]
    train_x: torch.Tensor
    train_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor

    def updates(self, theta: Vector, cohort: list[str]) -> Vector:
        """Start minus end of every client's local training, (clients, d)."""
        index = {name: place for place, name in enumerate(self.names)}
        places = torch.tensor([index[name] for name in cohort])
        x, y = self.train_x[places].float(), self.train_y[places]
        target = torch.nn.functional.one_hot(y, LABELS).float()
        start = torch.from_numpy(theta).view(FEATURES + 1, LABELS)
        weights = start.expand(len(cohort), -1, -1).clone()
        for _ in range(STEPS):
            gap = torch.softmax(x @ weights[:, :-1] + weights[:, -1:], dim=2) - target
            weights[:, :-1] -= RATE / ROWS * (x.transpose(1, 2) @ gap)
            weights[:, -1] -= RATE / ROWS * gap.sum(dim=1)
        return np.ascontiguousarray((start - weights).reshape(len(cohort), -1).numpy())

    def right(self, theta: Vector) -> tuple[int, int]:
        """Right answers and rows of the test split."""
        weights = torch.from_numpy(theta).view(FEATURES + 1, LABELS)
        guess = (self.test_x.float() @ weights[:-1] + weights[-1]).argmax(dim=2)
        return int((guess == self.test_y).sum()), self.test_y.numel()


def load(config: FederationConfig) -> dict[str, Region]:
    """Every client's rows, encoded once."""
    data, encoder = open_data(config.data, config.run.seed), Encoder(SEED)
    labels = {name: place for place, name in enumerate(data.tasks[0].labels)}
    regions = {}
    for region in data.regions:
        parts: dict[str, list[NDArray[np.generic]]] = {k: [] for k in ("xs", "ys", "tx", "ty")}
        for client in data.clients(region):
            rows = data.load(region, client)
            for kind, split in (("s", rows.train[:ROWS]), ("t", rows.test[:TEST_ROWS])):
                x = encoder.features(split).astype(np.float16)
                y = np.array([labels[row.target] for row in split])
                parts["xs" if kind == "s" else "tx"].append(x)
                parts["ys" if kind == "s" else "ty"].append(y)
        stacked = {key: torch.from_numpy(np.stack(values)) for key, values in parts.items()}
        regions[region] = Region(
            data.clients(region), stacked["xs"], stacked["ys"], stacked["tx"], stacked["ty"]
        )
    return regions


def train(
    config: FederationConfig, regions: dict[str, Region], *, private: bool
) -> tuple[Vector, float]:
    """The global head after all rounds, and the largest epsilon of a region."""
    d = (FEATURES + 1) * LABELS
    theta = np.zeros(d, dtype=np.float32)
    terms = {
        n: RegionTerms(config=config, dimension=d, clients=len(r.names)) for n, r in regions.items()
    }
    ledgers = {name: InMemoryLedger(each.ledger(name)) for name, each in terms.items()}
    for number in range(1, config.run.rounds + 1):
        means = []
        for name, region in regions.items():
            own = terms[name]
            cohort = rotation(
                region.names, size=own.cohort, round=number, seed=config.run.seed, region=name
            )
            updates = region.updates(theta, cohort)
            if not private:
                means.append(updates.mean(axis=0))
                continue
            ledgers[name].charge(own.event(Quantity.UPDATE, round=number), participants=cohort)
            (block,) = own.blocks(Channel.TRAIN)
            release = release_pipeline(
                Mode.CLIENT,
                dimension=d,
                noise_multiplier=block.noise_multiplier,
                clip_norm=block.clip,
                expected_cohort=own.expected,
                scale=block.scale,
            )
            means.append(release(updates))
        theta = np.asarray(theta - config.server.learning_rate * np.mean(means, axis=0), np.float32)
    spent = max(each.total_cost().epsilon(config.privacy.budget.delta) for each in ledgers.values())
    return theta, spent


def accuracy(regions: dict[str, Region], theta: Vector) -> float:
    """Share of right answers over all regions."""
    found = [region.right(theta) for region in regions.values()]
    return sum(right for right, _ in found) / sum(rows for _, rows in found)


def configure(*, clients: int, rounds: int, seed: int = 1) -> FederationConfig:
    """Eight regions; half of the clients take part in each round, so nobody more than 5 of 10."""
    return FederationConfig.model_validate(
        {
            "run": {"rounds": rounds, "seed": seed},
            "data": {
                "regions": 8,
                "clients_per_region": clients,
                "tasks": ["intent"],
                "builtin": {
                    "train_queries": ROWS,
                    "validation_queries": 0,
                    "test_queries": TEST_ROWS,
                },
            },
            "method": {"strategy": "none"},
            "server": {"learning_rate": 4.0},
            "coordinator": {"cohort": max(1, clients // 2)},
            "privacy": {"mode": "client", "clipping_norm": 1.0},
        }
    )


def measure(*, clients: int, rounds: int, seed: int = 1) -> Outcome:
    """Train with and without privacy and compare."""
    began = time.monotonic()
    config = configure(clients=clients, rounds=rounds, seed=seed)
    regions = load(config)
    d = (FEATURES + 1) * LABELS
    untrained = accuracy(regions, np.zeros(d, dtype=np.float32))
    plain = accuracy(regions, train(config, regions, private=False)[0])
    theta, epsilon = train(config, regions, private=True)
    private = accuracy(regions, theta)
    terms = RegionTerms(config=config, dimension=d, clients=clients)
    sigma = terms.multiplier(Quantity.UPDATE)
    return Outcome(
        clients_per_region=clients,
        cohort=terms.cohort,
        parameters=d,
        rounds=rounds,
        noise_multiplier=sigma,
        ratio=noise_to_signal(
            noise_multiplier=sigma, dimension=d, clients_per_round=terms.cohort, rounds=rounds
        ),
        untrained=untrained,
        non_private=plain,
        private=private,
        kept=(private - untrained) / (plain - untrained),
        epsilon=epsilon,
        seconds=time.monotonic() - began,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=2000, help="clients per region")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    outcome = measure(clients=given.clients, rounds=given.rounds, seed=given.seed)
    if given.json:
        print(json.dumps(asdict(outcome)))
        return
    for name, value in asdict(outcome).items():
        print(f"{name:20} {value:.4g}" if isinstance(value, float) else f"{name:20} {value}")


if __name__ == "__main__":
    main()
