"""`regionfed privacy ledger`: the accounts of regions, and of the clients' own examples."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from regionfed.cli.options import Json
from regionfed.cli.shown import show
from regionfed.errors import ConfigError, StateError
from regionfed.privacy import accountant
from regionfed.privacy.accountant import Cost
from regionfed.privacy.events import Unit
from regionfed.privacy.example_ledger import example_spent
from regionfed.privacy.ledger_sqlite import LEDGER_SUFFIX, SqliteLedger
from regionfed.privacy.system import system_epsilon

_SHOWN_CLIENTS = 5


def ledger(
    paths: Annotated[
        list[Path], typer.Argument(help="Ledger files, or folders of a run or of a device.")
    ],
    head: Annotated[
        str | None, typer.Option(help="The head a report recorded; must be in the chain.")
    ] = None,
    moved: Annotated[
        list[str] | None,
        typer.Option(help="Regions, comma-separated, that one client was in; their costs add."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify the hash chains of a run's ledgers and account what they hold.

    Ledgers of regions count clients; those that clients keep of their own examples (DP-SGD) are
    another unit and are shown apart.
    """
    files = _ledger_files(paths)
    if head is not None and len(files) != 1:
        raise ConfigError(f"--head belongs to one ledger, but {len(files)} were given")
    regions: dict[str, Any] = {}
    clients: dict[str, Any] = {}
    costs: dict[str, Cost] = {}
    delta = 0.0
    for path in files:
        with closing(SqliteLedger.existing(path)) as account:
            owner = account.terms.region
            if owner in regions or owner in clients:
                kind = "client" if account.terms.unit is Unit.EXAMPLE else "region"
                raise ConfigError(f"two ledgers are of {kind} {owner}; give each once")
            if account.terms.unit is Unit.EXAMPLE:
                clients[owner] = _example_account(account, head)
                continue
            regions[owner] = _account(account, head)
            costs[owner] = account.total_cost()
            delta = max(delta, account.terms.delta)
    values: dict[str, Any] = {"regions": regions}
    lines = []
    for region, told in regions.items():
        lines += _ledger_lines(region, told)
    if regions:
        system = system_epsilon(
            costs, delta=delta, moved=[tuple(group.split(",")) for group in moved or ()]
        )
        values["system"] = dataclasses.asdict(system) | {"delta": delta}
        lines.append(
            f"system: epsilon {system.epsilon:.4f} at delta {delta:g} "
            f"({' + '.join(system.regions)})"
        )
    if clients:
        values["example_level"] = _examples(clients)
        lines += _example_lines(values["example_level"])
    show(values, lines, as_json)


def _ledger_files(paths: list[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        found = sorted(path.rglob(f"*{LEDGER_SUFFIX}")) if path.is_dir() else [path]
        if not found:
            raise StateError(f"no ledger (*{LEDGER_SUFFIX}) under {path}; was the run private?")
        files += found
    return files


def _account(account: SqliteLedger, head: str | None) -> dict[str, Any]:
    chain = account.verify(expected_head=head)
    terms = account.terms
    spent = account.spent()
    charges, releases = account.counts()
    by_release = {
        kind: {"epsilon_alone": cost.epsilon(terms.delta), "mu_squared": cost.mu_squared}
        for kind, cost in account.cost_by_release().items()
    }
    return {
        "ledger": account.name,
        "chain": "intact",
        "head": chain,
        "budget": terms.epsilon,
        "left": max(0.0, terms.epsilon - spent.eps_coordinator),
        "max_participations": terms.max_participations,
        "charges": charges,
        "releases": releases,
        "by_release": by_release,
        "example_level": accountant.example_level_epsilon(account.events(), delta=terms.delta),
        **dataclasses.asdict(spent),
    }


def _ledger_lines(region: str, values: dict[str, Any]) -> list[str]:
    lines = [
        f"region {region}: {values['ledger']}, hash chain intact, head {values['head'][:16]}",
        f"  {values['charges']} charges, {values['releases']} releases marked",
        f"  epsilon {values['eps_coordinator']:.4f} of {values['budget']:g} spent per "
        f"{values['unit']} (delta {values['delta']:g}), {values['left']:.4f} left",
        f"  PLD {values['eps_pld']:.4f}, RDP {values['eps_rdp']:.4f}; outside the region "
        f"{values['eps_external']:.4f} ({values['external_reason']})",
    ]
    lines += [
        f"    {kind:<20} alone epsilon {item['epsilon_alone']:.4f}"
        for kind, item in values["by_release"].items()
    ]
    if values["example_level"]:
        worst = max(values["example_level"].values())
        lines.append(f"  one example of a client, its own unit: epsilon {worst:.4f} at most")
    return lines


def _example_account(account: SqliteLedger, head: str | None) -> dict[str, Any]:
    chain = account.verify(expected_head=head)
    spent = example_spent(account)
    charges, releases = account.counts()
    return {
        "ledger": account.name,
        "chain": "intact",
        "head": chain,
        "budget": account.terms.epsilon,
        "delta": account.terms.delta,
        "epsilon": spent.eps_pld,
        "eps_rdp": spent.eps_rdp,
        "left": max(0.0, account.terms.epsilon - spent.eps_pld),
        "charges": charges,
        "releases": releases,
    }


def _examples(clients: dict[str, Any]) -> dict[str, Any]:
    """The most exposed example; clients' examples are disjoint, so nothing is added up."""
    worst = max(clients, key=lambda name: float(clients[name]["epsilon"]))
    return {
        "unit": "one training example of one client",
        "epsilon": clients[worst]["epsilon"],
        "delta": clients[worst]["delta"],
        "client": worst,
        "clients": clients,
    }


def _example_lines(values: dict[str, Any]) -> list[str]:
    clients = values["clients"]
    lines = [
        f"one training example of a client (DP-SGD), another unit than a client and never added "
        f"to it: epsilon {values['epsilon']:.4f} at delta {values['delta']:g}, the largest of "
        f"{len(clients)} clients"
    ]
    dearest = sorted(clients, key=lambda name: -float(clients[name]["epsilon"]))
    for name in dearest[:_SHOWN_CLIENTS]:
        one = clients[name]
        lines.append(
            f"  client {name}: epsilon {one['epsilon']:.4f} of {one['budget']:g}, "
            f"{one['left']:.4f} left, RDP {one['eps_rdp']:.4f}; {one['charges']} charges, "
            f"{one['releases']} releases marked, hash chain intact, head {one['head'][:16]}"
        )
    if len(dearest) > _SHOWN_CLIENTS:
        lines.append(f"  and {len(dearest) - _SHOWN_CLIENTS} more (--json has them all)")
    return lines
