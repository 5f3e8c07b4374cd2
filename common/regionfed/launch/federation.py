"""A federation of real processes on this machine: start, submit, watch, stop."""

from __future__ import annotations

import logging
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from regionfed.config.current import CONFIG_VARIABLE
from regionfed.config.federation import FederationConfig
from regionfed.data.open import open_data
from regionfed.errors import RunFailed, TransportError
from regionfed.flower.adapter import Control, RunState
from regionfed.flower.bundle import GLOBAL, bundle
from regionfed.launch.observe import Observer
from regionfed.launch.plan import GLOBAL_TIER, plan_processes
from regionfed.launch.ports import Ports
from regionfed.launch.running import write_note
from regionfed.launch.supervisor import Supervisor
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent, ProgressSink, ignore_progress
from regionfed.run.result import Result

logger = logging.getLogger(__name__)

T = TypeVar("T")

RUN_VARIABLE = "REGIONFED_RUN_DIR"
RESUBMISSIONS = 3
"""How often a global run whose ServerApp died is submitted again; it resumes its checkpoint."""
_LOOK_S = 0.5
_APP_LOST_S = 10.0
"""Seconds without a ServerApp process after which a run is taken for dead. Flower notices after 60."""
_AWAY_S = 90.0
"""Seconds for which the global SuperLink may be away (it is restarted) before the run fails."""


class LocalFederation:
    """All tiers of a federation as processes of this machine.

    Use as a context manager, or call `run`. Flower's own state is kept for the time of one `up`
    only; what outlives it (checkpoints, region state) is in the run folder.

    Args:
        config: the federation.
        folder: the run's folder, made.
        progress: told of every step.
    """

    def __init__(
        self,
        config: FederationConfig,
        folder: RunFolder,
        progress: ProgressSink = ignore_progress,
    ) -> None:
        self._config = config
        self._folder = folder
        self._progress = progress
        self._run: int | None = None
        self._submissions = 0
        self._settings: dict[str, str] = {"engine": "up"}
        self._app_lost: float | None = None
        home = folder.path.resolve() / "processes"
        shutil.rmtree(home, ignore_errors=True)
        data = open_data(config.data, config.run.seed)
        self._plan = plan_processes(
            {region: data.clients(region) for region in data.regions},
            ports=Ports(config.network.host, config.network.base_port),
            folder=home,
            logs=folder.logs.resolve(),
            states={region: folder.region(region).resolve() for region in data.regions},
            settings={
                CONFIG_VARIABLE: str(folder.config_file.resolve()),
                RUN_VARIABLE: str(folder.path.resolve()),
                "OMP_NUM_THREADS": str(config.training.threads),
            },
            mark=uuid.uuid4().hex,
        )
        write_note(home, self._plan)
        self._supervisor = Supervisor(
            self._plan.processes, mark=self._plan.mark, deadline=config.network.start_deadline
        )
        self._control = Control(self._plan.controls[GLOBAL_TIER])
        self._observer = Observer(folder, self._plan, rounds=config.run.rounds)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def run(self) -> Result:
        """Start, submit, wait for the result and stop, whatever happens."""
        with self:
            self.submit()
            return self.wait(self._progress)

    def start(self) -> None:
        """Start all processes and wait until they are ready. See Supervisor.start for errors."""
        began = time.monotonic()
        self._tell("start", f"{len(self._plan.processes)} processes")
        try:
            self._supervisor.start()
        except BaseException:
            self.stop()
            raise
        self._tell("ready", f"after {time.monotonic() - began:.1f} s")

    def submit(self, settings: Mapping[str, str] | None = None) -> int:
        """Submit the global run and return its id; `settings` override its bundle's own.

        A run that has to be submitted again gets the same settings.
        """
        if settings is not None:
            self._settings = {**self._settings, **settings}
        self._submissions += 1
        self._run = self._control.start_run(bundle(GLOBAL), self._settings)
        self._app_lost = None
        self._observer.logs.follow(GLOBAL_TIER, self._plan.controls[GLOBAL_TIER], self._run)
        logger.info("submitted the global run %d", self._run)
        return self._run

    def wait(self, progress: ProgressSink = ignore_progress) -> Result:
        """Wait for the run's end, telling `progress` of every step, and return its result.

        A run whose ServerApp died is submitted again and goes on from its checkpoint. Raises
        RunFailed with Flower's reason when it ends without a result or keeps dying.
        """
        return self.wait_for(self._result, progress)

    def wait_for(
        self, found: Callable[[], T | None], progress: ProgressSink = ignore_progress
    ) -> T:
        """Wait for the run's end and return what it left, as `found` reads it; see `wait`."""
        away_since: float | None = None
        while True:
            self._supervisor.check()
            self._observer.tell(progress)
            try:
                state = self._state()
                away_since = None
            except TransportError as error:
                now = time.monotonic()
                away_since = now if away_since is None else away_since
                if now - away_since > _AWAY_S:
                    raise RunFailed(f"the run cannot be followed any more: {error}") from error
                time.sleep(_LOOK_S)
                continue
            if not state.live:
                self._observer.tell(progress)
                result = found()
                if result is not None:
                    return result
                self._again(f"the global run ended without a result ({state})")
            elif self._lost_its_app():
                self._control.stop_run(state.run_id)
                self._again("the global ServerApp is gone")
            time.sleep(_LOOK_S)

    def processes(self) -> dict[str, int]:
        """Name to process id; see Supervisor.processes."""
        return self._supervisor.processes()

    def kill(self, name: str, *, for_good: bool = False) -> int:
        """Kill one process (SIGKILL), for drills; it is restarted as any that dies.

        `for_good` leaves it dead, as a device that is switched off.
        """
        return self._supervisor.kill(name, for_good=for_good)

    def stop(self) -> None:
        """End all processes. Nothing is left behind, also when this process is killed."""
        self._observer.close()
        self._control.close()
        self._supervisor.stop()

    def _state(self) -> RunState:
        assert self._run is not None, "wait before submit"
        state = self._control.run_state(self._run)
        if state is None:
            raise RunFailed(f"the global SuperLink does not know run {self._run}")
        return state

    def _lost_its_app(self) -> bool:
        """Whether the run has had no ServerApp process for a while."""
        if "global/serverapp" in self.processes():
            self._app_lost = None
            return False
        now = time.monotonic()
        if self._app_lost is None:
            self._app_lost = now
        return now - self._app_lost > _APP_LOST_S

    def _again(self, why: str) -> None:
        if self._submissions > RESUBMISSIONS:
            raise RunFailed(
                f"{why}, after {self._submissions} attempts; see "
                f"{self._observer.logs.path(GLOBAL_TIER)}"
            )
        logger.warning("%s; submitting it again", why)
        self._tell("restart", why)
        self._with_patience(self.submit)

    def _with_patience(self, call: Callable[[], int]) -> None:
        end = time.monotonic() + _AWAY_S
        while True:
            try:
                call()
                return
            except TransportError:
                if time.monotonic() >= end:
                    raise
                time.sleep(_LOOK_S)

    def _result(self) -> Result | None:
        """The result that this run wrote, or None."""
        path = self._folder.result_file
        if not path.exists() or path.stat().st_mtime < self._observer.since:
            return None
        return self._folder.read_result()

    def _tell(self, phase: str, message: str) -> None:
        self._progress(ProgressEvent(tier="server", phase=phase, message=message))
