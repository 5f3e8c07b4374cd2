"""What a client keeps in memory between messages: its rows, encoded once, and one model.

A deployed client handles each message in a fresh process and opens only what the message needs: a
step of secure aggregation without data loads neither rows nor a model. In the local engine all
clients of a process share one model, and each message writes its own vector into it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regionfed.config.federation import FederationConfig
from regionfed.data.types import ClientData
from regionfed.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regionfed.models.base import EncodedRows
    from regionfed_client.workbench import Workbench


@dataclass
class Shared:
    """What the clients of one configuration have in common in this process."""

    config: FederationConfig
    lock: threading.Lock = field(default_factory=threading.Lock)
    _bench: Workbench | None = None

    @property
    def opened(self) -> bool:
        """Whether data and model have been opened."""
        return self._bench is not None

    def bench(self) -> Workbench:
        """The workbench, opened once."""
        if self._bench is None:
            from regionfed_client.workbench import Workbench

            self._bench = Workbench.open(self.config)
        return self._bench


@dataclass
class ClientRuntime:
    """One client at the workbench of its process."""

    shared: Shared
    region: str
    client: str
    _rows: ClientData | None = None
    _encoded: dict[str, EncodedRows] = field(default_factory=dict)

    @property
    def config(self) -> FederationConfig:
        """The configuration of this process."""
        return self.shared.config

    @property
    def bench(self) -> Workbench:
        """Model and data source, opened when first needed."""
        return self.shared.bench()

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


_shared: dict[str, Shared] = {}
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
        shared = _shared.setdefault(key, Shared(config))
        runtime = _clients.setdefault((key, region, client), ClientRuntime(shared, region, client))
    with shared.lock:
        yield runtime


def release_runtimes() -> None:
    """Forget all models and rows of this process."""
    with _guard:
        _shared.clear()
        _clients.clear()
