"""`regionfed diagnose --up`: the same protocol through real processes of this machine."""

from __future__ import annotations

from regionfed.config.federation import FederationConfig
from regionfed.diagnosis.report import FILE, DiagnosisReport
from regionfed.diagnosis.settings import PHASE, DiagnosisSettings, require_diagnosable
from regionfed.launch.federation import LocalFederation
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressSink, ignore_progress


def diagnose_processes(
    config: FederationConfig,
    folder: RunFolder,
    settings: DiagnosisSettings,
    progress: ProgressSink = ignore_progress,
) -> DiagnosisReport:
    """Start all tiers as processes, diagnose, stop. Raises RunFailed when it gives no result."""
    require_diagnosable(config)

    def found() -> DiagnosisReport | None:
        path = folder.path / FILE
        return DiagnosisReport.read(folder.path) if path.exists() else None

    with LocalFederation(config, folder, progress) as federation:
        federation.submit({PHASE: settings.model_dump_json()})
        return federation.wait_for(found, progress)
