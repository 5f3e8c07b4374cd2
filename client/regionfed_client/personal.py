"""Models of the device's own in Ditto and FedBABU, as in `regionfed.bench.systems`; never sent."""

from __future__ import annotations

from regionfed.messages import EvaluateOrder, TrainOrder, Vector
from regionfed.models.head import head_mask
from regionfed.training.hooks import StepHooks
from regionfed.training.local import local_train
from regionfed.training.seeds import derive_seed
from regionfed_client.remembered import Remembered
from regionfed_client.runtime import ClientRuntime
from regionfed_client.user_state import UserPart

PERSONAL = "personal"


def train_personal(runtime: ClientRuntime, order: TrainOrder) -> None:
    """Ditto: one round of v_i, from where it was, under the pull of theta_t.

    A client that is asked for the first time begins at the initial model, as published. A round
    that is asked twice begins twice at the same v_i.
    """
    bench, config = runtime.bench, runtime.config
    store = Remembered.of(runtime, PERSONAL, run=order.run)
    before = store.before(order.round)
    start = bench.initial if before is None else before
    assert start is not None, "a workbench of Ditto keeps the initial model"
    strength = config.method.ditto.strength
    result = local_train(
        bench.model,
        bench.flat,
        runtime.encoded("train"),
        config.training,
        seed=derive_seed(config.run.seed, order.round, runtime.region, runtime.client, "personal"),
        start=start,
        start_buffers=order.buffers,
        hooks=StepHooks(proximal=strength, anchor=order.start) if strength else None,
    )
    own: Vector = start - result.update
    store.save(order.round, own, known=order.round - 1)


def personal_part(runtime: ClientRuntime, order: EvaluateOrder, base: Vector) -> UserPart:
    """Ditto: v_i, as a part on top of theta; a client that was never asked serves theta."""
    own = Remembered.of(runtime, PERSONAL, run=order.run).before(order.round + 1)
    part = None if own is None else own - base
    return _part(runtime, base, part, order.round, order.buffers)


def tuned_part(runtime: ClientRuntime, order: EvaluateOrder, base: Vector) -> UserPart:
    """FedBABU: all of theta, or its head, tuned on the device's own rows."""
    bench, config = runtime.bench, runtime.config
    babu = config.method.fedbabu
    head = head_mask(bench.model, bench.flat.layout)
    result = local_train(
        bench.model,
        bench.flat,
        runtime.encoded("train"),
        config.training.model_copy(
            update={"steps": babu.steps, "epochs": None, "learning_rate": babu.learning_rate}
        ),
        seed=derive_seed(config.run.seed, order.round, runtime.region, runtime.client, "finetune"),
        start=base,
        start_buffers=order.buffers,
        hooks=StepHooks(trained=head) if babu.tune == "head" else None,
    )
    return _part(runtime, base, -result.update, order.round, order.buffers)


def _part(
    runtime: ClientRuntime,
    base: Vector,
    part: Vector | None,
    round: int,
    buffers: Vector | None,
) -> UserPart:
    return UserPart(
        round=round,
        regional=base,
        theta_u=part,
        alpha=0.0 if part is None else 1.0,
        buffers=buffers,
        layout=runtime.bench.layout,
    )
