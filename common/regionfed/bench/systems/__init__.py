"""Every compared system by name, in the order of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from regionfed.bench.systems.apfl import Apfl
from regionfed.bench.systems.base import System
from regionfed.bench.systems.centralized import Centralized, CentralizedRegional
from regionfed.bench.systems.ditto import Ditto, DittoRegion
from regionfed.bench.systems.fedavg import FedAvg, MarkedFedAvg, RegionAware
from regionfed.bench.systems.fedbabu import FedBabu, FedBabuRegion
from regionfed.bench.systems.fedprox import FedProx
from regionfed.bench.systems.fedtp import FedTp
from regionfed.bench.systems.finetune import Finetune, FinetuneRegion
from regionfed.bench.systems.pfedme import PFedMe
from regionfed.bench.systems.regionfed import (
    RegionFedDynamic,
    RegionFedDynamicPaper,
    RegionFedGrad,
    RegionFedInterp,
    RegionFedMeta,
    RegionFedResidual,
)
from regionfed.bench.systems.scaffold import Scaffold

_ALL: tuple[type[System], ...] = (
    Centralized,
    CentralizedRegional,
    FedAvg,
    MarkedFedAvg,
    FedProx,
    RegionAware,
    Finetune,
    FinetuneRegion,
    FedBabu,
    FedBabuRegion,
    FedTp,
    Scaffold,
    PFedMe,
    Ditto,
    DittoRegion,
    Apfl,
    RegionFedGrad,
    RegionFedInterp,
    RegionFedMeta,
    RegionFedDynamicPaper,
    RegionFedDynamic,
    RegionFedResidual,
)

SYSTEMS: Mapping[str, type[System]] = MappingProxyType({system.name: system for system in _ALL})
"""The compared systems."""
