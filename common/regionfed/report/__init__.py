"""The report of a run: one HTML file that stands alone."""

from __future__ import annotations

from pathlib import Path

from regionfed.errors import RegionFedError


def write_report(run_folder: Path) -> Path:
    """Write `report.html` into a run's folder from the files there, and return its path.

    It works on runs that failed or still go on. Raises StateError when the folder is no run's or
    its files are damaged, and RegionFedError when the packages of the extra `report` are missing.
    """
    try:
        from regionfed.report.write import write_report as write
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("matplotlib", "jinja2"):
            raise
        raise RegionFedError(
            f"a report needs the package {error.name}; install it with pip install "
            "'regionfed[report]', then run: regionfed report RUN_DIR"
        ) from None
    return write(run_folder)
