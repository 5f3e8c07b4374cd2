"""The model and the data source of a client's process: what is dear to open, and opened once."""

from __future__ import annotations

from dataclasses import dataclass

from regionfed.config.federation import FederationConfig
from regionfed.data.open import open_data
from regionfed.data.types import FederationData
from regionfed.messages import Vector
from regionfed.models.agreement import agreement_digest
from regionfed.models.base import FederatedModel
from regionfed.models.build import build_model
from regionfed.models.flat import FlatModel
from regionfed.training.device import resolve_device


@dataclass
class Workbench:
    """One model and the data source of this process, for as many clients as it serves."""

    config: FederationConfig
    data: FederationData
    model: FederatedModel
    flat: FlatModel
    layout: str
    initial: Vector | None = None
    """The model as it is made, (d,), where a method begins from it (Ditto)."""
    per_example_checked: bool = False

    @classmethod
    def open(cls, config: FederationConfig) -> Workbench:
        """Open the data and build the model that the configuration names."""
        data = open_data(config.data, config.run.seed)
        model = build_model(
            config.model, tasks=data.tasks, vocabulary=data.vocabulary, seed=config.run.seed
        )
        flat = FlatModel(model.module, resolve_device(config.training))
        return cls(
            config=config,
            data=data,
            model=model,
            flat=flat,
            layout=agreement_digest(
                flat.layout, config.model, tasks=data.tasks, vocabulary=data.vocabulary
            ),
            initial=flat.read() if config.method.strategy == "ditto" else None,
        )
