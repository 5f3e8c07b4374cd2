"""The user's own part theta_u: trained, kept and served on the device alone (section 3.8)."""

from __future__ import annotations

import logging

from regionfed.errors import StateError
from regionfed.messages import EvaluateOrder, Vector
from regionfed.method.compose import compose
from regionfed.method.user import user_strength
from regionfed.training.evaluate import counts, mean_loss
from regionfed.training.local import local_train
from regionfed.training.seeds import derive_seed
from regionfed_client.runtime import ClientRuntime
from regionfed_client.user_state import UserPart, UserStore

logger = logging.getLogger(__name__)


def serve_user(runtime: ClientRuntime, order: EvaluateOrder, regional: Vector) -> dict[str, float]:
    """Train theta_u from the regional model, store it, and count what the device then serves.

    The part is served only if it beats the regional model on the device's own validation rows.
    Returns counts on the test rows; theta_u itself stays in the device's store.
    """
    bench, config = runtime.bench, runtime.config
    user = config.client.user
    if regional.nbytes > user.memory_mb << 20:
        raise StateError(
            f"the user's part would take {regional.nbytes / 2**20:.0f} MiB, the bound is "
            f"{user.memory_mb} MiB (client.user.memory_mb); raise it, or use LoRA"
        )
    store = UserStore.of(runtime)
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
    alpha, calibration = 1.0, store.calibration()
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
    served = compose(regional, user=theta_u, alpha_user=alpha)
    helped = _helps(runtime, regional, served)
    store.save(
        UserPart(
            round=order.round,
            regional=regional,
            theta_u=theta_u,
            alpha=alpha if helped else 0.0,
            buffers=order.buffers,
            layout=bench.layout,
        ),
        calibration,
    )
    logger.info("user part of round %d: alpha_u %.3f, served: %s", order.round, alpha, helped)
    bench.flat.write(served if helped else regional)
    test = runtime.encoded("test")
    if not len(test):
        return {}
    return counts(bench.model, bench.flat, test, config.training, tasks=bench.data.tasks)


def keep_served(runtime: ClientRuntime, order: EvaluateOrder, regional: Vector) -> None:
    """Store the regional model for `regionfed-client`, on a device without the user level.

    The global one is stored instead where it has the lower loss on the device's own validation
    rows: whether the region serves its part is decided only after this message.
    """
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
