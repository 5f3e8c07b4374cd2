"""Flat FedAvg written with Flower alone, over the same clients, model and local training.

The comparison of `flat_flower.py`: one SuperLink, no regions, Flower's own strategy.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from regionfed.config.current import current_config
from regionfed.tasks.metrics import overall, score
from regionfed.training.evaluate import counts
from regionfed.training.local import local_train
from regionfed.training.seeds import derive_seed
from regionfed_client.runtime import client_runtime
from regionfed_client.workbench import Workbench

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """One round's local training, as RegionFed's client does it."""
    config = current_config()
    with client_runtime(config, dict(context.node_config)) as runtime:
        round_ = int(message.content["config"]["server-round"])
        result = local_train(
            runtime.bench.model,
            runtime.bench.flat,
            runtime.encoded("train"),
            config.training,
            seed=derive_seed(config.run.seed, round_, runtime.region, runtime.client),
            start=message.content["arrays"]["theta"].numpy(),
        )
        end = runtime.bench.flat.read()
    content = RecordDict(
        {
            "arrays": ArrayRecord({"theta": Array(end)}),
            "metrics": MetricRecord({"num-examples": result.examples, "loss": result.loss}),
        }
    )
    return Message(content, reply_to=message)


@client.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Score of the global model on the client's test rows."""
    config = current_config()
    with client_runtime(config, dict(context.node_config)) as runtime:
        bench, test = runtime.bench, runtime.encoded("test")
        bench.flat.write(message.content["arrays"]["theta"].numpy())
        found = counts(bench.model, bench.flat, test, config.training, tasks=bench.data.tasks)
        value = overall(score(bench.data.tasks, found))
    metrics = MetricRecord({"num-examples": len(test), "score": value})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Flower's FedAvg over all clients; writes the seconds at which each round ended."""
    config = current_config()
    bench = Workbench.open(config)
    total = sum(len(bench.data.clients(region)) for region in bench.data.regions)
    while len(list(grid.get_node_ids())) < total:
        time.sleep(0.2)
    marks: list[float] = [time.time()]

    class Timed(FedAvg):
        def aggregate_evaluate(
            self, server_round: int, replies: Iterable[Message]
        ) -> MetricRecord | None:
            result: MetricRecord | None = super().aggregate_evaluate(server_round, replies)
            marks.append(time.time())
            return result

    strategy = Timed(
        fraction_train=1.0,
        fraction_evaluate=1.0,
        min_train_nodes=total,
        min_evaluate_nodes=total,
        min_available_nodes=total,
    )
    theta = bench.flat.read()
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({"theta": Array(theta)}),
        num_rounds=config.run.rounds,
        timeout=config.server.round_deadline,
        train_config=ConfigRecord({}),
    )
    final = result.evaluate_metrics_clientapp[config.run.rounds]
    facts = {
        "seconds_per_round": np.diff(marks).tolist(),
        "bytes_per_client_and_round": 3 * theta.nbytes,
        "score": float(final["score"]),
    }
    Path(os.environ["FLAT_RESULT"]).write_text(json.dumps(facts))
