"""What a client puts into its training vector beside the update, each within its own clip."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from regionfed.errors import PrivacyError, UpdateError
from regionfed.messages import EvaluateOrder, TrainOrder, Vector
from regionfed.privacy.adaptive_clip import clip_bit
from regionfed.privacy.mechanisms import clip, l2_norm
from regionfed.privacy.quantities import (
    Channel,
    Quantity,
    histogram_labels,
    histogram_task,
)
from regionfed.privacy.sketch import client_sketch, sketch_seed
from regionfed.privacy.terms import RegionTerms
from regionfed.training.local import LocalResult
from regionfed_client.runtime import ClientRuntime
from regionfed_client.summed import Values


def training_channel(order: TrainOrder, terms: RegionTerms) -> Channel:
    """The vector that the order asks for.

    Raises UpdateError for an unknown one, PrivacyError for one that these terms do not have.
    """
    try:
        channel = Channel(order.channel)
    except ValueError as error:
        raise UpdateError(f"unknown channel `{order.channel}`") from error
    if not channel.trains or (channel is Channel.FIRST and not terms.asks_once):
        raise PrivacyError(f"channel '{channel}' is not asked for in a training order here")
    return channel


def clipping_norm(order: TrainOrder | EvaluateOrder, terms: RegionTerms) -> float:
    """The C in force: the order's under adaptive clipping, else the configured one.

    Whatever it is, the vector that leaves is bounded in units of it, and so is its noise. Raises
    PrivacyError for one that cannot be, or that was not to be changed.
    """
    configured = terms.config.privacy.clipping_norm
    if not order.clipping_norm:
        return configured
    if Quantity.CLIP_BIT not in terms.beside.asked:
        raise PrivacyError(
            f"the order clips at {order.clipping_norm:g}, and clipping_norm = {configured:g} is "
            "fixed in this federation file"
        )
    if not (order.clipping_norm > 0 and math.isfinite(order.clipping_norm)):
        raise PrivacyError(f"clipping norm {order.clipping_norm} must be positive and finite")
    return order.clipping_norm


def in_units_of(update: Vector, terms: RegionTerms, *, norm: float) -> Vector:
    """The update in units in which C = `norm`, the one in force, is the configured one."""
    factor = terms.config.privacy.clipping_norm / norm
    return update if factor == 1.0 else update * np.float32(factor)


def training_values(
    runtime: ClientRuntime,
    order: TrainOrder,
    terms: RegionTerms,
    result: LocalResult,
    *,
    channel: Channel,
    norm: float,
) -> dict[str, Values]:
    """The values of a training channel by block name; `norm` is the C in force."""
    found: dict[str, Values] = {Quantity.UPDATE.value: result.update}
    if not terms.mode.per_client:
        return {**found, "buffers": result.buffers}
    configured = terms.config.privacy.clipping_norm
    update = in_units_of(result.update, terms, norm=norm)
    found[Quantity.UPDATE.value] = update
    made: dict[Quantity, Callable[[], Values]] = {
        Quantity.SKETCH: lambda: client_sketch(
            clip(update, configured).vector,
            width=terms.config.privacy.sketch_width,
            seed=sketch_seed(terms.config.run.seed, order.round),
            clip_norm=configured,
        ),
        Quantity.CLIP_BIT: lambda: np.array([clip_bit(l2_norm(update), configured)]),
        Quantity.LABELS: lambda: label_shares(runtime, terms),
        Quantity.SIZE: lambda: np.array(
            [min(float(result.examples), terms.config.privacy.size_clip)]
        ),
    }
    for quantity in terms.quantities(channel):
        if quantity in made:
            found[quantity.value] = made[quantity]()
    return found


def label_counts(runtime: ClientRuntime) -> dict[str, float]:
    """Histogram of the first classification task's labels, for h_r (algorithm section 3.6)."""
    task = histogram_task(runtime.bench.data.tasks)
    counts: dict[str, float] = {}
    if task is not None:
        for row in runtime.rows().train:
            if row.task == task.name:
                counts[row.target] = counts.get(row.target, 0.0) + 1.0
    return counts


def label_shares(runtime: ClientRuntime, terms: RegionTerms) -> Values:
    """This client's share of each label, of norm at most 1; zeros where it has none."""
    counts = label_counts(runtime)
    values = np.array([counts.get(name, 0.0) for name in histogram_labels(terms.tasks)])
    total = values.sum()
    return values / total if total else values
