"""The report page of a benchmark: answers, tables beside the published figures, plots, environment."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from regionfed.bench import plots
from regionfed.bench.claims import answers, label
from regionfed.bench.published import SOURCE, TABLES, Published
from regionfed.bench.recipe import Recipe, SizeName, settings_of
from regionfed.bench.statistics import Interval
from regionfed.bench.systems import SYSTEMS
from regionfed.bench.tables import Results
from regionfed.run.files import write_atomically
from regionfed.run.versions import machine, versions
from regionfed.units import amount, duration

PAGE = "report.html"


@dataclass(frozen=True, kw_only=True)
class Block:
    """One section of the page; columns named in `numbers` are aligned to the right."""

    title: str
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    numbers: frozenset[str] = frozenset()
    plots: tuple[str, ...] = ()


def write_page(
    recipe: Recipe, size: SizeName, results: Results, *, folder: Path, failures: dict[str, str]
) -> Path:
    """Write `report.html`, which needs nothing beside itself."""
    environment = Environment(
        loader=PackageLoader("regionfed.bench", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    blocks = [
        block for setting in results.settings for block in _setting_blocks(recipe, results, setting)
    ]
    text = environment.get_template("page.html.j2").render(
        title=recipe.bench.title or recipe.bench.name,
        about=recipe.bench.about,
        subtitle=_subtitle(recipe, size, results),
        failures=failures,
        blocks=[*_sweep_blocks(recipe, size, results), *blocks, _environment(results)],
    )
    write_atomically(folder / PAGE, text.encode())
    return folder / PAGE


def _subtitle(recipe: Recipe, size: SizeName, results: Results) -> str:
    seeds = sorted({cell.seed for cell in results.cells})
    return (
        f"recipe {recipe.bench.name}, size {size}: {len(results.cells)} cells, seeds "
        f"{', '.join(map(str, seeds))}, scored on the {recipe.bench.split} rows"
    )


def _setting_blocks(recipe: Recipe, results: Results, setting: str) -> list[Block]:
    prefix = "" if setting == "main" else f"{setting}: "
    found = answers(results, setting=setting, rivals=recipe.bench.rivals)
    blocks: list[Block] = []
    if found:
        blocks.append(
            Block(
                title=f"{prefix}answers to the paper's claims",
                text="Computed from the runs below.",
                columns=("question", "answer", "figures"),
                rows=tuple((a.question, a.verdict, a.text) for a in found),
            )
        )
    blocks += [
        _main_table(recipe, results, setting, prefix=prefix),
        _cost_table(results, setting, prefix=prefix),
    ]
    charts = [
        plots.bars(results, setting),
        plots.convergence(results, setting),
        plots.region_map(results, setting),
        plots.alphas(results, setting),
    ]
    blocks.append(
        Block(
            title=f"{prefix}plots",
            text="Scores with 95% intervals over seeds; scores over the rounds (dashed: systems "
            "that only have an end); regions against systems; strength and conflict.",
            plots=tuple(chart for chart in charts if chart is not None),
        )
    )
    return blocks


def _main_table(recipe: Recipe, results: Results, setting: str, *, prefix: str) -> Block:
    printed = TABLES[recipe.bench.published]
    names = results.systems(setting)
    scored = {task for name in names for c in results.of(setting, name) for task in c.scores.tasks}
    tasks = [task for task in results.tasks() if task in scored]
    columns = ["system", "serves", "ours: overall", "ours: worst region", "ours: spread"]
    columns += [f"ours: {task}" for task in tasks]
    if printed:
        columns += ["published, other data: overall", "published, other data: worst region"]
    rows = []
    for name in names:
        cells = results.of(setting, name)
        row = [
            label(name),
            SYSTEMS[name].own_level,
            _mean(results.summary(setting, name)),
            _mean(results.summary(setting, name, "worst")),
            _mean(results.summary(setting, name, "spread")),
        ]
        for task in tasks:
            values = [cell.scores.tasks[task] for cell in cells if task in cell.scores.tasks]
            row.append(f"{100 * sum(values) / len(values):.1f}" if values else "")
        if printed:
            figure = printed.get(name, Published())
            row += [_printed(figure.overall), _printed(figure.worst)]
        rows.append(tuple(row))
    rows += reference_rows(recipe, columns, missing=set(results.tasks()) - scored)
    text = "Percent, mean and standard deviation over seeds. Each system serves one global model, "
    text += "one per region or one per client; all are scored on the same rows."
    if printed:
        text += f" The last columns are not ours: {SOURCE}; they are not comparable in level."
    return Block(
        title=f"{prefix}scores",
        text=text,
        columns=tuple(columns),
        rows=tuple(rows),
        numbers=frozenset(columns[2:]),
    )


def reference_rows(
    recipe: Recipe, columns: list[str], *, missing: set[str]
) -> list[tuple[str, ...]]:
    """What a system must exceed, each in the column of its task; not of tasks that are missing."""
    rows = []
    for name, value in recipe.references.items():
        task = name.partition(":")[0]
        if task in missing:
            continue
        own = f"ours: {task}"
        place = columns.index(own if own in columns else "ours: overall")
        row = [f"reference, {name}", *[""] * (len(columns) - 1)]
        row[place] = f"{value:.1f}"
        rows.append(tuple(row))
    return rows


def _cost_table(results: Results, setting: str, *, prefix: str) -> Block:
    columns = ("system", "bytes per client and round", "of FedAvg's", "exchanges", "seconds")
    base = 2.0 * 4.0
    rows = []
    for name in results.systems(setting):
        cells = results.of(setting, name)
        size = sum(cell.cost.bytes for cell in cells) / len(cells)
        rows.append(
            (
                label(name),
                amount(size),
                f"{size / (base * cells[0].parameters):.2f}",
                f"{sum(cell.cost.exchanges for cell in cells) / len(cells):.2f}",
                duration(sum(cell.seconds for cell in cells) / len(cells)),
            )
        )
    return Block(
        title=f"{prefix}cost",
        text="Between a coordinator and its clients, evaluation apart; what personalisation needs "
        "at the end is spread over the rounds. Seconds are of one cell on one core.",
        columns=columns,
        rows=tuple(rows),
        numbers=frozenset(columns[1:]),
    )


def _sweep_blocks(recipe: Recipe, size: SizeName, results: Results) -> list[Block]:
    charts: list[str] = []
    if recipe.sweep is not None:
        values = recipe.size[size].values or recipe.sweep.values
        names = [setting.name for setting in settings_of(recipe, size)]
        done = {
            name: value
            for name, value in zip(names, values, strict=True)
            if name in results.settings
        }
        charts.append(plots.sweep(results, done, axis=recipe.sweep.label or recipe.sweep.key))
    elif len(results.settings) > 1:
        charts.append(
            plots.sweep(results, {name: name for name in results.settings}, axis="setting")
        )
    private = plots.epsilons(results)
    blocks = [Block(title="over all settings", plots=tuple(charts))] if charts else []
    if private is not None:
        blocks.append(
            Block(
                title="privacy against accuracy",
                text="Dots: epsilon by the honest accountant, without amplification, for the client "
                "that took part most often. Crosses: the paper's printed formula for the same "
                "noise, which bounds nothing.",
                plots=(private,),
            )
        )
    return blocks


def _environment(results: Results) -> Block:
    rows: list[tuple[str, str]] = [(name, version) for name, version in versions().items()]
    rows += [(name, str(value)) for name, value in machine().items()]
    if results.cells:
        memory = max(cell.memory_mb for cell in results.cells)
        rows.append(("largest memory of a worker", f"{memory:.0f} MiB"))
        seconds = sum(cell.seconds for cell in results.cells)
        rows.append(("all cells together", duration(seconds)))
    return Block(title="environment", columns=("what", "value"), rows=tuple(rows))


def environment_json() -> bytes:
    """The environment as JSON, for `environment.json`."""
    found: dict[str, Any] = {"versions": versions(), "machine": machine()}
    return json.dumps(found, indent=2).encode() + b"\n"


def _mean(found: Interval) -> str:
    if math.isinf(found.low):
        return f"{100 * found.mean:.1f}"
    return f"{100 * found.mean:.1f} ± {100 * found.sd:.1f}"


def _printed(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
