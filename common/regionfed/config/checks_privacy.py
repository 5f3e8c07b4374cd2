"""Checks of `[privacy]` against the other sections: what a mode forbids, with what to set instead."""

from __future__ import annotations

from collections.abc import Iterator

from regionfed.config.federation import FederationConfig
from regionfed.config.problem import Problem

_CLIENT_MODES = ("client", "client-mf", "client-strict")
_PARTS = ("interp", "meta", "grad", "dynamic", "dynamic-paper")


def privacy_problems(config: FederationConfig, *, asked: int | None) -> Iterator[Problem]:
    """Everything about privacy that cannot work; `asked` are the clients per round and region."""
    yield from _mode(config)
    yield from _weights(config)
    yield from _adaptive(config)
    yield from _strategy(config)
    if config.privacy.example_level:
        yield from _example_level(config)
    secure = config.privacy.secure_aggregation
    if secure.enabled and asked is not None and asked < secure.min_cohort:
        yield Problem(
            "privacy.secure_aggregation.enabled",
            f"secure aggregation needs at least {secure.min_cohort} clients per round and region, "
            f"but {asked} are asked; add clients, raise coordinator.cohort, or switch it off",
        )


def participation_problems(
    config: FederationConfig, *, clients: int | None, asked: int | None
) -> Iterator[Problem]:
    """Whether the clients may take part as often as the rounds need them."""
    section = config.privacy
    if section.mode not in _CLIENT_MODES or clients is None or asked is None:
        return
    allowed = section.budget.max_participations
    if config.run.rounds * asked > allowed * clients:
        fits = max(allowed * clients // config.run.rounds, 0)
        advice = f"coordinator.cohort <= {fits}, " if fits else ""
        yield Problem(
            "privacy.budget.max_participations",
            f"{config.run.rounds} rounds that ask {asked} of {clients} clients need "
            f"{config.run.rounds * asked} participations per region, but "
            f"privacy.budget.max_participations = {allowed} allows {allowed * clients}; set "
            f"{advice}run.rounds <= {allowed * clients // asked}, or more participations",
        )
    apart = section.budget.min_separation
    if section.mode == "client-mf":
        apart = max(apart, section.bands)
    if config.run.rounds > 1 and asked <= clients and clients // asked < apart:
        fits = clients // apart
        advice = f"set coordinator.cohort <= {fits}" if fits else f"enrol {apart} clients or more"
        key = "privacy.bands" if section.mode == "client-mf" else "privacy.budget.min_separation"
        yield Problem(
            key,
            f"{key} lets clients return after {apart} rounds at the earliest, but asking {asked} of "
            f"{clients} each round brings them back after {clients // asked}; {advice}",
        )


def _mode(config: FederationConfig) -> Iterator[Problem]:
    section, secure = config.privacy, config.privacy.secure_aggregation
    if section.mode == "off" and section.noise_multiplier is not None:
        yield Problem(
            "privacy.noise_multiplier",
            f"privacy.noise_multiplier = {section.noise_multiplier} has no effect with "
            "privacy.mode = 'off'; set mode = 'client', or remove noise_multiplier",
        )
    if section.mode == "client-strict" and not secure.enabled:
        yield Problem(
            "privacy.mode",
            "privacy.mode = 'client-strict' adds noise shares to masked updates and needs "
            "enabled = true in [privacy.secure_aggregation]",
        )
    if section.mode == "paper" and secure.enabled:
        yield Problem(
            "privacy.secure_aggregation.enabled",
            "privacy.mode = 'paper' is the published mechanism, whose coordinator sees every "
            "update; set secure_aggregation.enabled = false, or mode = 'client'",
        )


def _weights(config: FederationConfig) -> Iterator[Problem]:
    section = config.privacy
    masked = section.secure_aggregation.enabled
    if section.mode == "off" and not masked:
        return
    promise = f"privacy.mode = '{section.mode}'" if section.mode != "off" else "secure aggregation"
    for key, value in (
        ("coordinator.client_weights", config.coordinator.client_weights),
        ("server.region_weights", config.server.region_weights),
    ):
        if value != "equal":
            yield Problem(
                key,
                f"{key} = '{value}' breaks the promise of {promise}: one client's influence would "
                f"depend on its size, which would have to be told; set "
                f"{key.rpartition('.')[2]} = 'equal'",
            )


def _adaptive(config: FederationConfig) -> Iterator[Problem]:
    section = config.privacy
    if not section.adaptive_clipping:
        return
    key = "privacy.adaptive_clipping"
    if section.mode == "client-mf":
        yield Problem(
            key,
            f"{key} = true changes C between rounds, and the correlated noise of mode 'client-mf' "
            "cancels over rounds of one C only; set it to false, or mode = 'client'",
        )
    elif section.mode not in _CLIENT_MODES:
        yield Problem(
            key,
            f"{key} = true follows the norms that clients clip at, and in privacy.mode = "
            f"'{section.mode}' they clip at none; set it to false, or mode = 'client'",
        )
    elif section.budget.clip_bit_share == 0:
        yield Problem(
            "privacy.budget.clip_bit_share",
            f"{key} = true asks every client for a bit, and privacy.budget.clip_bit_share = 0 "
            "leaves nothing to noise it with; set a share such as 0.01",
        )


def _strategy(config: FederationConfig) -> Iterator[Problem]:
    section, method = config.privacy, config.method
    if section.mode == "off":
        if section.secure_aggregation.enabled and method.strategy in (
            *("interp", "meta", "dynamic", "dynamic-paper"),
        ):
            yield Problem(
                "method.strategy",
                f"method.strategy = '{method.strategy}' asks clients for update-like answers and "
                "labels that no mask covers in privacy.mode = 'off'; set strategy = 'residual' or "
                "'grad', mode = 'client', or switch secure aggregation off",
            )
        return
    if section.mode not in _CLIENT_MODES:
        return
    if method.strategy == "dynamic-paper":
        for name in ("histogram_share", "size_share"):
            if getattr(section.budget, name) == 0:
                yield Problem(
                    f"privacy.budget.{name}",
                    "method.strategy = 'dynamic-paper' routes by label histograms and dataset "
                    f"sizes, and privacy.budget.{name} = 0 leaves nothing to noise them with; "
                    "set a share, or strategy = 'residual', 'grad' or 'dynamic'",
                )
    if method.personalise_every and method.strategy in _PARTS:
        yield Problem(
            "method.personalise_every",
            f"method.personalise_every = {method.personalise_every} would look at the clients' "
            f"data again and again; in privacy.mode = '{section.mode}' a part is found after the "
            "last round only: set 0",
        )


def _example_level(config: FederationConfig) -> Iterator[Problem]:
    """What would use training rows outside of DP-SGD, or what DP-SGD replaces."""
    strategy, training = config.method.strategy, config.training
    if config.privacy.mode == "paper":
        yield Problem(
            "privacy.example_level",
            "privacy.example_level = true does not go with mode = 'paper', which reproduces the "
            "published mechanism; set mode = 'client' or 'off', or example_level = false",
        )
    if strategy not in ("none", "residual", "grad"):
        yield Problem(
            "method.strategy",
            f"method.strategy = '{strategy}' looks, or may look, at the training rows "
            "without the noise of DP-SGD (privacy.example_level = true); set strategy = "
            "'residual', 'grad' or 'none', or example_level = false",
        )
    if config.privacy.mode == "off":
        for key, value in (
            ("coordinator.client_weights", config.coordinator.client_weights),
            ("server.region_weights", config.server.region_weights),
        ):
            if value != "equal":
                yield Problem(
                    key,
                    f"{key} = '{value}' needs the clients' numbers of rows, which do not leave "
                    "them with privacy.example_level = true; set it to 'equal'",
                )
    for key, wrong, fix in (
        ("training.precision", training.precision != "fp32", "set it to 'fp32'"),
        ("training.accumulation", training.accumulation > 1, "set it to 1 and raise batch_size"),
        (
            "training.clip_gradient",
            training.clip_gradient is not None,
            "remove it; privacy.example.clipping_norm bounds each row's gradient",
        ),
    ):
        if wrong:
            value = getattr(training, key.rpartition(".")[2])
            yield Problem(
                key,
                f"{key} = {value!r} does not go with the DP-SGD of privacy.example_level = true; "
                f"{fix}",
            )
