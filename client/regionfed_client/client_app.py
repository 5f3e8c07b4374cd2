"""The client's Flower app: train and evaluate on this client's own rows, and say who it is.

Flower starts a process per message, so what needs rows or a model is imported where it is used:
the steps of secure aggregation without data, and saying who one is, take a fraction of a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from regionfed.config.current import current_config, require_same_digest
from regionfed.errors import (
    ConfigError,
    ExampleLevelRefused,
    IdentityError,
    ModelError,
    PrivacyError,
    RegionFedError,
)
from regionfed.flower.names import identify
from regionfed.messages import EvaluateOrder, Refusal, SecureOrder, TrainOrder, WireMessage
from regionfed.messages.summed import SECURE
from regionfed.privacy.quantities import Channel
from regionfed.privacy.terms import RegionTerms
from regionfed.secagg.errors import ConfigurationMismatch
from regionfed_client.runtime import ClientRuntime, client_runtime
from regionfed_client.secure import SecureDevice
from regionfed_client.terms import known_terms, region_terms

logger = logging.getLogger(__name__)

_WITHOUT_DATA = (ConfigError, IdentityError, PrivacyError, ExampleLevelRefused)
"""Errors about settings, keys, rules and layers; their words come from no row."""

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round's local training."""
    from regionfed_client.train import train_client

    def work(runtime: ClientRuntime) -> WireMessage:
        order = TrainOrder.from_record(message.content)
        check_order(runtime, digest=order.digest, layout=order.layout, region=order.region)
        return train_client(runtime, order)

    return answer(message, context, work)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Scores, losses and personalisation work."""
    from regionfed_client.evaluate import evaluate_client

    def work(runtime: ClientRuntime) -> WireMessage:
        order = EvaluateOrder.from_record(message.content)
        check_order(runtime, digest=order.digest, layout=order.layout, region=order.region)
        return evaluate_client(runtime, order)

    return answer(message, context, work)


@app.train(SECURE)
def secure(message: Message, context: Context) -> Message:
    """A step of secure aggregation without data: opening or unmasking."""

    def work(runtime: ClientRuntime) -> WireMessage:
        order = SecureOrder.from_record(message.content)
        require_same_digest(runtime.config, order.digest, sender=f"region {order.region}")

        def step(terms: RegionTerms) -> WireMessage:
            channel = Channel(order.channel)
            return SecureDevice.open(runtime, terms, run=order.run, channel=channel).step(order)

        known = known_terms(runtime)
        try:
            return step(known)
        except ConfigurationMismatch:
            terms = region_terms(runtime)
            if terms == known:
                raise
            return step(terms)

    return answer(message, context, work)


@app.query()
def query(message: Message, context: Context) -> Message:
    """Say which client this is."""
    return identify(message, context)


def answer(
    message: Message, context: Context, work: Callable[[ClientRuntime], WireMessage]
) -> Message:
    """The work's answer, or a refusal that says why there is none."""
    section = current_config().privacy
    private = section.mode != "off" or section.example_level
    try:
        with client_runtime(current_config(), dict(context.node_config)) as runtime:
            reply: WireMessage = work(runtime)
    except RegionFedError as error:
        logger.error("refused: %s", error)
        reply = Refusal(error=type(error).__name__, reason=_sayable(error, private=private))
    except Exception as error:
        if not private:
            raise
        # Flower would send the exception's text, which may quote data.
        logger.exception("this client's work failed")
        reply = Refusal(error="Exception", reason=_sayable(error, private=True))
    return Message(reply.to_record(), reply_to=message)


def _sayable(error: Exception, *, private: bool) -> str:
    """The reason as it may leave the device: in a private mode, none that could quote data."""
    if not private or isinstance(error, _WITHOUT_DATA):
        return str(error)
    return f"{type(error).__name__} on the device; its own log has the reason"


def check_order(runtime: ClientRuntime, *, digest: str, layout: str, region: str) -> None:
    """Refuse an order of another configuration, model or region.

    Raises:
        ConfigError: another configuration, or another region.
        ModelError: the model here has other parameters.
    """
    require_same_digest(runtime.config, digest, sender=f"region {region}")
    own = runtime.bench.layout
    if layout != own:
        raise ModelError(
            f"the federation's model (digest {layout}) has other parameters, labels or words than "
            f"the one here ({own}): check [model] and [data], and that the same versions are "
            "installed"
        )
    if region != runtime.region:
        raise ModelError(f"an order of region {region} reached a client of {runtime.region}")
