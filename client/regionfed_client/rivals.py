"""What FedProx, FedBABU and SCAFFOLD add to a local step, as in `regionfed.bench.systems`."""

from __future__ import annotations

from regionfed.errors import StateError, UpdateError
from regionfed.messages import TrainOrder, Vector
from regionfed.models.head import head_mask
from regionfed.training.hooks import StepHooks
from regionfed.training.local import LocalResult
from regionfed_client.remembered import Remembered
from regionfed_client.runtime import ClientRuntime

CONTROL = "control"


def step_hooks(runtime: ClientRuntime, order: TrainOrder) -> StepHooks | None:
    """What the configured strategy adds to the steps of the federated model.

    Raises:
        ModelError: FedBABU with a model that names no head.
        StateError, UpdateError: SCAFFOLD without c_i or c.
    """
    method = runtime.config.method
    if method.strategy == "fedprox" and method.fedprox.mu:
        return StepHooks(proximal=method.fedprox.mu)
    if method.strategy == "fedbabu":
        return StepHooks(trained=~head_mask(runtime.bench.model, runtime.bench.flat.layout))
    if method.strategy == "scaffold":
        if order.control is None:
            raise UpdateError("SCAFFOLD's order has no control variate c")
        before = _control(runtime, order)
        correction = order.control if before is None else order.control - before
        return StepHooks(correction=correction, observe=True)
    return None


def moved_control(runtime: ClientRuntime, order: TrainOrder, result: LocalResult) -> Vector | None:
    """SCAFFOLD: make the new c_i durable, and return its change (d,); None for other strategies.

    The new c_i is the mean gradient that the round's steps saw (option II of the paper). The change
    counts from the c_i that c holds, so that a round that is asked twice, or whose answer was lost,
    moves it once.
    """
    if runtime.config.method.strategy != "scaffold":
        return None
    after = result.mean_gradient
    assert after is not None, "observed, by the hooks"
    before = _control(runtime, order)
    Remembered.of(runtime, CONTROL, run=order.run).save(
        order.round, after, known=order.control_round
    )
    return after if before is None else after - before


def _control(runtime: ClientRuntime, order: TrainOrder) -> Vector | None:
    """c_i as c counts it, None for zero."""
    if not order.control_round:
        return None
    found = Remembered.of(runtime, CONTROL, run=order.run).at(order.control_round)
    if found is None:
        raise StateError(
            f"SCAFFOLD's c holds this client's control variate of round {order.control_round}, "
            "and the device has lost it: bring back its state folder (client.state), or begin a "
            "new run"
        )
    return found
