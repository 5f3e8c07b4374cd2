"""`regionfed simulate`: the three tiers' own apps in one process, joined by local grids."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from flwr.app import Message

from regionfed.bridge.connect import desk_in_process
from regionfed.bridge.desk import Desk
from regionfed.bridge.local import LocalBridge
from regionfed.bridge.store import JobStore
from regionfed.config.coordinator import CoordinatorConfig
from regionfed.config.current import set_current_config
from regionfed.config.federation import FederationConfig
from regionfed.config.server import ServerConfig
from regionfed.data.open import open_data
from regionfed.engine.enrol import enrol
from regionfed.engine.workers import ClientWorkers, usable_workers
from regionfed.flower import adapter
from regionfed.flower.local import Fault, LocalGrid, local_context
from regionfed.privacy.desk_ledger import DeskLedger
from regionfed.privacy.simulation import simulation
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressSink, ignore_progress
from regionfed.run.result import Result

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.002
STOP_SECONDS = 30.0
RUN_VARIABLE = "REGIONFED_RUN_DIR"


def simulate(
    config: FederationConfig,
    folder: RunFolder,
    progress: ProgressSink = ignore_progress,
    *,
    faults: Mapping[str, Mapping[str, Fault]] | None = None,
    workers: int = 1,
) -> Result:
    """Run the whole federation here and return its result.

    `faults` maps a region to faults of its clients by name, for drills. With `workers` above 1
    that many processes do the clients' work; 0 takes as many as suit the run. Raises what the run
    raises; `result.json` is written in either case.
    """
    from regionfed_server.server_app import run

    with local_tiers(config, folder, faults=faults, workers=workers) as (uplinks, config):
        return run(uplinks, config, folder, progress, engine="simulate")


@contextmanager
def local_tiers(
    config: FederationConfig,
    folder: RunFolder,
    *,
    faults: Mapping[str, Mapping[str, Fault]] | None = None,
    workers: int = 1,
) -> Iterator[tuple[LocalGrid, FederationConfig]]:
    """Regions and clients at work on this machine: the global grid, and the configuration they
    have (with a poll and, unless faults are played, deadlines that fit one process)."""
    from regionfed_client.runtime import release_runtimes

    config = config.model_copy(
        update={"network": config.network.model_copy(update={"poll": POLL_SECONDS})}
    )
    adapter.adopt_identity(run_id=1)
    data = open_data(config.data, config.run.seed)
    everyone = sum(len(data.clients(name)) for name in data.regions)
    if not faults:
        config = _patient(config, clients=everyone)
    count = workers or usable_workers(config, clients=everyone)
    with ExitStack() as stack:
        stack.enter_context(simulation())
        enrol(config, folder)
        stack.enter_context(_process_settings(config, folder))
        stack.callback(release_runtimes)
        pool = ClientWorkers(config, folder, count=count) if count > 1 else None
        if pool is not None:
            stack.callback(pool.close)
        regions = {
            name: stack.enter_context(
                _region(
                    name, data.clients(name), folder, (faults or {}).get(name, {}), workers=pool
                )
            )
            for name in data.regions
        }
        uplinks = LocalGrid(
            {index + 1: regions[name] for index, name in enumerate(data.regions)},
            names={index + 1: name for index, name in enumerate(data.regions)},
            workers=len(data.regions),
        )
        stack.callback(uplinks.close)
        yield uplinks, config


def _patient(config: FederationConfig, *, clients: int) -> FederationConfig:
    """Deadlines for clients that work here one after the other, not each on a machine of its own.

    A federation's deadlines are meant for one client's work; a slow processor must not change the
    result of a simulation.
    """

    def longer(section: ServerConfig | CoordinatorConfig) -> dict[str, float]:
        return {"round_deadline": section.round_deadline * max(1, clients)}

    return config.model_copy(
        update={
            "server": config.server.model_copy(update=longer(config.server)),
            "coordinator": config.coordinator.model_copy(update=longer(config.coordinator)),
        }
    )


@contextmanager
def _process_settings(config: FederationConfig, folder: RunFolder) -> Iterator[None]:
    before = os.environ.get(RUN_VARIABLE)
    os.environ[RUN_VARIABLE] = str(folder.path)
    set_current_config(config)
    try:
        yield
    finally:
        set_current_config(None)
        if before is None:
            del os.environ[RUN_VARIABLE]
        else:
            os.environ[RUN_VARIABLE] = before


class _Uplink:
    """The coordinator's ClientApp as a node of the global grid."""

    def __init__(self, region: str) -> None:
        self._region = region

    def __call__(self, message: Message) -> Message:
        from regionfed_coordinator.client_app import app

        return app(message, local_context({"region": self._region}, {}))


@contextmanager
def _region(
    name: str,
    clients: tuple[str, ...],
    folder: RunFolder,
    faults: Mapping[str, Fault],
    *,
    workers: ClientWorkers | None,
) -> Iterator[_Uplink]:
    """One region at work: its desk, its clients' grid, and its ServerApp in a thread."""
    from regionfed_coordinator.server_app import app

    store = JobStore(folder.region(name))
    desk = Desk(store, region=name, ledger=DeskLedger(folder.region(name), name))
    node = _client_node if workers is None else workers.node
    grid = LocalGrid(
        {index + 1: node(name, client) for index, client in enumerate(clients)},
        names={index + 1: f"{name}/{client}" for index, client in enumerate(clients)},
        workers=1 if workers is None else workers.count,
    )
    for index, client in enumerate(clients):
        if client in faults:
            grid.inject(index + 1, faults[client])
    worker = threading.Thread(
        target=app,
        args=(grid, local_context({}, {"region": name})),
        name=f"region-{name}",
        daemon=True,
    )
    with desk_in_process(desk):
        worker.start()
        try:
            yield _Uplink(name)
        finally:
            # A newer worker on the desk is what tells a ServerApp to stop; one that has not come
            # to the desk yet would be newer itself, so it is told again.
            end = time.monotonic() + STOP_SECONDS
            while worker.is_alive() and time.monotonic() < end:
                LocalBridge(desk).next_job(f"stop-{uuid.uuid4().hex}", 0.0, 0)
                worker.join(1.0)
            grid.close()
            store.close()


def _client_node(region: str, client: str) -> Callable[[Message], Message]:
    from regionfed_client.client_app import app

    def handle(message: Message) -> Message:
        return app(message, local_context({"region": region, "client": client}, {}))

    return handle
