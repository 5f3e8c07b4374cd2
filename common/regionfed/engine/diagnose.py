"""`regionfed diagnose` in one process: the tiers' own apps, joined by local grids."""

from __future__ import annotations

from regionfed.config.federation import FederationConfig
from regionfed.diagnosis.report import DiagnosisReport
from regionfed.diagnosis.settings import DiagnosisSettings, require_diagnosable
from regionfed.engine.simulate import local_tiers
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressSink, ignore_progress


def diagnose_here(
    config: FederationConfig,
    folder: RunFolder,
    settings: DiagnosisSettings,
    progress: ProgressSink = ignore_progress,
) -> DiagnosisReport:
    """Diagnose all regions with clients in this process, and write `diagnosis.json`.

    Raises what `regionfed_server.diagnose` raises.
    """
    from regionfed_server.server_app import diagnose

    require_diagnosable(config)
    with local_tiers(config, folder) as (uplinks, local):
        report = diagnose(uplinks, local, settings, progress)
    report.write(folder.path)
    return report
