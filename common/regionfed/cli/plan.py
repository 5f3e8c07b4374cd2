"""`regionfed plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from regionfed.cli.options import ConfigPath, Json, Overrides, read_config

if TYPE_CHECKING:
    from rich.console import Console

    from regionfed.run.plan import RunPlan

app = typer.Typer(add_completion=False)


@app.command()
def plan(config: ConfigPath = None, overrides: Overrides = None, as_json: Json = False) -> None:
    """Check a configuration and print what a run would cost; nothing is trained."""
    from rich.console import Console

    from regionfed.run.plan import plan_run

    planned = plan_run(read_config(config, overrides))
    if as_json:
        typer.echo(planned.model_dump_json(indent=2))
    else:
        print_plan(planned, Console(highlight=False))


def print_plan(planned: RunPlan, console: Console) -> None:
    """The plan as tables."""
    from rich.table import Table

    from regionfed.units import amount

    clients = sum(planned.regions.values())
    facts = Table(title=f"plan of {planned.run}", show_header=False)
    for name, value in (
        ("topology", f"1 server, {len(planned.regions)} regions, {clients} clients"),
        ("regions", ", ".join(f"{name} ({n})" for name, n in planned.regions.items())),
        ("rounds", f"{planned.rounds}, clients per round and region: {planned.cohort}"),
        ("tasks", ", ".join(planned.tasks)),
        (
            "model",
            f"{planned.model}, {planned.parameters:,} trained parameters"
            + (f", {planned.frozen:,} frozen" if planned.frozen else ""),
        ),
        ("message", f"{amount(planned.message_bytes)} (layout {planned.layout[:12]})"),
        (
            "server - region",
            f"per region and round {amount(planned.region_down)} down, "
            f"{amount(planned.region_up)} up",
        ),
        ("regional part", f"{planned.strategy}, computed {planned.personalised}"),
        ("privacy", planned.privacy),
    ):
        facts.add_row(name, value)
    console.print(facts)

    costs = Table(title="per client in a round that personalises")
    for heading in ("strategy", "exchanges", "down", "up", "against FedAvg"):
        costs.add_column(heading, justify="left" if heading == "strategy" else "right")
    for cost in planned.strategies:
        costs.add_row(
            f"{cost.strategy}{' *' if cost.configured else ''}",
            str(cost.exchanges),
            amount(cost.down),
            amount(cost.up),
            f"{cost.relative:.2f}x",
            style="bold" if cost.configured else None,
        )
    console.print(costs)
    console.print("* configured, or what the configured router chooses from", style="dim")

    memory = Table(title="estimated peak memory per process, without batches")
    memory.add_column("process")
    memory.add_column("GB", justify="right")
    for process, size in planned.memory.items():
        memory.add_row(process, f"{size:.2f}")
    console.print(memory)
