"""The one module that touches Flower's private parts. Written for flwr 1.39."""

from __future__ import annotations

import copy

from flwr.app import Message
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity


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
