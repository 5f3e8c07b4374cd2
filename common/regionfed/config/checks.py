"""Checks across sections: settings that are fine alone and wrong together."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from regionfed.config.federation import FederationConfig


@dataclass(frozen=True)
class Problem:
    """A key that does not go with another one."""

    key: str
    message: str


ADAPTIVE_COHORT = 100
"""Fewest clients for adaptive clipping (privacy section 4)."""


def check(config: FederationConfig) -> list[Problem]:
    """Everything that cannot work, empty when the configuration is consistent."""
    return [*_counts(config), *_privacy(config), *_participation(config), *_network(config)]


def _counts(config: FederationConfig) -> Iterator[Problem]:
    clients, regions = _clients(config), _regions(config)
    tier = config.coordinator
    if clients is not None:
        if tier.cohort > clients:
            yield Problem(
                "coordinator.cohort",
                f"coordinator.cohort = {tier.cohort} is more than data.clients_per_region = "
                f"{clients}; lower it, or set 0 for all",
            )
        if tier.quorum > clients:
            yield Problem(
                "coordinator.quorum",
                f"coordinator.quorum = {tier.quorum} is more than data.clients_per_region = "
                f"{clients}; no round could take place",
            )
    if tier.cohort and tier.quorum > tier.cohort:
        yield Problem(
            "coordinator.quorum",
            f"coordinator.quorum = {tier.quorum} is more than coordinator.cohort = {tier.cohort}; "
            "only the cohort is asked, so no round could take place",
        )
    if regions is not None and config.server.min_regions > regions:
        yield Problem(
            "server.min_regions",
            f"server.min_regions = {config.server.min_regions} is more than the {regions} regions "
            "of data.regions; no round could take place",
        )


def _privacy(config: FederationConfig) -> Iterator[Problem]:
    section, secure = config.privacy, config.privacy.secure_aggregation
    if section.mode == "off":
        if section.noise_multiplier is not None:
            yield Problem(
                "privacy.noise_multiplier",
                f"privacy.noise_multiplier = {section.noise_multiplier} has no effect with "
                "privacy.mode = 'off'; set mode = 'client', or remove noise_multiplier",
            )
    elif config.coordinator.client_weights != "equal":
        yield Problem(
            "coordinator.client_weights",
            f"coordinator.client_weights = '{config.coordinator.client_weights}' breaks the "
            f"promise of privacy.mode = '{section.mode}': one client's influence would depend on "
            "its size; set client_weights = 'equal'",
        )
    if section.mode == "client-strict" and not secure.enabled:
        yield Problem(
            "privacy.mode",
            "privacy.mode = 'client-strict' adds noise shares to masked updates and needs "
            "enabled = true in [privacy.secure_aggregation]",
        )
    if section.adaptive_clipping:
        if section.mode in ("off", "paper"):
            yield Problem(
                "privacy.adaptive_clipping",
                f"privacy.adaptive_clipping needs clients that clip; privacy.mode = "
                f"'{section.mode}' has none. Set it to false, or mode = 'client'",
            )
        asked = _asked(config)
        if asked is not None and asked < ADAPTIVE_COHORT:
            yield Problem(
                "privacy.adaptive_clipping",
                f"privacy.adaptive_clipping needs at least {ADAPTIVE_COHORT} clients per round "
                f"and region, but {asked} are asked; set it to false and choose clipping_norm",
            )
    asked = _asked(config)
    if secure.enabled and asked is not None and asked < secure.min_cohort:
        yield Problem(
            "privacy.secure_aggregation.enabled",
            f"secure aggregation needs at least {secure.min_cohort} clients per round and region, "
            f"but {asked} are asked; add clients, raise coordinator.cohort, or switch it off",
        )


def _participation(config: FederationConfig) -> Iterator[Problem]:
    """Whether the clients may take part as often as the rounds need them."""
    clients, asked = _clients(config), _asked(config)
    if config.privacy.mode in ("off", "paper") or clients is None or asked is None:
        return
    allowed = config.privacy.budget.max_participations
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


def _network(config: FederationConfig) -> Iterator[Problem]:
    if not config.network.tls and not _is_loopback(config.network.host):
        yield Problem(
            "network.tls",
            f"network.tls = false is only allowed on loopback, but network.host = "
            f"'{config.network.host}'; set tls = true, or host = '127.0.0.1'",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _clients(config: FederationConfig) -> int | None:
    """Clients of a region where the file says so; some sources bring their own number."""
    return config.data.clients_per_region


def _regions(config: FederationConfig) -> int | None:
    given = config.data.regions
    return len(given) if isinstance(given, list) else given


def _asked(config: FederationConfig) -> int | None:
    """Clients asked per round and region, where the file says so."""
    return config.coordinator.cohort or _clients(config)
