"""The global server's Flower app: open the run, execute it, write its result."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from regionfed.config.current import current_config
from regionfed.config.federation import FederationConfig
from regionfed.data.open import open_data
from regionfed.diagnosis.report import DiagnosisReport
from regionfed.diagnosis.settings import PHASE, DiagnosisSettings, require_diagnosable
from regionfed.errors import ConfigError, RegionFedError
from regionfed.flower.names import region_resolver
from regionfed.flower.roster import Roster
from regionfed.logs import set_up_app_logs
from regionfed.models.agreement import agreement_digest
from regionfed.models.build import build_model
from regionfed.models.flat import FlatModel
from regionfed.privacy.terms import RegionTerms
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent, ProgressSink
from regionfed.run.promise import feasibility
from regionfed.run.result import ModelFacts, Result, Topology
from regionfed.run.summary import summarise
from regionfed.tasks.spec import TaskSpec
from regionfed_server.diagnose import DiagnosisRun
from regionfed_server.exchange import Regions
from regionfed_server.rivals import RivalStep
from regionfed_server.rounds import GlobalRun, new_run_id
from regionfed_server.state import GlobalState
from regionfed_server.watch import progress_of

logger = logging.getLogger(__name__)

RUN_VARIABLE = "REGIONFED_RUN_DIR"
"""Folder of the run, as the ServerApp sees it."""

NAMING_SECONDS = 90.0
"""How long a new node may take to say who it is."""
NAMING_WAIT_SECONDS = 0.3
"""How long one look at the roster waits for that; the rest of a round goes on meanwhile."""

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One global run over the connected regions."""
    set_up_app_logs()
    path = str(context.run_config.get("output", "")) or os.environ.get(RUN_VARIABLE, "")
    if not path:
        raise ConfigError(f"no run folder: set the environment variable {RUN_VARIABLE}")
    engine: Literal["simulate", "up", "deployed"] = "deployed"
    if context.run_config.get("engine") in ("simulate", "up"):
        engine = context.run_config["engine"]
    folder = RunFolder(Path(path))
    asked = str(context.run_config.get(PHASE, ""))
    if asked:
        settings = DiagnosisSettings.model_validate_json(asked)
        diagnose(grid, current_config(), settings, progress_of(folder)).write(folder.path)
        return
    run(grid, current_config(), folder, progress_of(folder), engine=engine)


def run(
    grid: Grid,
    config: FederationConfig,
    folder: RunFolder,
    progress: ProgressSink,
    *,
    engine: Literal["simulate", "up", "deployed"],
) -> Result:
    """Execute the run in `folder` and write `result.json`, also when it fails."""
    started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    start = _open(grid, config, engine=engine)
    failure: RegionFedError | None = None
    whole = GlobalRun(
        config, start.regions, folder, start.tasks, start.initial, progress, start.rival
    )
    told = feasibility(config, topology=start.topology, parameters=start.facts.parameters)
    if told:
        logger.warning("privacy.mode = '%s': %s", config.privacy.mode, told)
        progress(
            ProgressEvent(tier="server", phase="privacy", message=f"{config.privacy.mode}: {told}")
        )
    try:
        whole.execute()
    except RegionFedError as error:
        logger.error("the run failed: %s", error)
        failure = error
    result = summarise(
        config=config,
        records=folder.metrics().read(),
        topology=start.topology,
        model=start.facts,
        status="failed" if failure is not None else "stopped" if whole.stopped else "ok",
        reason=whole.stopped if failure is None else str(failure),
        notes=whole.notes,
        devices=None if engine == "deployed" else config.client.state or folder.clients,
        started=started,
        seconds=time.monotonic() - clock,
    )
    folder.write_result(result)
    if failure is not None:
        raise failure
    return result


def diagnose(
    grid: Grid, config: FederationConfig, settings: DiagnosisSettings, progress: ProgressSink
) -> DiagnosisReport:
    """Diagnose the connected regions; nothing is written and no region's state changes."""
    require_diagnosable(config)
    start = _open(grid, config, engine="deployed")
    return DiagnosisRun(
        config=config,
        settings=settings,
        regions=start.regions,
        run=start.initial.run,
        theta=start.initial.theta,
        buffers=start.initial.buffers,
        progress=progress,
    ).execute()


@dataclass(frozen=True)
class _Start:
    """What a run begins with."""

    topology: Topology
    facts: ModelFacts
    regions: Regions
    initial: GlobalState
    tasks: tuple[TaskSpec, ...]
    rival: RivalStep


def _open(
    grid: Grid, config: FederationConfig, *, engine: Literal["simulate", "up", "deployed"]
) -> _Start:
    """The regions by name, and the model's first vector; the model itself is not kept."""
    data = open_data(config.data, config.run.seed)
    model = build_model(
        config.model, tasks=data.tasks, vocabulary=data.vocabulary, seed=config.run.seed
    )
    if config.privacy.example_level:
        # Imported here: it needs Opacus, which only this promise does.
        from regionfed.privacy.example_probe import require_trainable

        require_trainable(model, config.model, tasks=data.tasks, vocabulary=data.vocabulary)
    flat = FlatModel(model.module)
    theta, buffers = flat.read(), flat.read_buffers()
    if config.privacy.audit_metrics == "simulated" and engine != "simulate":
        raise ConfigError(
            "privacy.audit_metrics = 'simulated' measures scores outside the promise, which is "
            "possible in `regionfed simulate` only; set it to 'none', and give scores a share of "
            "the budget with privacy.budget.evaluation_share"
        )
    for region in data.regions:
        # Terms that cannot hold are refused here, before any client is asked.
        RegionTerms(
            config=config,
            dimension=theta.size,
            buffers=buffers.size,
            clients=len(data.clients(region)),
            tasks=data.tasks,
        ).check()
    return _Start(
        topology=Topology(
            engine=engine, regions={name: data.clients(name) for name in data.regions}
        ),
        facts=ModelFacts(
            kind=config.model.kind,
            name=config.model.checkpoint or config.model.factory or config.model.preset,
            parameters=theta.size,
            bytes=theta.nbytes + buffers.nbytes,
        ),
        regions=Regions(
            config=config,
            grid=grid,
            roster=Roster(grid, region_resolver(deadline=NAMING_SECONDS, wait=NAMING_WAIT_SECONDS)),
            names=data.regions,
            digest=config.digest(),
            layout=agreement_digest(
                flat.layout, config.model, tasks=data.tasks, vocabulary=data.vocabulary
            ),
        ),
        initial=GlobalState(
            run=new_run_id(),
            round=0,
            theta=theta,
            buffers=buffers if buffers.size else None,
            control=np.zeros_like(theta) if config.method.strategy == "scaffold" else None,
        ),
        tasks=data.tasks,
        rival=RivalStep.of(
            config,
            model,
            flat.layout,
            enrolled=sum(len(data.clients(name)) for name in data.regions),
        ),
    )
