"""`regionfed privacy`: epsilon, noise, plan, ledger, audit. Each can answer in JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regionfed.cli.sign import sign
from regionfed.errors import ConfigError, PrivacyError, RegionFedError, StateError
from regionfed.privacy import accountant, budget, gdp, paper
from regionfed.privacy.accountant import Cost
from regionfed.privacy.audit import AuditReport
from regionfed.privacy.audit import audit as run_audit
from regionfed.privacy.conflict_gate import conflict_gate
from regionfed.privacy.ledger_sqlite import LEDGER_SUFFIX, SqliteLedger
from regionfed.privacy.matrix_factorisation import CorrelatedNoise
from regionfed.privacy.modes import Mode, parse_mode
from regionfed.privacy.planning import BANDS
from regionfed.privacy.planning import plan as make_plan
from regionfed.privacy.release_pipeline import release_pipeline
from regionfed.privacy.system import system_epsilon

app = typer.Typer(
    name="privacy",
    help="What a privacy budget buys, what a run has spent, and whether it is true.",
    no_args_is_help=True,
)
app.command()(sign)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Delta = Annotated[float, typer.Option(help="delta of (epsilon, delta)-DP.")]
Rounds = Annotated[int, typer.Option(help="Rounds of the run.")]
Rate = Annotated[
    float, typer.Option(help="Secret Poisson sampling rate per round; 1 is no sampling.")
]
Participations = Annotated[
    int | None,
    typer.Option(help="Rounds one client takes part in at most; then nothing is amplified."),
]


class AuditFailed(PrivacyError):
    """The audit found that the release is less private than is accounted."""


def _show(values: dict[str, Any], lines: list[str], as_json: bool) -> None:
    typer.echo(json.dumps(_plain(values), indent=2) if as_json else "\n".join(lines))


def _plain(value: Any) -> Any:
    """JSON has no infinity; say it in a word."""
    if isinstance(value, float) and not math.isfinite(value):
        return "infinite"
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _assumption(sample_rate: float, participations: int | None) -> str:
    if participations is not None:
        return (
            f"no amplification, a client takes part in at most {participations} rounds; "
            "holds against the coordinator"
        )
    if sample_rate < 1.0:
        return (
            f"secret Poisson sampling at rate {sample_rate:g}; does not hold against a coordinator "
            "that sees who took part"
        )
    return "no amplification, a client takes part in every round; holds against the coordinator"


@app.command()
def epsilon(
    noise_multiplier: Annotated[float, typer.Option(help="Noise over sensitivity, sigma.")],
    rounds: Rounds = budget.DEFAULT_ROUNDS,
    sample_rate: Rate = 1.0,
    delta: Delta = budget.DEFAULT_DELTA,
    participations: Participations = None,
    as_json: Json = False,
) -> None:
    """Epsilon of a noise multiplier, by PLD and RDP, with the paper's formula beside it."""
    figures = {
        name: accountant.epsilon(
            noise_multiplier=noise_multiplier,
            sample_rate=sample_rate,
            rounds=rounds,
            delta=delta,
            participations=participations,
            accountant=name,
        )
        for name in ("pld", "rdp")
    }
    printed = paper.paper_formula(
        noise_multiplier=noise_multiplier, sample_rate=sample_rate, rounds=rounds, delta=delta
    )
    assumption = _assumption(sample_rate, participations)
    values = {
        "noise_multiplier": noise_multiplier,
        "sample_rate": sample_rate,
        "rounds": rounds,
        "delta": delta,
        "participations": participations,
        "assumption": assumption,
        "pld": round(figures["pld"], 4),
        "rdp": round(figures["rdp"], 4),
        "paper_formula": round(printed, 4),
        "paper_formula_label": paper.PAPER_LABEL,
    }
    lines = [
        f"epsilon at delta {delta:g} ({assumption}):",
        f"  PLD  {figures['pld']:.4f}",
        f"  RDP  {figures['rdp']:.4f}",
        f"  for comparison {printed:.4f}: {paper.PAPER_LABEL}",
    ]
    _show(values, lines, as_json)


