"""A Compose file for a federation file of the drills, rendered as a user would render it."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.engine import ROOT
from harness.stack import SERVER_IMAGE, docker


def rendered(config: Path, folder: Path) -> Path:
    """Render the federation file `config` into `folder`; the Compose file, which names it."""
    folder.chmod(0o777)
    shutil.copy(config, folder)
    out = f"{config.stem}.yml"
    docker(
        *("run", "--rm", "--network", "none", "--user", "0:0"),
        *("-v", f"{folder}:/rendered", "-w", "/rendered", SERVER_IMAGE),
        *("regionfed", "compose", "render", config.name, "--out", out),
        deadline=180,
    )
    # The Compose file names what lies beside it and what the images are built from.
    (folder / "deploy").symlink_to(ROOT / "deploy")
    return folder / out
