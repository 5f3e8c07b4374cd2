"""The device's own part: trained, kept and served on the device alone (algorithm section 3.8)."""

from __future__ import annotations

import logging

from regionfed.errors import StateError
from regionfed.messages import EvaluateOrder, Vector
from regionfed.method.compose import compose
from regionfed.method.user import UserCalibration, user_strength
from regionfed.training.evaluate import counts, mean_loss
from regionfed.training.local import local_train
from regionfed.training.seeds import derive_seed
from regionfed_client.personal import personal_part, tuned_part
from regionfed_client.runtime import ClientRuntime
from regionfed_client.user_state import UserPart, UserStore

logger = logging.getLogger(__name__)


def serve_user(runtime: ClientRuntime, order: EvaluateOrder, regional: Vector) -> dict[str, float]:
    """Make the device's own part, store it, and count what the device then serves.

    It is theta_u on top of the regional model, v_i of Ditto, or FedBABU's tuned model. Returns
    counts on the test rows; the part itself stays in the device's store.
    """
    bench, config = runtime.bench, runtime.config
    room = config.client.user.memory_mb
    if regional.nbytes > room << 20:
        raise StateError(
            f"the user's part would take {regional.nbytes / 2**20:.0f} MiB, the bound is "
            f"{room} MiB (client.user.memory_mb); raise it, or use LoRA"
        )
    strategy = config.method.strategy
    store, calibration = UserStore.of(runtime), None
    if strategy == "ditto":
        part = personal_part(runtime, order, regional)
    elif strategy == "fedbabu":
        part = tuned_part(runtime, order, regional)
    else:
        part, calibration = _theta_u(runtime, order, regional, store.calibration())
    store.save(part, calibration)
    bench.flat.write(part.model())
    test = runtime.encoded("test")
    if not len(test):
        return {}
    return counts(bench.model, bench.flat, test, config.training, tasks=bench.data.tasks)


def _theta_u(
    runtime: ClientRuntime, order: EvaluateOrder, regional: Vector, calibration: UserCalibration
) -> tuple[UserPart, UserCalibration]:
    """Train theta_u from the regional model, to be served only where it is better than that.

    Better is said by the device's own validation rows.
    """
    bench, config = runtime.bench, runtime.config
    user = config.client.user
    result = local_train(
        bench.model,
        bench.flat,
        runtime.encoded("train"),
        config.training.model_copy(
            update={"steps": user.steps, "epochs": None, "learning_rate": user.learning_rate}
        ),
        seed=derive_seed(config.run.seed, order.round, runtime.region, runtime.client, "user"),
        start=regional,
        start_buffers=order.buffers,
    )
    alpha = 1.0
    if order.region_update is not None:
        # Both are displacements of one local training; their scales differ with the step counts,
        # which the device's own calibration takes out.
        alpha, calibration = user_strength(
            result.update,
            order.region_update,
            calibration=calibration,
            tau=config.method.alpha.temperature,
            alpha_min=config.method.alpha.minimum,
            scale=config.method.alpha.scale,
        )
    theta_u = -result.update
    helped = _helps(runtime, regional, compose(regional, user=theta_u, alpha_user=alpha))
    logger.info("user part of round %d: alpha_u %.3f, served: %s", order.round, alpha, helped)
    part = UserPart(
        round=order.round,
        regional=regional,
        theta_u=theta_u,
        alpha=alpha if helped else 0.0,
        buffers=order.buffers,
        layout=bench.layout,
    )
    return part, calibration


def keep_served(runtime: ClientRuntime, order: EvaluateOrder, regional: Vector) -> None:
    """Store the regional model for `regionfed-client`, on a device without the user level.

    The global one is stored instead where it has the lower loss on the device's own validation
    rows: whether the region serves its part is decided only after this message. A device that has a
    model of its own in the course of the run (Ditto) keeps that.
    """
    if runtime.config.method.strategy == "ditto":
        return
    kept = regional if _helps(runtime, order.base, regional) else order.base
    UserStore.of(runtime).save(
        UserPart(
            round=order.round,
            regional=kept,
            theta_u=None,
            alpha=0.0,
            buffers=order.buffers,
            layout=runtime.bench.layout,
        )
    )


def _helps(runtime: ClientRuntime, before: Vector, after: Vector) -> bool:
    """Whether `after` has the lower loss on the device's validation rows (without any: yes)."""
    bench, rows = runtime.bench, runtime.encoded("validation")
    if not len(rows):
        return True
    losses = []
    for vector in (before, after):
        bench.flat.write(vector)
        losses.append(mean_loss(bench.model, bench.flat, rows, runtime.config.training)[0])
    return losses[1] < losses[0]
