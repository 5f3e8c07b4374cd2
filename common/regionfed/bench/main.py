"""One benchmark from its recipe to its tables and report."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.console import Console

from regionfed.bench.claims import answers
from regionfed.bench.page import environment_json, write_page
from regionfed.bench.recipe import Recipe, SizeName, jobs_of, read_recipe
from regionfed.bench.runner import run_jobs
from regionfed.bench.show import print_tables, watching
from regionfed.bench.tables import Results, write_tables
from regionfed.errors import RunFailed
from regionfed.run.files import write_atomically


def run_bench(path: Path, *, size: SizeName, out: Path | None, workers: int, as_json: bool) -> None:
    """Run what is missing, then write tables and report.

    Raises `ConfigError` for the recipe, `RunFailed` after everything is written when cells failed.
    """
    recipe = read_recipe(path)
    jobs = jobs_of(recipe, size, origin=str(path))
    folder = out or Path("bench") / f"{recipe.bench.name}-{size}"
    typer.echo(f"{len(jobs)} cells in {folder}, {workers} worker processes", err=True)
    with watching() as watcher:
        outcome = run_jobs(jobs, folder, workers=workers, watcher=watcher)
    results = Results(outcome.results)
    write_atomically(folder / "recipe.toml", path.read_bytes())
    write_atomically(folder / "environment.json", environment_json())
    if results.cells:
        write_tables(results, folder)
        page = write_page(recipe, size, results, folder=folder, failures=outcome.failures)
        if as_json:
            typer.echo(json.dumps(_as_json(recipe, results, folder=folder), indent=2))
        else:
            print_tables(recipe, results, Console())
            typer.echo(f"report {page}")
    if outcome.failures:
        first = next(iter(outcome.failures.items()))
        raise RunFailed(
            f"{len(outcome.failures)} of {len(jobs)} cells failed, the first: {first[0]}: "
            f"{first[1]}. The same command runs only those again"
        )


def _as_json(recipe: Recipe, results: Results, *, folder: Path) -> dict[str, object]:
    return {
        "name": recipe.bench.name,
        "folder": str(folder),
        "settings": {
            setting: {
                "systems": {
                    name: {
                        measure: results.summary(setting, name, measure).model_dump(mode="json")
                        for measure in ("overall", "worst", "spread")
                    }
                    for name in results.systems(setting)
                },
                "answers": [
                    {"question": a.question, "verdict": a.verdict, "text": a.text}
                    for a in answers(results, setting=setting, rivals=recipe.bench.rivals)
                ],
            }
            for setting in results.settings
        },
    }
