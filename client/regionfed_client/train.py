"""The client's training phase: from the region's model to one update."""

from __future__ import annotations

from regionfed.messages import ClientUpdate, SummedVector, TrainOrder
from regionfed.training.local import LocalResult, local_train
from regionfed.training.seeds import derive_seed
from regionfed_client.example_level import example_level_train
from regionfed_client.personal import train_personal
from regionfed_client.quantities import (
    clipping_norm,
    label_counts,
    training_channel,
    training_values,
)
from regionfed_client.rivals import moved_control, step_hooks
from regionfed_client.runtime import ClientRuntime
from regionfed_client.summed import Values, summed_answer
from regionfed_client.terms import region_terms


def train_client(runtime: ClientRuntime, order: TrainOrder) -> ClientUpdate | SummedVector:
    """g_u = start minus end after local training (algorithm section 2).

    Where only sums may leave the device, the answer is one integer vector and nothing else.
    """
    terms = region_terms(runtime)
    if not terms.sums_only:
        result = _trained(runtime, order)
        if runtime.config.privacy.example_level:
            # The update alone carries noise: sizes, losses and labels stay here.
            return ClientUpdate(
                client=runtime.client,
                round=order.round,
                examples=0,
                steps=0,
                loss=0.0,
                update=result.update,
                buffers=order.buffers,
            )
        return ClientUpdate(
            client=runtime.client,
            round=order.round,
            examples=result.examples,
            steps=result.steps,
            loss=result.loss,
            update=result.update,
            buffers=result.buffers if result.buffers.size else None,
            labels=label_counts(runtime),
            control=moved_control(runtime, order, result),
        )

    channel, norm = training_channel(order, terms), clipping_norm(order, terms)

    def values() -> dict[str, Values]:
        result = _trained(runtime, order)
        return training_values(runtime, order, terms, result, channel=channel, norm=norm)

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


def _trained(runtime: ClientRuntime, order: TrainOrder) -> LocalResult:
    bench, config = runtime.bench, runtime.config
    if config.privacy.example_level:
        return example_level_train(runtime, order)
    if config.method.strategy == "ditto":
        train_personal(runtime, order)
    return local_train(
        bench.model,
        bench.flat,
        runtime.encoded("train"),
        config.training,
        seed=derive_seed(config.run.seed, order.round, runtime.region, runtime.client),
        start=order.start,
        start_buffers=order.buffers,
        hooks=step_hooks(runtime, order),
    )
