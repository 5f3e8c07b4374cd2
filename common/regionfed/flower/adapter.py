"""The one module that touches Flower's private parts. Written for flwr 1.39.

Public parts (`flwr.app`, `flwr.serverapp`, `flwr.clientapp`) are imported where they are used.
"""

from __future__ import annotations

import copy
import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.app import Message, UserConfigValue
from flwr.cli.build import build_fab_from_files
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    StreamLogsRequest,
    UnregisterNodeRequest,
)
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.run_pb2 import RunStatus
from flwr.supercore.constant import NOOP_FEDERATION_ID
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from regionfed.errors import IdentityError, RunFailed, TransportError

T = TypeVar("T")

LIVE = frozenset({"pending", "starting", "running"})
_COMPLETED = "completed"


def adopt_identity(*, run_id: int, node_id: int = 1, task_id: int = 1) -> None:
    """Give this process the identity that `Message(...)` needs outside a Flower process."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run_id, node_id, task_id


def node_info(node_id: int, name: str) -> NodeInfo:
    """Flower's record of a node, as `Grid.get_nodes` gives it."""
    return NodeInfo(node_id=node_id, name=name)


def empty_run(run_id: int) -> Run:
    """A run record that only has an id, for a grid without a SuperLink."""
    return Run.create_empty(run_id)


def set_message_id(message: Message, message_id: str) -> None:
    """Name a message, as a SuperLink does when it takes one in."""
    message.metadata.__dict__["_message_id"] = message_id


def detach_metadata(message: Message) -> None:
    """Give a shallow copy of a message its own metadata."""
    message.__dict__["_metadata"] = copy.copy(message.metadata)


def build_bundle(files: Mapping[str, bytes]) -> bytes:
    """Build a Flower app bundle from files by name. Raises RunFailed when Flower refuses them."""
    try:
        bundle: bytes = build_fab_from_files(dict(files))[0]
    except ValueError as error:
        raise RunFailed(f"Flower refuses the app bundle: {error}") from error
    return bundle


@dataclass(frozen=True)
class RunState:
    """What a SuperLink says of a run.

    `status` is pending, starting, running or finished; `outcome` of a finished run is completed,
    failed or stopped; `details` is Flower's reason.
    """

    run_id: int
    status: str
    outcome: str = ""
    details: str = ""

    @property
    def live(self) -> bool:
        """Whether the run goes on."""
        return self.status in LIVE

    @property
    def completed(self) -> bool:
        """Whether the run ended as it should."""
        return self.outcome == _COMPLETED

    def __str__(self) -> str:
        shown = f"{self.status}: {self.outcome}" if self.outcome else self.status
        return f"{shown} ({self.details})" if self.details else shown


@dataclass(frozen=True)
class NodeFacts:
    """What a SuperLink says of a node. `status` is registered, online or offline."""

    node_id: int
    name: str
    status: str
    public_key: bytes = b""


class Control:
    """A SuperLink's Control API: runs and nodes.

    Every call ends within 30 s. Raises TransportError, naming the address, when the SuperLink
    cannot be reached or refuses.

    Args:
        address: HOST:PORT of the SuperLink's HTTP API.
        ca: certificate of the CA that signed the SuperLink's; None is plain HTTP.
    """

    def __init__(self, address: str, *, ca: Path | None = None) -> None:
        self.address = address
        # It notes every request at INFO, and a run is looked at twice a second.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        try:
            roots = None if ca is None else ca.read_bytes()
        except OSError as error:
            raise IdentityError(f"cannot read the CA certificate {ca}: {error.strerror}") from error
        self._client = ControlHttpClient.from_server_address(
            server_address=address,
            insecure=roots is None,
            root_certificates=roots,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="regionfed")],
        )

    def start_run(self, bundle: bytes, settings: Mapping[str, UserConfigValue]) -> int:
        """Submit a bundle with overrides of its `[tool.flwr.app.config]`; return the run's id."""
        fab = Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})
        request = StartRunRequest(
            fab=fab_to_proto(fab),
            override_config=user_config_to_proto(dict(settings)),
            federation=NOOP_FEDERATION_ID,
        )
        run_id = int(self._call("start a run", lambda: self._client.StartRun(request)).run_id)
        if not run_id:
            raise RunFailed(f"the SuperLink at {self.address} did not take the run")
        return run_id

    def runs(self) -> list[RunState]:
        """All runs that the SuperLink knows, oldest first."""
        found = self._call("list runs", lambda: self._client.ListRuns(ListRunsRequest())).run_dict
        runs = sorted(found.values(), key=lambda run: run.pending_at)
        return [_run_state(run.run_id, run.status) for run in runs]

    def live_runs(self) -> list[int]:
        """Ids of the runs that go on, oldest first."""
        return [run.run_id for run in self.runs() if run.live]

    def run_state(self, run_id: int) -> RunState | None:
        """A run's state, or None when the SuperLink does not know it."""
        return next((run for run in self.runs() if run.run_id == run_id), None)

    def stop_run(self, run_id: int) -> bool:
        """Stop a run; whether the SuperLink did."""
        request = StopRunRequest(run_id=run_id)
        return bool(self._call("stop a run", lambda: self._client.StopRun(request)).success)

    def logs(self, run_id: int, *, since: float = 0.0) -> Iterator[str]:
        """What a run's ServerApp writes after `since` (Unix time) to its end, waiting in between.

        Flower takes the ServerApp's output away from its process, so this is the only way to it.
        """
        request = StreamLogsRequest(run_id=run_id, after_timestamp=since)
        stream = self._call("read a run's log", lambda: self._client.StreamLogs(request))
        while (reply := self._call("read a run's log", lambda: next(stream, None))) is not None:
            yield reply.log_output

    def nodes(self) -> list[NodeFacts]:
        """The registered nodes."""
        reply = self._call("list nodes", lambda: self._client.ListNodes(ListNodesRequest()))
        return [
            NodeFacts(node.node_id, node.name, node.status, bytes(node.public_key))
            for node in reply.nodes_info
        ]

    def register_node(self, public_key: Path, name: str) -> int:
        """Register a node's public key (OpenSSH, P-384) under a name; return the node's id.

        Raises IdentityError when the key cannot be read or is of another kind.
        """
        request = RegisterNodeRequest(public_key=read_public_key(public_key), name=name)
        reply = self._call(f"register node {name}", lambda: self._client.RegisterNode(request))
        return int(reply.node_id)

    def unregister_node(self, node_id: int) -> None:
        """Forget a node; it cannot join any more."""
        request = UnregisterNodeRequest(node_id=node_id)
        self._call("unregister a node", lambda: self._client.UnregisterNode(request))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _call(self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except httpx.HTTPStatusError as error:
            reason = error.response.text[:500] or error.response.reason_phrase
            raise TransportError(
                f"the SuperLink at {self.address} refused to {what}: "
                f"{error.response.status_code} {reason}"
            ) from error
        except httpx.HTTPError as error:
            raise TransportError(
                f"cannot {what}: the SuperLink at {self.address} cannot be reached ({error})"
            ) from error


def read_public_key(path: Path) -> bytes:
    """A node's public key (OpenSSH, P-384) in the form in which a SuperLink keeps it.

    Raises IdentityError when the key cannot be read or is of another kind.
    """
    try:
        key = load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise IdentityError(f"cannot read the public key {path}: {error}") from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise IdentityError(f"{path} is not an EC key; `regionfed certs` makes the right kind")
    return bytes(public_key_to_bytes(key))


def _run_state(run_id: int, status: RunStatus) -> RunState:
    return RunState(run_id, status.status, status.sub_status, status.details)
