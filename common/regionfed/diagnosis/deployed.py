"""`regionfed diagnose --deployed`: ask a federation that is running somewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from regionfed.config.federation import FederationConfig
from regionfed.diagnosis.report import FILE, DiagnosisReport
from regionfed.diagnosis.settings import PHASE, DiagnosisSettings, require_diagnosable
from regionfed.errors import RunFailed, StateError
from regionfed.flower.adapter import Control
from regionfed.flower.bundle import GLOBAL, bundle
from regionfed.run.folder import RunFolder

_LOOK_S = 1.0


def diagnose_deployed(
    config: FederationConfig,
    folder: RunFolder,
    settings: DiagnosisSettings,
    *,
    control: str,
    ca: Path | None = None,
) -> DiagnosisReport:
    """Submit a diagnosis to the global SuperLink at `control` (HOST:PORT) and wait for its end.

    The ServerApp writes into `folder`, which must be the same folder on its machine. The wait
    ends with the rounds' own deadlines. Raises RunFailed when Flower ends the run without
    success or the deadline passes, StateError when the folder is not shared.
    """
    require_diagnosable(config)
    overrides: Mapping[str, str] = {
        PHASE: settings.model_dump_json(),
        "output": str(folder.path.resolve()),
    }
    server = config.server
    patience = server.join_deadline + settings.total * (server.round_deadline + 60.0)
    end = time.monotonic() + patience
    link = Control(control, ca=ca)
    try:
        run = link.start_run(bundle(GLOBAL), dict(overrides))
        while (state := link.run_state(run)) is None or state.live:
            if time.monotonic() > end:
                link.stop_run(run)
                raise RunFailed(f"the diagnosis did not end within {patience:.0f} s: {state}")
            time.sleep(_LOOK_S)
    finally:
        link.close()
    if not state.completed:
        raise RunFailed(f"the diagnosis failed: {state}; the server's log says why")
    if not (folder.path / FILE).exists():
        raise StateError(
            f"the diagnosis has ended, but {folder.path} holds no {FILE} here: run this command "
            "on the global server's machine, with --out in a folder that its processes share"
        )
    return DiagnosisReport.read(folder.path)
