"""FedProx, SCAFFOLD, Ditto and FedBABU: the three tiers give what the benchmark's core gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regionfed.bench.federation import Federation
from regionfed.bench.scoring import score
from regionfed.bench.systems.base import System
from regionfed.bench.systems.ditto import Ditto, DittoOptions
from regionfed.bench.systems.fedbabu import FedBabu, FedBabuOptions
from regionfed.bench.systems.fedprox import FedProx, FedProxOptions
from regionfed.bench.systems.scaffold import Scaffold
from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.flower.local import Fault
from regionfed.models.head import head_mask
from regionfed.run.checkpoint import Checkpoint, CheckpointStore
from regionfed.run.folder import RunFolder
from regionfed.run.result import Result
from regionfed.run.scores import Level
from regionfed_client.user_state import UserStore

ROUNDS = 3
SECTIONS: dict[str, dict[str, Any]] = {
    "run": {"seed": 3, "rounds": ROUNDS, "evaluate_every": 0},
    "coordinator": {"cohort": 2, "client_weights": "examples"},
    "server": {"region_weights": "examples"},
}


def simulated(
    config: FederationConfig, path: Path, **faults: dict[str, Fault]
) -> tuple[Checkpoint, Result, RunFolder]:
    folder = RunFolder.create(config, out=path)
    result = simulate(config, folder, faults=faults)
    assert result.status == "ok"
    checkpoint = folder.checkpoints(2).load_latest()
    assert checkpoint is not None
    return checkpoint, result, folder


def federated(make: Any, strategy: str, **options: Any) -> Federation:
    method = {"strategy": strategy, **({strategy: options} if options else {})}
    federation: Federation = make(**SECTIONS, method=method)
    return federation


def run(system: System) -> Any:
    for number in range(1, ROUNDS + 1):
        system.round(number)
    return system


def remembered(folder: RunFolder, what: str) -> dict[tuple[str, str], CheckpointStore]:
    """The stores of the devices that hold a vector of that name."""
    return {
        (path.parent.parent.name, path.parent.name): CheckpointStore(path)
        for path in sorted((folder.path / "clients").glob(f"*/*/{what}"))
    }


def newest(store: CheckpointStore) -> np.ndarray:
    found = store.load_latest()
    assert found is not None
    return found.arrays["vector"]


def same_scores(federation: Federation, system: System, result: Result, level: Level) -> None:
    found = score(federation, system.served(ROUNDS, final=True))
    scores = result.levels[level]
    assert found.overall == pytest.approx(scores.overall, abs=1e-6)
    for region, own in found.regions.items():
        assert own.overall == pytest.approx(scores.regions[region].overall, abs=1e-6)


@pytest.fixture
def fedavg(make_federation: Any, tmp_path: Path) -> np.ndarray:
    config = federated(make_federation, "none").config
    return simulated(config, tmp_path / "fedavg")[0].arrays["theta"]


def test_fedprox_is_the_cores(make_federation: Any, tmp_path: Path, fedavg: np.ndarray) -> None:
    federation = federated(make_federation, "fedprox", mu=0.5)
    checkpoint, result, _ = simulated(federation.config, tmp_path / "run")
    system = run(FedProx(federation, FedProxOptions(mu=0.5)))
    np.testing.assert_allclose(checkpoint.arrays["theta"], system.theta, atol=2e-6)
    assert np.abs(checkpoint.arrays["theta"] - fedavg).max() > 1e-3
    same_scores(federation, system, result, "global")
    assert set(result.levels) == {"global"}


def test_fedprox_without_a_pull_is_fedavg_bit_for_bit(
    make_federation: Any, tmp_path: Path, fedavg: np.ndarray
) -> None:
    config = federated(make_federation, "fedprox", mu=0.0).config
    checkpoint, _, _ = simulated(config, tmp_path / "run")
    assert checkpoint.arrays["theta"].tobytes() == fedavg.tobytes()


@pytest.mark.parametrize("tune", ["all", "head"])
def test_fedbabu_is_the_cores_and_never_moves_the_head(
    make_federation: Any, tmp_path: Path, tune: str
) -> None:
    options = {"tune": tune, "steps": 4, "learning_rate": 0.05}
    federation = federated(make_federation, "fedbabu", **options)
    population = federation.population
    checkpoint, result, folder = simulated(federation.config, tmp_path / "run")
    system = run(FedBabu(federation, FedBabuOptions.model_validate(options)))
    theta = checkpoint.arrays["theta"]
    np.testing.assert_allclose(theta, system.theta, atol=2e-6)
    head = head_mask(population.model, population.flat.layout)
    moved = theta != population.initial
    assert not moved[head].any()
    assert moved[~head].any()
    same_scores(federation, system, result, "user")
    for member in population.everyone():
        part = UserStore(folder.path / "clients" / member.region / member.client).load()
        own = system.served(ROUNDS, final=True).personal(member)
        np.testing.assert_allclose(part.model(), own, atol=2e-6)
        assert (part.model() != theta)[head].any()
        assert (part.model() != theta)[~head].any() == (tune == "all")


@pytest.mark.parametrize("strategy", ["fedbabu", "ditto"])
def test_in_a_private_run_devices_have_their_models_and_noise_moves_no_head(
    make_federation: Any, tmp_path: Path, strategy: str
) -> None:
    federation = make_federation(
        run=SECTIONS["run"],
        method={"strategy": strategy},
        privacy={"mode": "client", "noise_multiplier": 0.5, "budget": {"epsilon": 60.0}},
    )
    population = federation.population
    checkpoint, result, folder = simulated(federation.config, tmp_path / "run")
    assert result.levels == {}
    theta, head = checkpoint.arrays["theta"], head_mask(population.model, population.flat.layout)
    moved = theta != population.initial
    assert moved[~head].all()
    assert moved[head].any() == (strategy == "ditto")
    for member in population.everyone():
        part = UserStore(folder.path / "clients" / member.region / member.client).load()
        np.testing.assert_array_equal(part.regional, theta)
        assert (part.model() != theta)[head].any()


def test_ditto_is_the_cores_and_its_theta_is_fedavgs(
    make_federation: Any, tmp_path: Path, fedavg: np.ndarray
) -> None:
    federation = federated(make_federation, "ditto", strength=0.4)
    checkpoint, result, folder = simulated(federation.config, tmp_path / "run")
    assert checkpoint.arrays["theta"].tobytes() == fedavg.tobytes()
    system = run(Ditto(federation, DittoOptions(strength=0.4)))
    stores = remembered(folder, "personal")
    assert set(stores) == set(system.own)
    for key, store in stores.items():
        np.testing.assert_allclose(newest(store), system.own[key], atol=2e-6)
        assert np.abs(newest(store) - fedavg).max() > 1e-3
    same_scores(federation, system, result, "user")
    for member in federation.population.everyone():
        part = UserStore(folder.path / "clients" / member.region / member.client).load()
        own = system.own.get((member.region, member.client), fedavg)
        np.testing.assert_allclose(part.model(), own, atol=2e-6)


def test_scaffold_is_the_cores(make_federation: Any, tmp_path: Path) -> None:
    federation = federated(make_federation, "scaffold")
    checkpoint, result, folder = simulated(federation.config, tmp_path / "run")
    system = run(Scaffold(federation))
    np.testing.assert_allclose(checkpoint.arrays["theta"], system.theta, atol=2e-6)
    np.testing.assert_allclose(checkpoint.arrays["control"], system.common, atol=2e-6)
    stores = remembered(folder, "control")
    assert set(stores) == set(system.own)
    for key, store in stores.items():
        np.testing.assert_allclose(newest(store), system.own[key], atol=2e-6)
    same_scores(federation, system, result, "global")


def counted(folder: RunFolder, checkpoint: Checkpoint, answered: dict[int, set[str]]) -> np.ndarray:
    """The sum of all c_i, each as of the last round in which its client's answer was taken in."""
    total = np.zeros(checkpoint.arrays["theta"].size)
    for (region, client), store in remembered(folder, "control").items():
        rounds = [n for n in store.rounds() if f"{region}/{client}" in answered[n]]
        if rounds:
            total += store.load(rounds[-1]).arrays["vector"]
    return total


def test_scaffolds_c_counts_what_arrived_and_nothing_else(
    make_federation: Any, tmp_path: Path
) -> None:
    """A client's answers that come too late move its c_i on the device, and not c."""
    sections = {**SECTIONS, "coordinator": {"cohort": 0, "round_deadline": 1.0}}
    config = make_federation(**sections, method={"strategy": "scaffold"}).config
    checkpoint, _, folder = simulated(config, tmp_path / "run", r00={"c01": Fault(delay=1.5)})
    names = {f"{region}/{client}" for region in ("r00", "r01") for client in ("c00", "c01", "c02")}
    assert (folder.path / "clients/r00/c01/control").is_dir()
    total = counted(folder, checkpoint, dict.fromkeys((1, 2, 3), names - {"r00/c01"}))
    assert np.linalg.norm(checkpoint.arrays["control"]) > 0
    np.testing.assert_allclose(total / len(names), checkpoint.arrays["control"], atol=2e-6)
