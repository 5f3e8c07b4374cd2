"""What the run itself needs: rows, a model that can be built, memory and disk for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from regionfed.checks.data import check_client_rows, check_model, check_region_name
from regionfed.checks.resources import MIB, check_disk, check_memory
from regionfed.checks.result import CheckResult
from regionfed.checks.target import Role, Target
from regionfed.config.federation import FederationConfig


@dataclass(frozen=True, slots=True)
class Appetite:
    """Memory and disk of a process: a base in MiB, and multiples of the model's vector."""

    memory_base: int
    memory_vectors: float
    disk_base: int
    disk_vectors: float


_APPETITES: dict[Role, Appetite] = {
    "superlink": Appetite(150, 5, 64, 8),
    "superexec": Appetite(500, 8, 64, 12),
    "coordinator": Appetite(80, 2, 64, 8),
    "uplink": Appetite(400, 4, 16, 0),
    "client": Appetite(500, 4, 64, 2),
    "submit": Appetite(150, 0, 16, 0),
}
"""Measured with a 240 MB model (architecture section 4), rounded up."""


def workload_checks(config: FederationConfig, target: Target) -> Iterator[CheckResult]:
    """What the run itself needs: rows, a model that can be built, memory and disk for it."""
    if target.client:
        yield check_client_rows(config, region=target.region, client=target.client)
    elif target.region:
        yield check_region_name(config, region=target.region)
    finding = check_model(config)
    yield finding.result
    if finding.summary is None:
        return
    vector, frozen = finding.summary.vector_bytes, finding.summary.frozen_bytes
    appetite = _APPETITES[target.role]
    holds_model = target.role in ("superexec", "client")
    memory = appetite.memory_base * MIB + int(appetite.memory_vectors * vector)
    yield check_memory(what="memory", need=memory + (frozen if holds_model else 0))
    if target.folder is not None:
        yield check_disk(
            target.folder,
            what="disk",
            need=appetite.disk_base * MIB + int(appetite.disk_vectors * vector),
        )
