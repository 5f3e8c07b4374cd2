"""The whole federation file as one typed object."""

from __future__ import annotations

import hashlib
import json

from pydantic import Field

from regionfed.config.base import Section
from regionfed.config.client import ClientConfig
from regionfed.config.coordinator import CoordinatorConfig
from regionfed.config.network import NetworkConfig
from regionfed.config.run import RunConfig
from regionfed.config.server import ServerConfig
from regionfed.data.config import DataConfig
from regionfed.method.config import MethodConfig
from regionfed.method.rivals import ON_DEVICES
from regionfed.models.config import ModelConfig
from regionfed.privacy.config import PrivacyConfig
from regionfed.training.config import TrainingConfig

AGREED_SECTIONS = ("model", "training", "method", "privacy")
"""Sections on which all tiers must agree; their digest travels with every order."""


class FederationConfig(Section):
    """`federation.toml`. Each section is declared by the component that it configures."""

    run: RunConfig = Field(default_factory=RunConfig)
    data: DataConfig = Field(default_factory=DataConfig)
    model: ModelConfig = Field(default_factory=ModelConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    server: ServerConfig = Field(default_factory=ServerConfig)
    coordinator: CoordinatorConfig = Field(default_factory=CoordinatorConfig)
    client: ClientConfig = Field(default_factory=ClientConfig)
    method: MethodConfig = Field(default_factory=MethodConfig)
    privacy: PrivacyConfig = Field(default_factory=PrivacyConfig)
    network: NetworkConfig = Field(default_factory=NetworkConfig)

    @property
    def serves_users(self) -> bool:
        """Whether each device is to serve a model of its own after the last round."""
        return self.client.user.enabled or self.method.strategy in ON_DEVICES

    def digest(self) -> str:
        """SHA-256 (first 16 hex digits) of the sections on which all tiers must agree.

        Paths and devices that differ from host to host are left out.
        """
        agreed = self.model_dump(mode="json", include=set(AGREED_SECTIONS))
        for key in ("device", "threads", "memory_fraction"):
            agreed["training"].pop(key, None)
        text = json.dumps(agreed, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
