"""How a diagnosis is made, and what forbids it."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field

from regionfed.config.base import Section
from regionfed.config.federation import FederationConfig
from regionfed.errors import ConfigError, PrivacyError
from regionfed.method.rivals import REMEMBERING

PHASE = "diagnose"
"""Kind of a region's job, and the action behind the message type of the global hop."""

GROUPS = "groups"
WIDTH = "sketch_width"
"""Keys of an order's shared scalars."""

SKETCH_ABOVE = 1 << 20
"""Updates longer than this travel as sketches of `SKETCH_WIDTH` numbers."""
SKETCH_WIDTH = 1 << 15
"""A squared distance between sketches is right within 1.1 percent (two standard deviations)."""


class DiagnosisSettings(Section):
    """Rounds and groups of one diagnosis; travels with the order, not in the federation file."""

    warmup: int = Field(
        default=6,
        ge=0,
        description="FedAvg rounds before measuring: at a randomly initialised model all "
        "gradients say the same, whatever the regions disagree on.",
    )
    rounds: int = Field(
        default=2, ge=1, description="Measuring rounds; the model does not move in them."
    )
    groups: int = Field(
        default=0, ge=0, description="Disjoint groups of clients per region; 0: by their number."
    )

    @classmethod
    def made(cls, **values: Any) -> Self:
        """Settings from the command line. Raises ConfigError naming the option."""
        for name, least in (("warmup", 0), ("rounds", 1), ("groups", 0)):
            if values[name] < least:
                raise ConfigError(f"--{name} {values[name]}: must be at least {least}")
        if values["groups"] == 1:
            raise ConfigError("--groups 1: chance shows between two or more disjoint groups")
        return cls.model_validate(values)

    @property
    def total(self) -> int:
        """All rounds."""
        return self.warmup + self.rounds


def require_diagnosable(config: FederationConfig) -> None:
    """Refuse where the configuration promises what a diagnosis would break.

    Raises:
        PrivacyError: a privacy mode, DP-SGD or secure aggregation is configured.
        ConfigError: devices keep a vector from round to round, which this would move.
    """
    strategy = config.method.strategy
    if strategy in REMEMBERING:
        raise ConfigError(
            f"method.strategy = '{strategy}' keeps a vector on each device, which a diagnosis "
            "would move; diagnose with --set method.strategy=none"
        )
    promised = []
    if config.privacy.mode != "off":
        promised.append(f"privacy.mode = '{config.privacy.mode}'")
    if config.privacy.example_level:
        promised.append("privacy.example_level = true")
    if config.privacy.secure_aggregation.enabled:
        promised.append("privacy.secure_aggregation.enabled = true")
    if promised:
        raise PrivacyError(
            f"{' and '.join(promised)}: a diagnosis sends the coordinator each client's update "
            "and the server means of small groups, neither with noise, and the budget would "
            "not know. Diagnose a federation whose clients agree to that, with --set "
            "privacy.mode=off (and secure aggregation and example_level off), or leave it out"
        )


def group_count(settings_groups: int, clients: int) -> int:
    """Groups of a region with so many clients: as asked, else pairs up to five groups.

    More groups show chance better, larger ones show less of any single client. Never more
    groups than clients, and 1 for a single client.
    """
    wanted = settings_groups or min(5, max(2, clients // 2))
    return min(wanted, clients)
