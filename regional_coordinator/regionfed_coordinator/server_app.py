"""The coordinator's lower face: a long-lived ServerApp that runs the region's part of each round.

It dials its daemon for jobs, asks the region's clients, and commits each result together with the
region's new state. A restarted one finds the unfinished job again and starts it from the state
before it.
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import replace

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from regionfed.bridge.api import Job, JobResult, WorkerSuperseded
from regionfed.bridge.connect import bridge_for
from regionfed.config.current import current_config, require_same_digest
from regionfed.data.open import open_data
from regionfed.diagnosis.settings import PHASE
from regionfed.errors import RegionFedError, TransportError
from regionfed.flower.names import client_resolver
from regionfed.flower.roster import Roster
from regionfed.logs import set_up_app_logs
from regionfed.messages import RegionOrder, WireMessage
from regionfed_coordinator.absorb import absorb
from regionfed_coordinator.diagnose import diagnose_region
from regionfed_coordinator.evaluate import evaluate_region
from regionfed_coordinator.region import Region
from regionfed_coordinator.state import RegionState
from regionfed_coordinator.train import train_region

logger = logging.getLogger(__name__)

JOB_WAIT_SECONDS = 15.0
NAMING_SECONDS = 90.0
"""How long a new node may take to say who it is."""
NAMING_WAIT_SECONDS = 0.3
"""How long one look at the roster waits for that; the rest of a round goes on meanwhile."""

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Work on the region's jobs until a newer ServerApp takes over or the run is stopped."""
    set_up_app_logs()
    config = current_config()
    name = str(context.run_config["region"])
    bridge = bridge_for(name, dict(context.run_config))
    data = open_data(config.data, config.run.seed)
    region = Region(
        name=name,
        config=config,
        grid=grid,
        roster=Roster(
            grid, client_resolver(name, deadline=NAMING_SECONDS, wait=NAMING_WAIT_SECONDS)
        ),
        bridge=bridge,
        clients=data.clients(name),
        poll=float(config.network.poll),
        tasks=data.tasks,
    )
    serve(region, worker=uuid.uuid4().hex)


def serve(region: Region, *, worker: str) -> None:
    """The worker's loop: lease a job, run it, commit it."""
    joined = False
    while True:
        try:
            region.roster.refresh()
            job = region.bridge.next_job(worker, JOB_WAIT_SECONDS, len(region.roster.names()))
        except WorkerSuperseded as error:
            logger.warning("%s", error)
            return
        except TransportError as error:
            logger.warning("the region's desk is away: %s", error)
            time.sleep(1.0)
            continue
        if job is None:
            continue
        if not joined:
            region.roster.wait_for(
                region.clients,
                at_least=region.config.coordinator.quorum,
                deadline=region.config.coordinator.join_deadline,
            )
            joined = True
        try:
            result, state = run_job(region, job)
        except WorkerSuperseded as error:
            logger.warning("%s", error)
            return
        region.bridge.push_result(result, None if state is None else state.to_record())
        region.mark_released()


def run_job(region: Region, job: Job) -> tuple[JobResult, RegionState | None]:
    """One phase of one round: the result to commit and the state that goes with it."""
    saved = region.bridge.load_state()
    state = RegionState() if saved is None else RegionState.from_record(saved)
    try:
        order = RegionOrder.from_record(job.content)
        require_same_digest(region.config, order.digest, sender="the global server")
        answer: WireMessage
        if job.kind == PHASE:
            # Measures only: the region's state stays as it is.
            return JobResult(
                job.job_id, "result", content=diagnose_region(region, order).to_record()
            ), None
        if job.kind == "train":
            answer, state = train_region(region, order, _caught_up(region, order, state))
        else:
            answer, state = evaluate_region(region, order, state)
    except RegionFedError as error:
        logger.error("job %s failed: %s", job.job_id, error)
        region.unreleased.clear()
        region.bridge.report({"phase": job.kind, "error": str(error)})
        return JobResult(job.job_id, "error", error=str(error)), None
    return JobResult(job.job_id, "result", content=answer.to_record()), state


def _caught_up(region: Region, order: RegionOrder, state: RegionState) -> RegionState:
    """The state with the last global step taken in, where no evaluation brought it."""
    if state.round >= order.round:
        # The server resumed from an earlier checkpoint: the residual of that round is not redone.
        state = replace(state, round=order.round - 1, absorbed=order.round - 1)
    return absorb(
        region.config,
        region.name,
        order,
        state,
        step=order.round - 1,
        terms=region.terms(order),
    )
