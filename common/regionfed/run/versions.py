"""Versions and machine, read from package metadata so that nothing heavy is imported."""

from __future__ import annotations

import os
import platform
from importlib import metadata

PACKAGES = (
    "regionfed",
    "flwr",
    "torch",
    "transformers",
    "numpy",
    "grpcio",
    "opacus",
    "dp_accounting",
    "peft",
)


def versions() -> dict[str, str]:
    """Version by package, with `python` first; packages that are not installed are left out."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str | int]:
    """System, processor architecture and the cores that this process may use."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else (os.cpu_count() or 1),
    }
