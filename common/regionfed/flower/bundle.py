"""App bundles that hold nothing but their manifest: the code that runs is the installed one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from regionfed.errors import StateError
from regionfed.flower.adapter import build_bundle

GLOBAL = "regionfed_server"
"""Package whose bundle is run on the global SuperLink."""
REGIONAL = "regionfed_coordinator"
"""Package whose bundle is run on a region's SuperLink."""


def manifest_path(package: str) -> Path:
    """Where a package's bundle manifest is: in the wheel, or beside the package in a checkout.

    Raises StateError when the package is not installed or has no manifest.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise StateError(f"package {package} is not installed; install the distribution regionfed")
    folder = Path(spec.origin).parent
    for path in (folder / "bundle.toml", folder.parent / "pyproject.toml"):
        if path.is_file():
            return path
    raise StateError(f"package {package} in {folder} has no bundle manifest; install it again")


def bundle(package: str) -> bytes:
    """The bundle of one hop, ready to be submitted."""
    return build_bundle({"pyproject.toml": manifest_path(package).read_bytes()})
