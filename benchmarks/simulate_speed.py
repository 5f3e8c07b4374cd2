"""How fast clients are trained: `simulate` against a central loop and Flower's own simulation.

    python benchmarks/simulate_speed.py [--json] [--clients 80] [--rounds 2] [--steps 8] [--model small]

All do the same work in one run: the same model, rows, batch size and number of optimizer steps, one
core each for the central loop, the benchmark's core and `simulate`.

- central: one loop over the union of all rows, with no federation: the limit.
- core: the benchmark's core (`regionfed.bench.federation`), rounds of FedAvg.
- simulate: `regionfed simulate`, all three tiers; training phases only (evaluation is left out).
- simulate-all: the same with one client process per core, as the command line does by itself.
- flower: Flower's simulation engine (Ray), a ServerApp that averages and ClientApps that train with
  the same code and keep their model and rows per worker process. It needs `pip install
  'flwr[simulation]'` and is given as many workers as there are cores. Without Ray its place is
  taken by what its engine does at least: a fresh message, its bytes and the model's arrays by
  layer for every client and round; that figure is an upper bound for Flower's speed.

Samples per second are rows in optimizer steps over wall seconds; use an idle machine. Processor
seconds are shown beside them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from regionfed.bench.federation import Federation
from regionfed.bench.population import Member, open_population
from regionfed.bench.rows import joined
from regionfed.bench.systems.fedavg import FedAvg
from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.models.flat import FlatModel
from regionfed.run.folder import RunFolder
from regionfed.training.local import local_train

REGIONS = 8
SIDES = ("central", "core", "simulate", "simulate-all", "flower")


def configuration(arguments: argparse.Namespace) -> FederationConfig:
    """The federation that all sides train."""
    return FederationConfig.model_validate(
        {
            "run": {"seed": 1, "rounds": arguments.rounds, "evaluate_every": 0},
            "data": {
                "regions": REGIONS,
                "clients_per_region": max(1, arguments.clients // REGIONS),
                "builtin": {"train_queries": 50, "validation_queries": 2, "test_queries": 2},
            },
            "model": {"kind": "t5", "preset": arguments.model, "max_target_length": 8},
            "training": {"steps": arguments.steps, "batch_size": arguments.batch_size},
            "method": {"strategy": "none"},
            "privacy": {"mode": "off"},
        }
    )


def samples(config: FederationConfig, federation: Federation) -> int:
    """Rows in optimizer steps of the whole work."""
    per_client = (config.training.steps or 0) * config.training.batch_size
    return per_client * len(federation.population.everyone()) * config.run.rounds


def central(federation: Federation) -> None:
    """All steps in one loop over all rows."""
    config, population = federation.config, federation.population
    steps = (config.training.steps or 0) * len(population.everyone()) * config.run.rounds
    local_train(
        population.model,
        population.flat,
        joined([member.train for member in population.everyone()]),
        config.training.model_copy(update={"steps": steps}),
        seed=1,
        start=population.initial,
    )


def core(federation: Federation) -> None:
    """The benchmark's rounds of FedAvg."""
    system = FedAvg(federation)
    for number in range(1, federation.config.run.rounds + 1):
        system.round(number)


def simulated(config: FederationConfig, *, workers: int = 1) -> float:
    """Wall seconds of the training phases of `regionfed simulate`.

    One round more is run first and not counted, as in Flower's engine: it starts processes and
    loads what they keep.
    """
    rounds = config.run.model_copy(update={"rounds": config.run.rounds + 1})
    config = config.model_copy(update={"run": rounds})
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(config, out=Path(folder) / "run")
        simulate(config, run, workers=workers)
        told = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    phases = {line["round"]: line["phases"] for line in told if line["kind"] == "round"}
    assert len(phases) == config.run.rounds
    return sum(
        of_round.get(name, 0.0)
        for number, of_round in phases.items()
        if number > 1
        for name in ("train", "aggregate")
    )


_SEATS: dict[str, tuple[Federation, list[Member]]] = {}


def seat(config_json: str, place: int) -> tuple[Federation, Member]:
    """The model and the client of one Flower node, kept in this process."""
    if config_json not in _SEATS:
        torch.set_num_threads(1)
        config = FederationConfig.model_validate_json(config_json)
        federation = Federation(config, open_population(config))
        _SEATS[config_json] = (federation, federation.population.everyone())
    federation, members = _SEATS[config_json]
    return federation, members[place % len(members)]


