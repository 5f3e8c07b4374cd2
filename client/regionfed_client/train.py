"""The client's training phase: from the region's model to one update."""

from __future__ import annotations

from regionfed.messages import ClientUpdate, SummedVector, TrainOrder, Vector
from regionfed.privacy.terms import Channel
from regionfed.tasks.spec import TaskKind
from regionfed.training.local import LocalResult, local_train
from regionfed.training.seeds import derive_seed
from regionfed_client.example_level import example_level_train
from regionfed_client.personal import train_personal
from regionfed_client.rivals import moved_control, step_hooks
from regionfed_client.runtime import ClientRuntime
from regionfed_client.summed import summed_answer
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

    def values() -> dict[str, Vector]:
        result = _trained(runtime, order)
        return {Channel.TRAIN.value: result.update, "buffers": result.buffers}

    return summed_answer(
        runtime,
        terms,
        channel=Channel.TRAIN,
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


def label_counts(runtime: ClientRuntime) -> dict[str, float]:
    """Histogram of the first classification task's labels, for h_r (algorithm section 3.6)."""
    task = next(
        (
            task
            for task in runtime.bench.data.tasks
            if task.kind in (TaskKind.CLASSIFICATION, TaskKind.IMAGE)
        ),
        None,
    )
    counts: dict[str, float] = {}
    if task is not None:
        for row in runtime.rows().train:
            if row.task == task.name:
                counts[row.target] = counts.get(row.target, 0.0) + 1.0
    return counts
