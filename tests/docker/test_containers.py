"""The federation in containers: end to end, and the failure drills (`make test-docker`).

Both are programs of their own, so that they also run without this test suite.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.docker


def run(*words: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.timeout(3600)
def test_the_federation_runs_resumes_and_refuses_end_to_end(tmp_path: Path) -> None:
    assert " 0 failed" in run(str(ROOT / "docker/e2e"), cwd=tmp_path)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("group", ["kills", "cuts", "join", "secure"])
def test_drills(group: str, tmp_path: Path) -> None:
    said = run(str(ROOT / "docker/drills"), group, cwd=tmp_path)
    assert " 0 failed" in said
    assert (tmp_path / "drills.json").exists()
