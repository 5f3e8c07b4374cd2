"""What a client keeps in memory between messages: its rows, encoded once, and one model.

A deployed client handles each message in a fresh process and builds this once. In the local
engine all clients of a process share one model, and each message writes its own vector into it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from regionfed.config.federation import FederationConfig
from regionfed.data.open import open_data
from regionfed.data.types import ClientData, FederationData
from regionfed.errors import ConfigError, DataError
from regionfed.messages import Vector
from regionfed.models.agreement import agreement_digest
from regionfed.models.base import EncodedRows, FederatedModel
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
    lock: threading.Lock = field(default_factory=threading.Lock)

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


@dataclass
class ClientRuntime:
    """One client at a workbench."""

    bench: Workbench
    region: str
    client: str
    _rows: ClientData | None = None
    _encoded: dict[str, EncodedRows] = field(default_factory=dict)

    @property
    def config(self) -> FederationConfig:
        """The configuration of this process."""
        return self.bench.config

    def rows(self) -> ClientData:
        """The client's own rows.

        Raises:
            DataError: the client's partition cannot be resolved or has no training rows.
        """
        if self._rows is None:
            rows = self.bench.data.load(self.region, self.client)
            if not rows.train:
                raise DataError(
                    f"client {self.client} of region {self.region} has no rows to train on"
                )
            self._rows = rows
        return self._rows

    def encoded(self, split: str) -> EncodedRows:
        """`train`, `validation` or `test` as model inputs, encoded once."""
        if split not in self._encoded:
            self._encoded[split] = self.bench.model.encode(getattr(self.rows(), split))
        return self._encoded[split]


_benches: dict[str, Workbench] = {}
_clients: dict[tuple[str, str, str], ClientRuntime] = {}
_guard = threading.Lock()


@contextmanager
def client_runtime(config: FederationConfig, node: dict[str, object]) -> Iterator[ClientRuntime]:
    """The runtime of the client that the node's configuration names, with the model locked.

    Raises:
        ConfigError: the node does not say which region and client it is.
    """
    region, client = str(node.get("region", "")), str(node.get("client", ""))
    if not region or not client:
        raise ConfigError(
            "this node does not say which client it is: start it with --node-config "
            '\'region="NAME" client="NAME"\''
        )
    key = config.model_dump_json()
    with _guard:
        if key not in _benches:
            _benches[key] = Workbench.open(config)
        bench = _benches[key]
        runtime = _clients.setdefault((key, region, client), ClientRuntime(bench, region, client))
    with bench.lock:
        yield runtime


def release_runtimes() -> None:
    """Forget all models and rows of this process."""
    with _guard:
        _benches.clear()
        _clients.clear()
