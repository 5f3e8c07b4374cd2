"""Checks across sections: settings that are fine alone and wrong together."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from regionfed.config.checks_privacy import participation_problems, privacy_problems
from regionfed.config.checks_rivals import rival_problems
from regionfed.config.federation import FederationConfig
from regionfed.config.problem import Problem

__all__ = ["Problem", "check"]


def check(config: FederationConfig) -> list[Problem]:
    """Everything that cannot work, empty when the configuration is consistent."""
    clients, asked = _clients(config), _asked(config)
    return [
        *_counts(config),
        *privacy_problems(config, asked=asked),
        *participation_problems(config, clients=clients, asked=asked),
        *rival_problems(config),
        *_network(config),
    ]


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
