"""Which processes a local federation consists of, with their commands and environments."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regionfed.launch.ports import Ports
from regionfed.launch.watchdog import MARK, NAME

GLOBAL_TIER = "global"


@dataclass(frozen=True)
class ProcessSpec:
    """One supervised process. It is ready when `probe` (HOST:PORT) answers as `health` says.

    `stage` orders the start: a stage begins when all processes of the one before are ready.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    log: Path
    stage: int
    probe: str = ""
    health: bool = False


@dataclass(frozen=True)
class FederationPlan:
    """All processes and the addresses that whoever watches needs.

    `controls` are the SuperLinks' HTTP addresses by tier (`global` or a region), `daemons` those
    of the regions' daemons.
    """

    mark: str
    processes: tuple[ProcessSpec, ...]
    controls: Mapping[str, str]
    daemons: Mapping[str, str]


def plan_processes(
    topology: Mapping[str, Sequence[str]],
    *,
    ports: Ports,
    folder: Path,
    logs: Path,
    states: Mapping[str, Path],
    settings: Mapping[str, str],
    mark: str,
) -> FederationPlan:
    """Plan the processes of a federation on this machine, without TLS (loopback only).

    Args:
        topology: client names by region.
        ports: gives the addresses.
        folder: where the processes keep Flower's files.
        logs: one log per process.
        states: the folder of each region's durable state.
        settings: environment of all processes, on top of this one's.
        mark: value of the environment variable `MARK`.
    """
    builder = _Builder(folder=folder, logs=logs, settings={**settings, MARK: mark})
    controls: dict[str, str] = {}
    controls[GLOBAL_TIER], fleet = builder.superlink(GLOBAL_TIER, ports)
    daemons: dict[str, str] = {}
    for region, clients in topology.items():
        controls[region], region_fleet = builder.superlink(region, ports)
        daemons[region] = ports.take(f"{region}/daemon")
        builder.add(
            f"{region}/daemon",
            [
                *(sys.executable, "-m", "regionfed_coordinator.daemon.main"),
                *("--region", region, "--bind", daemons[region]),
                *("--state-dir", str(states[region]), "--superlink", controls[region]),
            ],
            stage=1,
            probe=daemons[region],
            health=True,
        )
        builder.supernode(
            f"{region}/uplink",
            ports,
            superlink=fleet,
            settings={"region": region, "bridge": daemons[region]},
        )
        for client in clients:
            builder.supernode(
                f"{region}/{client}",
                ports,
                superlink=region_fleet,
                settings={"region": region, "client": client},
            )
    return FederationPlan(mark, tuple(builder.specs), controls, daemons)


class _Builder:
    def __init__(self, *, folder: Path, logs: Path, settings: Mapping[str, str]) -> None:
        self.folder, self.logs, self.settings = folder, logs, settings
        self.specs: list[ProcessSpec] = []

    def add(
        self,
        name: str,
        command: Sequence[str],
        *,
        stage: int,
        probe: str = "",
        health: bool = False,
    ) -> None:
        flat = name.replace("/", "-")
        folder = self.folder / flat
        self.specs.append(
            ProcessSpec(
                name=name,
                command=tuple(command),
                environment=flower_environment(folder / "flwr", {**self.settings, NAME: name}),
                folder=folder,
                log=self.logs / f"{flat}.log",
                stage=stage,
                probe=probe,
                health=health,
            )
        )

    def superlink(self, tier: str, ports: Ports) -> tuple[str, str]:
        """Add a SuperLink and its executor; return its HTTP and its Fleet address.

        State in SQLite and a separate executor: a SuperLink that is restarted goes on with its
        run.
        """
        name = f"{tier}/superlink"
        control, fleet, health = (ports.take(name) for _ in range(3))
        host, _, port = control.rpartition(":")
        database = self.folder / f"{tier}-superlink" / "state.db"
        self.add(
            name,
            [
                *("flower-superlink", "--insecure", "--host", host, "--port", port),
                *("--fleet-api-address", fleet, "--health-server-address", health),
                *("--database", str(database), "--isolation", "process"),
            ],
            stage=0,
            probe=health,
            health=True,
        )
        self.add(
            f"{tier}/superexec",
            ["flower-superexec", "--insecure", "--runtime-api-address", control],
            stage=1,
        )
        return control, fleet

    def supernode(
        self, name: str, ports: Ports, *, superlink: str, settings: Mapping[str, str]
    ) -> None:
        address = ports.take(name)
        host, _, port = address.rpartition(":")
        shown = " ".join(f'{key}="{value}"' for key, value in settings.items())
        self.add(
            name,
            [
                *("flower-supernode", "--insecure", "--superlink", superlink),
                *("--host", host, "--port", port, "--node-config", shown),
            ],
            stage=1,
            probe=address,
        )


def flower_environment(home: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a Flower process that calls nobody but its peers.

    Proxies are left out: all peers are on this machine. `flwr-serverapp` and `flwr-clientapp` are
    looked up on PATH, so this interpreter's folder comes first.
    """
    inherited = {
        key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")
    }
    return {
        **inherited,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "PYTHONUNBUFFERED": "1",
        **settings,
    }
