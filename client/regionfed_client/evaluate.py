"""The client's evaluation phase: scores, validation losses and the work of personalisation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regionfed.errors import PrivacyError, UpdateError
from regionfed.messages import ClientScores, EvaluateOrder, Kept, SummedVector, Vector
from regionfed.method.compose import compose
from regionfed.method.strategies import ClientWork
from regionfed.models.base import EncodedRows
from regionfed.privacy.metric_vector import metric_vector
from regionfed.privacy.quantities import Channel
from regionfed.privacy.simulation import in_simulation
from regionfed.privacy.terms import RegionTerms
from regionfed.training.evaluate import counts, losses_at
from regionfed.training.gradient import multi_step_gradient
from regionfed.training.local import local_train
from regionfed.training.seeds import derive_seed
from regionfed_client.quantities import clipping_norm, in_units_of
from regionfed_client.runtime import ClientRuntime
from regionfed_client.summed import Values, summed_answer
from regionfed_client.terms import region_terms
from regionfed_client.user import keep_served, serve_user
from regionfed_client.user_state import UserStore


def evaluate_client(
    runtime: ClientRuntime, order: EvaluateOrder
) -> ClientScores | SummedVector | Kept:
    """Answer one evaluation order on the client's own rows.

    Raises PrivacyError for a question that the privacy mode does not allow.
    """
    terms = region_terms(runtime)
    if order.keep:
        return _keep(runtime, order)
    if order.work and terms.config.privacy.example_level:
        raise PrivacyError(
            "privacy.example_level = true: this client's training rows are used by DP-SGD alone, "
            f"and `{order.work}` would look at them without its noise"
        )
    if order.channel:
        return _summed(runtime, order, terms)
    if terms.mode.per_client:
        _require_simulated(order, terms)
    elif terms.masked and order.work:
        raise PrivacyError("with secure aggregation on, work on training rows is not sent openly")
    return _scores(runtime, order)


def _require_simulated(order: EvaluateOrder, terms: RegionTerms) -> None:
    """Un-noised scores leave a client in a simulation only, and nothing but scores does."""
    measured = terms.config.privacy.audit_metrics == "simulated" and in_simulation()
    if not measured or order.rhos or order.work:
        raise PrivacyError(
            f"privacy.mode = '{terms.mode}': this client sends no un-noised scores, losses or "
            "gradients"
        )


def _keep(runtime: ClientRuntime, order: EvaluateOrder) -> Kept:
    """Store what this device serves; with its own part, which stays here and is free."""
    regional = _regional(order)
    if order.user:
        serve_user(runtime, order, regional)
    else:
        keep_served(runtime, order, regional)
    return Kept(client=runtime.client, round=order.round)


def _summed(runtime: ClientRuntime, order: EvaluateOrder, terms: RegionTerms) -> SummedVector:
    """One charged vector: a look-ahead, loss differences, or scores."""
    try:
        channel = Channel(order.channel)
    except ValueError as error:
        raise UpdateError(f"unknown channel `{order.channel}`") from error
    if not terms.mode.per_client or channel.trains:
        raise PrivacyError(f"channel {channel} is not asked for in privacy.mode '{terms.mode}'")

    norm = clipping_norm(order, terms)

    def values() -> dict[str, Values]:
        bench = runtime.bench
        bench.flat.write(order.base)
        if channel is Channel.LOOK_AHEAD:
            return {channel.value: in_units_of(_work(runtime, order), terms, norm=norm)}
        if channel is Channel.LOSSES:
            return {channel.value: _loss_differences(runtime, order, terms)}
        if order.levels != terms.levels:
            raise PrivacyError(
                f"scores of {', '.join(order.levels)} are asked for, but here they are those of "
                f"{', '.join(terms.levels)}: give all tiers the same client.user.enabled"
            )
        levels = []
        for level in terms.levels:
            bench.flat.write(_served(runtime, order, level))
            levels.append(_counts(runtime))
        return {channel.value: metric_vector(bench.data.tasks, levels)}

    return summed_answer(
        runtime,
        terms,
        channel=channel,
        run=order.run,
        round=order.round,
        attempt=order.attempt,
        step=order.step,
        values=values,
    )


def _loss_differences(runtime: ClientRuntime, order: EvaluateOrder, terms: RegionTerms) -> Values:
    """Mean validation loss at every rho but the first, less that at rho = 0."""
    losses, rows = _losses(runtime, replace(order, rhos=terms.rhos))
    if not rows:
        return np.zeros(len(terms.rhos) - 1)
    return (np.array(losses[1:]) - losses[0]) / rows


def _scores(runtime: ClientRuntime, order: EvaluateOrder) -> ClientScores:
    """Counts, losses and work in the open, where nothing forbids it."""
    bench = runtime.bench
    bench.flat.write(order.base)
    if order.buffers is not None:
        bench.flat.write_buffers(order.buffers)
    losses, loss_rows = _losses(runtime, order)
    scored: dict[str, dict[str, float]] = {}
    regional = _regional(order)
    for level in order.levels:
        bench.flat.write(order.base if level == "global" else regional)
        scored[level] = _counts(runtime)
    if order.user:
        of_user = serve_user(runtime, order, regional)
        # theta_u comes from training rows without the noise of DP-SGD: where that is promised,
        # not even its scores leave.
        if not runtime.config.privacy.example_level:
            scored["user"] = of_user
    elif order.levels and runtime.config.client.keep_model:
        keep_served(runtime, order, regional if "regional" in order.levels else order.base)
    work = _work(runtime, order) if order.work else None
    return ClientScores(
        client=runtime.client,
        round=order.round,
        counts=scored,
        losses=losses,
        loss_rows=loss_rows,
        examples=0 if runtime.config.privacy.example_level else len(runtime.encoded("train")),
        work=work,
    )


def _regional(order: EvaluateOrder) -> Vector:
    """base + serve*direction, or base where no direction is sent."""
    if order.direction is None or order.serve == 0:
        return order.base
    return compose(order.base, regional=order.direction, alpha_region=order.serve)


def _served(runtime: ClientRuntime, order: EvaluateOrder, level: str) -> Vector:
    """The model of a level; the user's is the one that this device has stored in this round."""
    if level == "user":
        return UserStore.of(runtime).load_round(order.round).model()
    return order.base if level == "global" else _regional(order)


