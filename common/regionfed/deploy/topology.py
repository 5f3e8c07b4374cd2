"""Names of a federation's regions and clients, as deployment files need them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from regionfed.config.load import load_config
from regionfed.data.open import open_data
from regionfed.errors import ConfigError

_SERVICE_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
RESERVED = ("global", "run", "prometheus", "grafana")


@dataclass(frozen=True, slots=True)
class Topology:
    """Regions and their clients, and the overrides under which the file describes just these.

    `masked` says that clients have to be enrolled for secure aggregation.
    """

    regions: dict[str, tuple[str, ...]]
    overrides: dict[str, str] = field(default_factory=dict)
    masked: bool = False


def topology_of(config: Path, *, regions: int | None, clients: int | None) -> Topology:
    """The topology that the federation file describes, or one of the given size.

    A given size goes to every tier as an override of the file, so that all agree. Raises
    `ConfigError` for a name that cannot be the name of a service, and what reading the file raises.
    """
    overrides = {}
    if regions is not None:
        overrides["data.regions"] = str(regions)
    if clients is not None:
        overrides["data.clients_per_region"] = str(clients)
    loaded = load_config(config, environ={}, overrides=[f"{k}={v}" for k, v in overrides.items()])
    data = open_data(loaded.data, loaded.run.seed)
    names = {region: data.clients(region) for region in data.regions}
    for region, members in names.items():
        _check_name(region, what="region")
        if region in RESERVED:
            raise ConfigError(f"region {region!r}: the name is taken by a service; choose another")
        for client in members:
            _check_name(client, what=f"client of region {region}")
    return Topology(
        regions=names,
        overrides={
            f"REGIONFED__{key.upper().replace('.', '__')}": value
            for key, value in overrides.items()
        },
        masked=loaded.privacy.secure_aggregation.enabled,
    )


def _check_name(name: str, *, what: str) -> None:
    if not _SERVICE_NAME.fullmatch(name):
        raise ConfigError(
            f"{what} {name!r} cannot be the name of a service on a network; use at most 40 lower "
            "case letters, digits and '-', beginning and ending with a letter or digit"
        )
