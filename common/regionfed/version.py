"""The versions on which two processes must agree before they talk."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version

__version__ = version("regionfed")

PROTOCOL = 1
"""Number of the bridge's wire format; raised with every change that an older peer cannot read."""


@dataclass(frozen=True)
class Versions:
    """What one process runs."""

    regionfed: str
    flwr: str
    protocol: int = PROTOCOL

    def mismatch(self, other: Versions, *, name: str) -> str:
        """Say in one sentence how `other`, called `name`, differs; empty when they agree.

        Patch releases of Flower agree with each other.
        """
        same = (
            self.regionfed == other.regionfed
            and self.protocol == other.protocol
            and self.flwr.split(".")[:2] == other.flwr.split(".")[:2]
        )
        if same:
            return ""
        return f"{name} runs {other}, this side runs {self}; install the same version on both"

    def __str__(self) -> str:
        return f"regionfed {self.regionfed} (protocol {self.protocol}) on flwr {self.flwr}"


def own_versions() -> Versions:
    """What this process runs."""
    return Versions(regionfed=__version__, flwr=version("flwr"))
