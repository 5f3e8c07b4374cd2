"""What a run promises, from its configuration and the charges that its regions reported."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from regionfed.config.federation import FederationConfig
from regionfed.errors import RegionFedError
from regionfed.run.records import PrivacyRecord
from regionfed.run.result import ExampleLevelResult, PrivacyResult, RegionPrivacy, Topology

PRIVACY_WORDS: Mapping[str, str] = {
    "off": "No differential privacy: updates are not noised, and nothing bounds what a trained "
    "model reveals about a client.",
    "client": "Client-level differential privacy: each client clips its update, and the "
    "coordinator noises the sum. {seen}",
    "client-mf": "Client-level differential privacy with correlated noise: each client clips its "
    "update, and the coordinator noises the sums of all rounds jointly. {seen}",
    "client-strict": "Client-level differential privacy with distributed noise: each client adds "
    "its share of the noise, so that the coordinator never sees an un-noised sum.",
    "paper": "The published mechanism: the regional mean is clipped and noised. This protects a "
    "region's release, not one client, and un-noised queries void it.",
}

_MASKED = "The coordinator sees the un-noised sum and nothing finer."
_OPEN = (
    "Secure aggregation is off, so the coordinator sees each client's clipped update; the promise "
    "holds against everybody else."
)


_ROWS_ONLY = (
    "No client-level differential privacy: clients train by DP-SGD, which bounds what their "
    "updates reveal about one of their training rows, and nothing bounds what a trained model "
    "reveals about a client as a whole."
)


def words(config: FederationConfig) -> str:
    """The promise of the configured mode in words."""
    if config.privacy.mode == "off" and config.privacy.example_level:
        return _ROWS_ONLY
    masked = config.privacy.secure_aggregation.enabled
    return PRIVACY_WORDS[config.privacy.mode].format(seen=_MASKED if masked else _OPEN)


def promise(
    config: FederationConfig,
    charges: Sequence[PrivacyRecord],
    *,
    topology: Topology,
    parameters: int,
    notes: Sequence[str] = (),
    devices: Path | None = None,
) -> PrivacyResult:
    """The promise as configured, with what the recorded charges add up to.

    `devices` holds the REGION/CLIENT folders of the clients, where they are on this host; their
    own ledgers are then read.
    """
    section = config.privacy
    regions: dict[str, RegionPrivacy] = {}
    for charge in charges:
        before = regions.get(charge.region)
        releases = dict(before.releases) if before else {}
        releases[charge.release] = releases.get(charge.release, 0) + 1
        regions[charge.region] = RegionPrivacy(
            epsilon=max(charge.epsilon, before.epsilon if before else 0.0),
            epsilon_external=_larger(charge.epsilon_external, before),
            releases=releases,
        )
    private = section.mode != "off"
    return PrivacyResult(
        mode=section.mode,
        statement=words(config),
        epsilon=max((region.epsilon for region in regions.values()), default=None),
        delta=section.budget.delta if private else None,
        budget=section.budget.epsilon if private and section.mode != "paper" else None,
        secure_aggregation=section.secure_aggregation.enabled,
        regions=regions,
        example_level=_example_level(config, devices),
        feasibility=feasibility(config, topology=topology, parameters=parameters),
        paper=_printed(config, charges, topology),
        notes=tuple(notes),
    )


def _larger(given: float | None, before: RegionPrivacy | None) -> float | None:
    known = [v for v in (given, before.epsilon_external if before else None) if v is not None]
    return max(known, default=None)


def _example_level(config: FederationConfig, devices: Path | None) -> ExampleLevelResult | None:
    """What the clients' own ledgers say of one example; None where clients do not train so."""
    section = config.privacy
    if not section.example_level:
        return None
    from regionfed.privacy.example_ledger import example_ledgers, example_spending

    example = section.example
    paths = example_ledgers(devices) if devices is not None else []
    found = example_spending(paths) if paths else None
    statement = (
        "Clients train by DP-SGD: one training row of a client is hidden at epsilon "
        f"{example.epsilon:g} or less, delta {example.delta:g}, against everybody; each client "
        "keeps its own ledger and stops. This is another unit than a client, and the two "
        "epsilons are never added. Validation and test rows are not part of it"
    )
    if section.mode == "off":
        statement += (
            ": scores and losses on them leave without noise; sizes, labels and training losses "
            "do not leave"
        )
        if config.client.user.enabled:
            statement += ", nor does anything about the user's own part"
    return ExampleLevelResult(
        statement=f"{statement}.",
        epsilon=found.epsilon if found else None,
        delta=example.delta,
        budget=example.epsilon,
        noise_multiplier=example.noise_multiplier,
        clipping_norm=example.clipping_norm,
        clients=found.clients if found else 0,
        charges=found.charges if found else 0,
    )


def feasibility(config: FederationConfig, *, topology: Topology, parameters: int) -> str:
    """Whether a private run can learn, and what would help; empty where nothing is noised."""
    sizes = [len(clients) for clients in topology.regions.values()]
    if config.privacy.mode in ("off", "paper") or not sizes or parameters < 1:
        return ""
    # Imported here: planning is not needed for runs without privacy.
    from regionfed.privacy.planning import plan
    from regionfed.privacy.quantities import Quantity
    from regionfed.privacy.terms import RegionTerms

    fewest = min(sizes)
    budget = config.privacy.budget
    try:
        terms = RegionTerms(config=config, dimension=parameters, clients=fewest)
        judged = plan(
            dimension=parameters,
            clients_per_round=terms.cohort,
            rounds=config.run.rounds,
            epsilon=budget.epsilon,
            delta=budget.delta,
            participations=budget.max_participations,
            clients=fewest,
            noise_multiplier=terms.multiplier(Quantity.UPDATE),
        )
    except RegionFedError as error:
        return f"not judged: {error}"
    helps = [proposal.change for proposal in judged.proposals if proposal.helps]
    advice = f"; what would help: {'; or '.join(helps)}" if helps else ""
    return f"{judged.verdict}{advice}"


def _printed(config: FederationConfig, charges: Sequence[PrivacyRecord], topology: Topology) -> str:
    """The paper's formula at these settings, beside the true figures of the regions."""
    trained = [c for c in charges if c.release in ("training-update", "regional-mean")]
    sizes = [len(clients) for clients in topology.regions.values()]
    if not trained or not sizes:
        return ""
    from regionfed.privacy.paper import PAPER_LABEL, paper_formula

    cohort = config.coordinator.cohort or min(sizes)
    value = paper_formula(
        noise_multiplier=trained[0].noise_multiplier,
        sample_rate=min(1.0, cohort / min(sizes)),
        rounds=max(c.round for c in trained),
        delta=config.privacy.budget.delta,
    )
    spent = max(c.epsilon for c in charges)
    true = "infinite" if math.isinf(spent) else f"{spent:.4g}"
    return f"{PAPER_LABEL}; it prints {value:.4g} where the ledgers have {true}"
