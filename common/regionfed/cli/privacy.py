"""`regionfed privacy`: epsilon, noise, plan, ledger, audit. Each can answer in JSON."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

import typer

from regionfed.cli.ledger import ledger
from regionfed.cli.options import Json
from regionfed.cli.shown import show
from regionfed.cli.sign import sign
from regionfed.errors import PrivacyError, RegionFedError
from regionfed.privacy import accountant, budget, gdp, paper
from regionfed.privacy.audit import AuditReport
from regionfed.privacy.audit import audit as run_audit
from regionfed.privacy.conflict_gate import conflict_gate
from regionfed.privacy.matrix_factorisation import CorrelatedNoise
from regionfed.privacy.modes import Mode, parse_mode
from regionfed.privacy.planning import BANDS
from regionfed.privacy.planning import plan as make_plan
from regionfed.privacy.release_pipeline import release_pipeline

app = typer.Typer(
    name="privacy",
    help="What a privacy budget buys, what a run has spent, and whether it is true.",
    no_args_is_help=True,
)
app.command()(sign)
app.command()(ledger)

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
    show(values, lines, as_json)


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
    show(values, lines, as_json)


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
    show(dataclasses.asdict(result) | {"conflict": dataclasses.asdict(gate)}, lines, as_json)


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
    show(
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
