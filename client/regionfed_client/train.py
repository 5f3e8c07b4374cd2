"""The client's training phase: from the region's model to one update."""

from __future__ import annotations

from regionfed.messages import ClientUpdate, TrainOrder
from regionfed.tasks.spec import TaskKind
from regionfed.training.local import local_train
from regionfed.training.seeds import derive_seed
from regionfed_client.runtime import ClientRuntime


def train_client(runtime: ClientRuntime, order: TrainOrder) -> ClientUpdate:
    """g_u = start minus end after local training (algorithm section 2)."""
    bench, config = runtime.bench, runtime.config
    result = local_train(
        bench.model,
        bench.flat,
        runtime.encoded("train"),
        config.training,
        seed=derive_seed(config.run.seed, order.round, runtime.region, runtime.client),
        start=order.start,
        start_buffers=order.buffers,
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
