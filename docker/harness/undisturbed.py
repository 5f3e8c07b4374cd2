"""The model that a federation would have if nothing happened to it."""

from __future__ import annotations

from pathlib import Path

from harness.stack import SERVER_IMAGE, UID, Stack, docker


def undisturbed(stack: Stack, config: Path, **overrides: str) -> None:
    """Train the same federation in one process, into the folder `undisturbed` of the volume `runs`.

    `overrides` are keys of the federation file as the environment names them, without the prefix.
    """
    given = [word for k, v in overrides.items() for word in ("-e", f"REGIONFED__{k}={v}")]
    docker(
        *("run", "--rm", "--network", "none", "--user", f"{UID}:0"),
        *("-v", f"{stack.project}_runs:/runs", "-v", f"{config}:/federation.toml:ro", *given),
        *(SERVER_IMAGE, "regionfed", "simulate", "/federation.toml", "--out", "/runs/undisturbed"),
        deadline=900,
    )
