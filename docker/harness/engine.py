"""Brings a Docker engine up where there is none, and builds the images once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINE_VARIABLE = "REGIONFED_DOCKER_ENGINE"
"""Program that brings an engine up when called with `up`."""
BUILD_SECONDS = 2400.0


def ensure_engine() -> None:
    """Return when `docker info` answers; ends the program with a reason when it cannot."""
    if _answers():
        return
    program = Path(os.environ.get(ENGINE_VARIABLE) or ROOT.parent / "shared/tools/docker-engine")
    if not program.is_file():
        sys.exit(
            f"no Docker engine answers, and there is no {program}; start the engine, or set "
            f"{ENGINE_VARIABLE} to a program that does when called with 'up'"
        )
    subprocess.run([str(program), "up"], check=True, timeout=900, stdout=subprocess.DEVNULL)
    if not _answers():
        sys.exit(f"{program} up ended well, but `docker info` does not answer")


def wheelhouse() -> Path | None:
    """The folder from which pip on this machine takes wheels, if it has PyTorch in it."""
    for key in ("env.find-links", ":env:.find-links", "global.find-links"):
        found = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", key],
            capture_output=True,
            text=True,
            check=False,
        )
        folder = Path(found.stdout.strip()) if found.stdout.strip() else None
        if folder is not None and any(folder.glob("torch-*.whl")):
            return folder
    return None


def build_images(compose_file: Path = ROOT / "docker-compose.yml") -> None:
    """Build the three images; layers that are there already are kept."""
    environment = dict(os.environ)
    files = ["-f", str(compose_file)]
    folder = wheelhouse()
    if folder is not None:
        environment |= {"WHEELHOUSE": str(folder), "TORCH_INDEX_URL": ""}
        files += ["-f", str(ROOT / "docker-compose.wheelhouse.yml")]
    subprocess.run(
        ["docker", "compose", *files, "--progress", "quiet", "build"],
        check=True,
        cwd=ROOT,
        env=environment,
        timeout=BUILD_SECONDS,
    )


def _answers() -> bool:
    try:
        found = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=60)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0
