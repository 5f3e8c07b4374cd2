"""From a recipe to files: what is finished is not run again, what fails is named."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regionfed.bench.cell import cell_path, run_cell, write_cell
from regionfed.bench.main import run_bench
from regionfed.bench.page import write_page
from regionfed.bench.recipe import jobs_of, read_recipe
from regionfed.bench.runner import run_jobs
from regionfed.bench.show import watching
from regionfed.bench.tables import Results, write_tables
from regionfed.errors import RunFailed, StateError

RECIPE = """
[bench]
name = "words"
systems = ["centralized", "centralized-regional", "fedavg", "regionfed-grad", "regionfed-residual"]
rivals = ["fedavg"]
seeds = [1, 2]
curve_every = 1
published = "esci"
[federation.run]
rounds = 2
[federation.data]
regions = 2
clients_per_region = 2
tasks = ["intent"]
[federation.data.builtin]
train_queries = 12
validation_queries = 4
test_queries = 4
[federation.model]
kind = "factory"
factory = "linear_words:build"
[federation.training]
steps = 2
[size.smoke]
[size.full]
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "words.toml"
    path.write_text(RECIPE)
    return path


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_tables_and_page_from_cells(recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    parsed = read_recipe(recipe)
    jobs = jobs_of(parsed, "smoke", origin="")
    for job in jobs:
        write_cell(folder, job, run_cell(job))
    with watching() as watcher:
        outcome = run_jobs(jobs, folder, workers=1, watcher=watcher)
    results = Results(outcome.results)
    assert len(outcome.results) == 10
    write_tables(results, folder)
    page = write_page(parsed, "smoke", results, folder=folder, failures={})
    assert len(rows(folder / "cells.csv")) == 10
    assert len(rows(folder / "regions.csv")) == 20
    summary = rows(folder / "summary.csv")
    assert [row["system"] for row in summary][:2] == ["centralized", "centralized-regional"]
    assert {row["seeds"] for row in summary} == {"2"}
    pairs = rows(folder / "pairs.csv")
    for row in pairs:
        assert float(row["low"]) <= float(row["difference"]) <= float(row["high"])
    text = page.read_text()
    assert "published, other data: overall" in text
    assert "80.18" in text
    assert "answers to the paper" in text
    assert text.count("<svg") >= 4
    assert "http" not in text.replace("http://www.w3.org", "").replace("https://www.w3.org", "")


def test_a_damaged_cell_is_named(recipe: Path, tmp_path: Path) -> None:
    jobs = jobs_of(read_recipe(recipe), "smoke", origin="")
    path = cell_path(tmp_path, jobs[0])
    path.parent.mkdir()
    path.write_text("{}")
    with watching() as watcher, pytest.raises(StateError, match="delete it"):
        run_jobs(jobs, tmp_path, workers=1, watcher=watcher)


def test_only_one_benchmark_writes_to_a_folder(recipe: Path, tmp_path: Path) -> None:
    import fcntl

    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with watching() as watcher, pytest.raises(StateError, match="another benchmark"):
            run_jobs([], tmp_path, workers=1, watcher=watcher)


def of_group(group: int) -> set[int]:
    """Processes of a process group that are not zombies."""
    found = set()
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, own, *_ = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(own) == group and state != "Z":
            found.add(int(place.parent.name))
    return found


@pytest.mark.slow
def test_a_killed_benchmark_goes_on_where_it_stopped(recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    command = [
        sys.executable,
        "-c",
        "from regionfed.cli.main import main; main()",
        "bench",
        str(recipe),
        "--jobs",
        "1",
        "--out",
        str(folder),
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    deadline = time.monotonic() + 120
    while not list((folder / "cells").glob("*.json")):
        assert time.monotonic() < deadline, "no cell within two minutes"
        time.sleep(0.05)
    workers = of_group(process.pid) - {process.pid}
    assert workers
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while of_group(process.pid):
        assert time.monotonic() < deadline, "workers outlived the benchmark"
        time.sleep(0.1)
    before = {p: p.stat().st_mtime_ns for p in (folder / "cells").glob("*.json")}
    assert 0 < len(before) < 10
    done = subprocess.run(
        [*command, "--json"], env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    after = {p: p.stat().st_mtime_ns for p in (folder / "cells").glob("*.json")}
    assert len(after) == 10
    assert {path: after[path] for path in before} == before
    assert set(json.loads(done.stdout)["settings"]["main"]["systems"]) == {
        "centralized",
        "centralized-regional",
        "fedavg",
        "regionfed-grad",
        "regionfed-residual",
    }
    assert (folder / "report.html").exists()


@pytest.mark.slow
def test_a_failing_cell_does_not_stop_the_others(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    text = RECIPE.replace("[size.smoke]\n", "[size.smoke]\nsystems = ['fedavg', 'fedbabu']\n")
    recipe.write_text(
        text.replace("seeds = [1, 2]", "seeds = [1]").replace(
            "linear_words:build", "linear_words:build_headless"
        )
    )
    with pytest.raises(RunFailed, match=r"1 of 2 cells failed.*head"):
        run_bench(recipe, size="smoke", out=tmp_path / "out", workers=1, as_json=False)
    assert len(list((tmp_path / "out" / "cells").glob("*.json"))) == 1