def _counts(runtime: ClientRuntime) -> dict[str, float]:
    """Counts of the model as it stands on the client's test rows."""
    bench, test = runtime.bench, runtime.encoded("test")
    if not len(test):
        return {}
    return counts(bench.model, bench.flat, test, runtime.config.training, tasks=bench.data.tasks)


def _losses(runtime: ClientRuntime, order: EvaluateOrder) -> tuple[tuple[float, ...], int]:
    """Sums of validation losses at every rho, and the number of rows (at most the limit)."""
    rows = validation_rows(runtime)
    if not order.rhos:
        return (), 0
    if order.direction is None:
        raise UpdateError("losses were asked for without a direction")
    if not len(rows):
        return tuple(0.0 for _ in order.rhos), 0
    sums, number = losses_at(
        runtime.bench.model,
        runtime.bench.flat,
        rows,
        runtime.config.training,
        base=order.base,
        direction=order.direction,
        rhos=order.rhos,
    )
    return tuple(float(value) for value in sums), number


def validation_rows(runtime: ClientRuntime) -> EncodedRows:
    """The first rows of the validation split, at most `method.rho.validation_rows`."""
    rows = runtime.encoded("validation")
    limit = runtime.config.method.rho.validation_rows
    if len(rows) <= limit:
        return rows
    return EncodedRows(
        tensors={name: tensor[:limit] for name, tensor in rows.tensors.items()},
        rows=rows.rows[:limit],
    )


def _work(runtime: ClientRuntime, order: EvaluateOrder) -> Vector:
    """Local training from base (start minus end), or the mean of K gradients from base."""
    bench, config, train = runtime.bench, runtime.config, runtime.encoded("train")
    seed = derive_seed(config.run.seed, order.round, runtime.region, runtime.client, order.work)
    if order.work == ClientWork.LOCAL_TRAINING:
        return local_train(
            bench.model,
            bench.flat,
            train,
            config.training,
            seed=seed,
            start=order.base,
            start_buffers=order.buffers,
        ).update
    if order.work == ClientWork.LOOKAHEAD_GRADIENT:
        meta = config.method.meta
        found = multi_step_gradient(
            bench.model,
            bench.flat,
            train,
            config.training.model_copy(update={"learning_rate": meta.learning_rate}),
            at=order.base,
            steps=meta.steps,
            seed=seed,
        )
        return found.gradient / np.float32(meta.steps)
    raise UpdateError(f"unknown work `{order.work}`")