def flower_engine(config: FederationConfig) -> float:
    """Wall seconds of the rounds on Flower's simulation engine, which needs Ray."""
    from flwr.simulation import run_simulation

    text = config.model_dump_json()
    client = ClientApp()

    @client.train()
    def train(message: Message, context: Context) -> Message:
        federation, member = seat(text, int(context.node_config["partition-id"]))
        start = message.content["theta"].to_numpy_ndarrays()[0]
        number = int(message.content["facts"]["round"])
        result = federation.train(member, start=start, number=number)
        content = RecordDict(
            {
                "update": ArrayRecord([result.update]),
                "facts": MetricRecord({"examples": result.examples}),
            }
        )
        return Message(content=content, reply_to=message)

    server = ServerApp()
    seconds: list[float] = []

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        del context
        federation, _ = seat(text, 0)
        theta, members = federation.population.initial, federation.population.everyone()
        while len(nodes := list(grid.get_node_ids())) < len(members):
            time.sleep(0.1)
        for number in range(config.run.rounds + 1):
            # Round 0 starts the workers and loads what they keep; it is not counted.
            started = time.perf_counter()
            content = RecordDict(
                {"theta": ArrayRecord([theta]), "facts": MetricRecord({"round": number})}
            )
            answers = grid.send_and_receive(
                [Message(content=content, dst_node_id=node, message_type="train") for node in nodes]
            )
            updates = [a.content["update"].to_numpy_ndarrays()[0] for a in answers]
            theta = (theta - np.mean(updates, axis=0)).astype(np.float32)
            if number:
                seconds.append(time.perf_counter() - started)

    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=len(open_population(config).everyone()),
        backend_config={"client_resources": {"num_cpus": 1.0, "num_gpus": 0.0}},
    )
    return sum(seconds)


def flower_like(config: FederationConfig, federation: Federation) -> None:
    """What any engine of messages does per client and round, without the engine."""
    population = federation.population
    theta = population.initial
    for number in range(1, config.run.rounds + 1):
        updates = []
        for member in population.everyone():
            layers = _layers(population.flat, theta)
            arrived = ArrayRecord(layers).to_numpy_ndarrays()
            start = np.concatenate([layer.reshape(-1) for layer in arrived])
            update = federation.train(member, start=start, number=number).update
            answer = ArrayRecord(_layers(population.flat, update)).to_numpy_ndarrays()
            updates.append(np.concatenate([layer.reshape(-1) for layer in answer]))
        theta = (theta - np.mean(updates, axis=0)).astype(np.float32)


def _layers(flat: FlatModel, vector: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    pieces = np.split(vector, flat.layout.offsets[1:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, flat.layout.shapes, strict=True)]


def measured(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall and processor seconds of a piece of work; it may return its own wall seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    own = work()
    wall = time.perf_counter() - wall
    return (own if isinstance(own, float) else wall), time.process_time() - processor


def one(side: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one side, in a process of its own."""
    torch.set_num_threads(1)
    config = configuration(arguments)
    if side == "flower" and importlib.util.find_spec("ray") is None:
        side = "flower-like"
    federation = Federation(config, open_population(config))
    federation.train(
        federation.population.everyone()[0], start=federation.population.initial, number=0
    )
    works: dict[str, Callable[[], Any]] = {
        "central": lambda: central(federation),
        "core": lambda: core(federation),
        "simulate": lambda: simulated(config),
        "simulate-all": lambda: simulated(config, workers=len(os.sched_getaffinity(0))),
        "flower": lambda: flower_engine(config),
        "flower-like": lambda: flower_like(config, federation),
    }
    wall, processor = measured(works[side])
    rows = samples(config, federation)
    return {
        "side": side,
        "samples": rows,
        "seconds": wall,
        "processor_seconds": processor,
        "samples_per_second": rows / wall,
        # Of the largest process: a worker of Ray or of the simulation counts by itself.
        "peak_mib": max(
            resource.getrusage(who).ru_maxrss
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        / 1024,
        "parameters": federation.size,
    }


def main() -> None:
    """Measure every side in a process of its own and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--clients", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--model", choices=["tiny", "small"], default="small")
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(one(arguments.side, arguments)))
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found: dict[str, dict[str, Any]] = {}
    for side in SIDES:
        command = [sys.executable, __file__, "--side", side, *sys.argv[1:]]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found[side] = json.loads(done.stdout.strip().splitlines()[-1])
    limit = found["central"]["samples_per_second"]
    flower = found["flower"]["samples_per_second"]
    for figures in found.values():
        figures["of_central"] = figures["samples_per_second"] / limit
        figures["times_flower"] = figures["samples_per_second"] / flower
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print(
        f"{'side':<12} {'samples/s':>10} {'of central':>10} {'x flower':>9} {'cpu s':>8} {'MiB':>6}"
    )
    for figures in found.values():
        print(
            f"{figures['side']:<12} {figures['samples_per_second']:>10.0f} "
            f"{figures['of_central']:>10.2f} {figures['times_flower']:>9.2f} "
            f"{figures['processor_seconds']:>8.1f} {figures['peak_mib']:>6.0f}"
        )


if __name__ == "__main__":
    main()
