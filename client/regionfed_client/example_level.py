"""DP-SGD on this device: charged to the client's own ledger before a row is touched.

The ledger counts what one training row of this client has been exposed to. It lies with the
device's other state, outlives runs and restarts, and nothing of it is sent: how many steps a
round takes tells how many rows there are.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import replace

from regionfed.errors import BudgetExhausted
from regionfed.messages import TrainOrder
from regionfed.privacy.example_ledger import EXAMPLES, SPENT, example_terms
from regionfed.privacy.example_probe import probe
from regionfed.privacy.ledger_sqlite import SqliteLedger, ledger_path
from regionfed.training.local import LocalResult
from regionfed.training.private import private_event, private_train
from regionfed.training.seeds import derive_seed
from regionfed_client.device import device_folder
from regionfed_client.runtime import ClientRuntime

logger = logging.getLogger(__name__)


def example_level_train(runtime: ClientRuntime, order: TrainOrder) -> LocalResult:
    """One round's DP-SGD, charged first; a crash over-counts and never under-counts.

    Raises BudgetExhausted when one of the client's rows could not bear it, ExampleLevelRefused for
    layers that cannot be trained so; then nothing was charged.
    """
    bench, config = runtime.bench, runtime.config
    example = config.privacy.example
    rows = runtime.encoded("train")
    bench.flat.write(order.start)
    if order.buffers is not None:
        bench.flat.write_buffers(order.buffers)
    if not bench.per_example_checked:
        probe(bench.model, rows)
        bench.per_example_checked = True
    event = private_event(
        len(rows), config.training, example, client=runtime.client, round=order.round
    )
    terms = example_terms(example, region=runtime.region, client=runtime.client)
    path = ledger_path(device_folder(runtime, purpose="the ledger of its examples"), EXAMPLES)
    with closing(SqliteLedger(path, terms)) as ledger:
        try:
            token = ledger.charge(event)
        except BudgetExhausted as error:
            # Its figures tell how many rows there are, so they stay here.
            logger.warning("%s", error)
            raise BudgetExhausted(
                f"{SPENT} (privacy.example.epsilon = {example.epsilon:g}); its own ledger has "
                "the figures"
            ) from None
        result = private_train(
            bench.model,
            bench.flat,
            rows,
            config.training,
            example,
            seed=derive_seed(config.run.seed, order.round, runtime.region, runtime.client),
            start=order.start,
        )
        # What follows only clips, rounds and masks it: it counts as gone from here.
        ledger.release(token)
    # Only layers that do not train may have buffers here; they go back as they came.
    buffers = order.buffers if order.buffers is not None else result.buffers[:0]
    return replace(result, buffers=buffers)