@app.command()
def noise(
    epsilon: Annotated[float, typer.Option(help="The budget.")] = budget.DEFAULT_EPSILON,
    rounds: Rounds = budget.DEFAULT_ROUNDS,
    sample_rate: Rate = 1.0,
    delta: Delta = budget.DEFAULT_DELTA,
    participations: Participations = None,
    as_json: Json = False,
) -> None:
    """The smallest noise multiplier that keeps one release per round within a budget."""
    multiplier = accountant.noise_for_budget(
        epsilon=epsilon,
        delta=delta,
        sample_rate=sample_rate,
        rounds=rounds,
        participations=participations,
    )
    assumption = _assumption(sample_rate, participations)
    values = {
        "epsilon": epsilon,
        "delta": delta,
        "rounds": rounds,
        "sample_rate": sample_rate,
        "participations": participations,
        "assumption": assumption,
        "noise_multiplier": round(multiplier, 4),
        "mu": round(gdp.epsilon_to_mu(epsilon, delta), 5),
    }
    lines = [f"noise multiplier {multiplier:.4f} for epsilon {epsilon:g} ({assumption})"]
    _show(values, lines, as_json)


@app.command()
def plan(
    dimension: Annotated[int, typer.Option(help="Trained parameters, d.")],
    clients_per_round: Annotated[int, typer.Option(help="Clients per region and round, n.")],
    rounds: Rounds = budget.DEFAULT_ROUNDS,
    epsilon: Annotated[float, typer.Option(help="The budget.")] = budget.DEFAULT_EPSILON,
    delta: Delta = budget.DEFAULT_DELTA,
    participations: Annotated[
        int, typer.Option(help="Rounds one client takes part in at most.")
    ] = budget.DEFAULT_PARTICIPATIONS,
    clients: Annotated[int | None, typer.Option(help="Clients enrolled in the region.")] = None,
    unused: Annotated[
        list[str] | None,
        typer.Option(help="A release that this run does not make; training gets its share."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Split a budget over the releases and say whether training under it is useful."""
    result = make_plan(
        dimension=dimension,
        clients_per_round=clients_per_round,
        rounds=rounds,
        epsilon=epsilon,
        delta=delta,
        participations=participations,
        clients=clients,
        unused=unused or (),
    )
    gate = conflict_gate(clients_per_region=clients_per_round, private=True)
    lines = [
        result.verdict,
        f"  noise-to-signal of one round {result.ratio_one_round:.3g}, of {result.rounds} rounds "
        f"{result.ratio:.3g} (useful up to 0.3, nearly lossless up to 0.1)",
        f"  clients per region and round: {result.clients_for_useful:,} to be useful, "
        f"{result.clients_for_nearly_lossless:,} to be nearly lossless",
        f"  conflict: {gate.reason}",
        f"budget epsilon {epsilon:g}, delta {delta:g}:",
    ]
    lines += [
        f"  {item.release:<18} {item.uses} use(s)  {item.share:4.0%}  "
        f"noise multiplier {item.noise_multiplier:.4f}"
        for item in result.allocations
    ]
    if result.proposals:
        lines.append("what would change the verdict:")
    lines += [
        f"  {'useful' if item.helps else 'not enough alone'}: {item.change} (R_T {item.ratio:.3g})"
        for item in result.proposals
    ]
    _show(dataclasses.asdict(result) | {"conflict": dataclasses.asdict(gate)}, lines, as_json)


@app.command()
def ledger(
    paths: Annotated[list[Path], typer.Argument(help="Ledger files, or folders of a run.")],
    head: Annotated[
        str | None, typer.Option(help="The head a report recorded; must be in the chain.")
    ] = None,
    moved: Annotated[
        list[str] | None,
        typer.Option(help="Regions, comma-separated, that one client was in; their costs add."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify the hash chains of a run's ledgers and account what they hold."""
    files = _ledger_files(paths)
    if head is not None and len(files) != 1:
        raise ConfigError(f"--head belongs to one ledger, but {len(files)} were given")
    regions: dict[str, Any] = {}
    costs: dict[str, Cost] = {}
    delta = 0.0
    for path in files:
        account = SqliteLedger.existing(path)
        try:
            region = account.terms.region
            if region in costs:
                raise ConfigError(f"two ledgers are of region {region}; give each region once")
            regions[region] = _account(account, head)
            costs[region] = account.total_cost()
            delta = max(delta, account.terms.delta)
        finally:
            account.close()
    system = system_epsilon(
        costs, delta=delta, moved=[tuple(group.split(",")) for group in moved or ()]
    )
    lines = []
    for region, values in regions.items():
        lines += _ledger_lines(region, values)
    lines.append(
        f"system: epsilon {system.epsilon:.4f} at delta {delta:g} ({' + '.join(system.regions)})"
    )
    values = {"regions": regions, "system": dataclasses.asdict(system) | {"delta": delta}}
    _show(values, lines, as_json)


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


@app.command()
def audit(
    noise_multiplier: Annotated[float, typer.Option(help="sigma.")] = 4.0,
    clip_norm: Annotated[float, typer.Option(help="C.")] = 1.0,
    mode: Annotated[str, typer.Option(help="client, client-mf or client-strict.")] = "client",
    dimension: Annotated[int, typer.Option(help="Length of the canaries.")] = 20_000,
    canaries: Annotated[int, typer.Option(help="Canary clients.")] = 500,
    held_out: Annotated[int, typer.Option(help="Held-out directions.")] = 6_400,
    delta: Delta = budget.DEFAULT_DELTA,
    as_json: Json = False,
) -> None:
    """Drive the real clip, encoding, sum and noise with canaries; fail if theory is not met."""
    chosen = parse_mode(mode)
    correlated = None
    one_release = noise_multiplier
    if chosen is Mode.CLIENT_MF:
        generator = CorrelatedNoise(
            dimension=dimension, bands=BANDS, noise_multiplier=noise_multiplier, clip_norm=clip_norm
        )
        correlated = generator.next
        # A first release alone carries only fresh noise, which is larger than sigma*C.
        one_release = generator.innovation_std / clip_norm
    report = run_audit(
        release_pipeline(
            chosen,
            dimension=dimension,
            noise_multiplier=noise_multiplier,
            clip_norm=clip_norm,
            expected_cohort=canaries,
            correlated=correlated,
        ),
        noise_multiplier=one_release,
        clip_norm=clip_norm,
        expected_cohort=canaries,
        dimension=dimension,
        canaries=canaries,
        held_out=held_out,
        delta=delta,
        correlated_noise=chosen is Mode.CLIENT_MF,
    )
    _show(
        dataclasses.asdict(report) | {"mode": str(chosen), "passed": report.passed},
        _audit_lines(report),
        as_json,
    )
    if not report.passed:
        raise AuditFailed("the audit failed: " + "; ".join(report.findings))


def _audit_lines(report: AuditReport) -> list[str]:
    return [
        f"one release, sigma {report.noise_multiplier:g}, delta {report.delta:g}:",
        f"  epsilon measured {report.measured_epsilon:.3f} (at least {report.lower_epsilon:.3f}, "
        f"99%), theory {report.theory_epsilon:.3f}",
        f"  held-out deviation {report.held_out_ratio:.3f} of what is asked for, correlation of "
        f"two releases {report.correlation:.3f}",
        "passed" if report.passed else "failed",
    ]


def main() -> None:
    """Run the commands on their own; a RegionFedError ends them with its exit code."""
    try:
        app()
    except RegionFedError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
