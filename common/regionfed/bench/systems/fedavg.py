"""FedAvg and its region-aware form."""

from __future__ import annotations

from typing import ClassVar

from regionfed.bench.systems.base import Averaging


class FedAvg(Averaging):
    """One model, the mean of all clients' updates weighted by examples.

    As published, with one difference that all systems share: each region contributes a cohort of
    its own, and the global mean is taken over regional means.
    """

    name: ClassVar[str] = "fedavg"
    label: ClassVar[str] = "FedAvg"
    paper: ClassVar[str] = (
        "McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized "
        "Data, AISTATS 2017"
    )


class RegionAware(Averaging):
    """FedAvg with equal weights: of the clients in a region, and of the regions.

    Nothing else is regional about it. Where all clients have equally many rows it is FedAvg.
    """

    name: ClassVar[str] = "region-aware"
    label: ClassVar[str] = "Region-aware FedAvg"
    paper: ClassVar[str] = "the RegionFed paper's baseline (arXiv 2609.05403)"
    equal_regions: ClassVar[bool] = True


class MarkedFedAvg(FedAvg):
    """FedAvg whose inputs carry the region's token: what knowing the region gives a global model.

    Not a published system; it separates the token from centralisation.
    """

    name: ClassVar[str] = "fedavg-token"
    label: ClassVar[str] = "FedAvg with a region token"
    paper: ClassVar[str] = "ours"
    needs_marks: ClassVar[bool] = True
