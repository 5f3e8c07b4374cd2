"""The coordinator's upper face: what the global SuperLink sees of a region.

One short process per global message. It hands the order to the region's daemon as a job and waits
for the result; the daemon makes the job durable, so a repeated message gets the same answer.
"""

from __future__ import annotations

import time

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from regionfed.bridge.api import Job
from regionfed.bridge.connect import bridge_for
from regionfed.diagnosis.settings import PHASE
from regionfed.errors import RegionFedError
from regionfed.flower.names import identify
from regionfed.messages import Refusal, RegionOrder

app = ClientApp()

ANSWER_MARGIN_SECONDS = 2.0
"""How long before the message expires the wait for the region ends."""


@app.train()
def train(message: Message, context: Context) -> Message:
    """The training phase of a round."""
    return _relay(message, context, "train")


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """The evaluation phase of a round."""
    return _relay(message, context, "evaluate")


@app.train(PHASE)
def diagnose(message: Message, context: Context) -> Message:
    """One round of a diagnosis."""
    return _relay(message, context, PHASE)


@app.query()
def query(message: Message, context: Context) -> Message:
    """Say which region this is."""
    return identify(message, context)


def _relay(message: Message, context: Context, phase: str) -> Message:
    """Submit the order as a job named `run:round:phase` and answer with its result."""
    region = str(context.node_config.get("region", ""))
    bridge = bridge_for(region, dict(context.node_config))
    try:
        order = RegionOrder.from_record(message.content)
        # A run that its budget ends asks for its last round once more, now as the last.
        job_id = f"{order.run}:{order.round}:{phase}" + (":final" if order.final else "")
        bridge.submit(Job(job_id, phase, message.content))
        left = message.metadata.created_at + message.metadata.ttl - time.time()
        result = bridge.fetch(job_id, max(1.0, left - ANSWER_MARGIN_SECONDS))
    except RegionFedError as error:
        refusal = Refusal(error=type(error).__name__, reason=str(error))
        return Message(refusal.to_record(), reply_to=message)
    finally:
        bridge.close()
    if result.kind == "error":
        return Message(Refusal(error="region", reason=result.error).to_record(), reply_to=message)
    return Message(result.content, reply_to=message)
