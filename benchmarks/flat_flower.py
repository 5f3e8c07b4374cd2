"""Seconds per round and bytes: three tiers against flat Flower FedAvg on the same clients.

    python benchmarks/flat_flower.py [--config recipes/demo.toml] [--rounds 3] [--json]

Runs, one after the other on this machine: `simulate`, `up` (real processes) and a flat federation
written with Flower alone (real processes, its own FedAvg). Only ratios within one run mean
anything. The median over the rounds after the first is given, since the first loads everything.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from regionfed.config.current import CONFIG_VARIABLE
from regionfed.config.federation import FederationConfig
from regionfed.config.load import load_config
from regionfed.config.write import write_resolved
from regionfed.data.open import open_data
from regionfed.engine import simulate
from regionfed.flower.adapter import Control, build_bundle
from regionfed.launch import LocalFederation
from regionfed.launch.plan import ProcessSpec, flower_environment
from regionfed.launch.ports import Ports
from regionfed.launch.supervisor import Supervisor
from regionfed.launch.watchdog import MARK, NAME
from regionfed.run.folder import RunFolder
from regionfed.run.result import Result
from regionfed.run.summary import History

HERE = Path(__file__).resolve().parent
DEADLINE_SECONDS = 1800.0

MANIFEST = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "flat-fedavg"
version = "0.1.0"
description = "Flat FedAvg for comparison"
license = "Apache-2.0"
dependencies = ["flwr==1.39.*"]
[tool.flwr.app]
publisher = "regionfed"
[tool.flwr.app.components]
serverapp = "flat_flower_app:server"
clientapp = "flat_flower_app:client"
"""


def tiers(config: FederationConfig, folder: Path, *, processes: bool) -> dict[str, Any]:
    """Figures of the three tiers, in one process or in many."""
    run = RunFolder.create(config, out=folder)
    result: Result
    if processes:
        with LocalFederation(config, run) as federation:
            federation.submit()
            result = federation.wait()
    else:
        result = simulate(config, run)
    clients = sum(len(names) for names in result.topology.regions.values())
    hop = result.traffic.coordinator_client
    return {
        "seconds_per_round": [r.seconds for r in History(run.metrics().read()).rounds],
        "bytes_per_client_and_round": (hop.up + hop.down) / clients / result.rounds_done,
        "score": result.overall,
    }


def flat(config: FederationConfig, folder: Path) -> dict[str, Any]:
    """Figures of the flat federation."""
    folder.mkdir(parents=True)
    config_file, found = folder / "federation.toml", folder / "flat.json"
    write_resolved(config, config_file)
    ports, mark = Ports("127.0.0.1", 0), uuid.uuid4().hex
    settings = {
        CONFIG_VARIABLE: str(config_file),
        "FLAT_RESULT": str(found),
        "PYTHONPATH": str(HERE),
        "OMP_NUM_THREADS": "1",
        MARK: mark,
    }
    specs: list[ProcessSpec] = []

    def add(name: str, command: list[str], stage: int, *, probe: str, health: bool) -> None:
        environment = flower_environment(folder / name / "flwr", {**settings, NAME: name})
        log = folder / f"{name}.log"
        specs.append(
            ProcessSpec(name, tuple(command), environment, folder / name, log, stage, probe, health)
        )

    control, fleet, health = (ports.take("flat") for _ in range(3))
    host, _, port = control.rpartition(":")
    link = ["flower-superlink", "--insecure", "--host", host, "--port", port]
    link += ["--fleet-api-address", fleet, "--health-server-address", health]
    link += ["--database", str(folder / "superlink.db"), "--isolation", "process"]
    add("superlink", link, 0, probe=health, health=True)
    executor = ["flower-superexec", "--insecure", "--runtime-api-address", control]
    add("superexec", executor, 1, probe="", health=False)
    data = open_data(config.data, config.run.seed)
    for region in data.regions:
        for client in data.clients(region):
            address = ports.take(client)
            node_host, _, node_port = address.rpartition(":")
            node = ["flower-supernode", "--insecure", "--superlink", fleet]
            node += ["--host", node_host, "--port", node_port]
            node += ["--node-config", f'region="{region}" client="{client}"']
            add(f"{region}-{client}", node, 1, probe=address, health=False)
    supervisor = Supervisor(specs, mark=mark, deadline=config.network.start_deadline)
    try:
        supervisor.start()
        bundle = build_bundle({"pyproject.toml": MANIFEST.encode()})
        run_id = Control(control).start_run(bundle, {})
        end = time.monotonic() + DEADLINE_SECONDS
        while not found.exists():
            supervisor.check()
            state = Control(control).run_state(run_id)
            if time.monotonic() > end or (state is not None and not state.live):
                raise SystemExit(f"the flat run did not end well ({state}); see {folder}")
            time.sleep(0.5)
        facts: dict[str, Any] = json.loads(found.read_text())
        return facts
    finally:
        supervisor.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=HERE.parent / "recipes" / "demo.toml")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    config = load_config(
        given.config,
        overrides=[
            f"run.rounds={given.rounds}",
            "method.strategy='none'",
            "privacy.mode='off'",
            "coordinator.client_weights='examples'",
            "server.region_weights='examples'",
        ],
    )
    with tempfile.TemporaryDirectory(prefix="flat-flower-") as scratch:
        root = Path(scratch)
        found = {
            "simulate": tiers(config, root / "simulate", processes=False),
            "up": tiers(config, root / "up", processes=True),
            "flat Flower": flat(config, root / "flat"),
        }
    base = statistics.median(found["flat Flower"]["seconds_per_round"][1:])
    for facts in found.values():
        facts["median_seconds"] = statistics.median(facts["seconds_per_round"][1:])
        facts["ratio_to_flat"] = facts["median_seconds"] / base
    if given.json:
        json.dump(found, sys.stdout, indent=2)
        return
    print(f"{'':14}{'s/round':>9}{'to flat':>9}{'MB/client/round':>17}{'score':>8}")
    for name, facts in found.items():
        print(
            f"{name:14}{facts['median_seconds']:>9.2f}{facts['ratio_to_flat']:>9.2f}"
            f"{facts['bytes_per_client_and_round'] / 1e6:>17.2f}{facts['score']:>8.3f}"
        )


if __name__ == "__main__":
    main()
