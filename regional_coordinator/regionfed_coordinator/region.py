"""A region at work: its name, its configuration, and how it talks to its clients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from flwr.serverapp import Grid

from regionfed.bridge.api import RegionBridge
from regionfed.config.federation import FederationConfig
from regionfed.errors import QuorumError, RegionFedError
from regionfed.flower.ask import Answers, ask
from regionfed.flower.roster import Roster
from regionfed.messages import RegionOrder, WireMessage
from regionfed.privacy.cohorts import rotation
from regionfed.privacy.desk_ledger import (
    ChargeAnswer,
    afford_request,
    charge_request,
    read_answer,
    release_request,
)
from regionfed.privacy.events import Event
from regionfed.privacy.ledger_records import LedgerTerms
from regionfed.privacy.modes import Mode
from regionfed.privacy.quantities import Channel, Quantity
from regionfed.privacy.terms import RegionTerms
from regionfed.secagg import SecAggCoordinator
from regionfed.tasks.spec import TaskSpec
from regionfed.training.seeds import derive_seed

logger = logging.getLogger(__name__)


@dataclass
class Traffic:
    """Exchanges with clients, and the bytes of arrays that they carried, within one job."""

    exchanges: int = 0
    bytes_down: int = 0
    bytes_up: int = 0
    left_out: dict[str, str] = field(default_factory=dict)

    def count(self, answers: Answers) -> None:
        """Add one exchange."""
        self.exchanges += 1
        self.bytes_down += answers.bytes_down
        self.bytes_up += answers.bytes_up
        self.left_out.update(answers.left_out)

    def report(self) -> dict[str, object]:
        """The figures as JSON values."""
        return {
            "exchanges": self.exchanges,
            "bytes_down": self.bytes_down,
            "bytes_up": self.bytes_up,
            "left_out": self.left_out,
        }


@dataclass
class Region:
    """The region's side of every exchange with its clients."""

    name: str
    config: FederationConfig
    grid: Grid
    roster: Roster
    bridge: RegionBridge
    clients: tuple[str, ...]
    poll: float
    tasks: tuple[TaskSpec, ...] = ()
    unreleased: list[tuple[str, LedgerTerms, ChargeAnswer]] = field(default_factory=list)
    opened_ahead: dict[Channel, SecAggCoordinator] = field(default_factory=dict)
    """The next round of a channel, where its clients opened it with the unmasking of the last."""

    def terms(self, order: RegionOrder) -> RegionTerms:
        """The terms on which this region's clients are asked."""
        return RegionTerms(
            config=self.config,
            dimension=order.theta.size,
            buffers=0 if order.buffers is None else order.buffers.size,
            clients=len(self.clients),
            tasks=self.tasks,
        )

    def charge(
        self, order: RegionOrder, terms: RegionTerms, event: Event, clients: Iterable[str]
    ) -> ChargeAnswer:
        """Charge the region's ledger, durably, before anything is released.

        Raises:
            BudgetExhausted: the budget cannot pay it. PrivacyError: the ledger's rules forbid it.
        """
        ledger = terms.ledger(self.name)
        answer = read_answer(
            self.bridge.charge(charge_request(order.run, ledger, event, sorted(clients)))
        )
        self.unreleased.append((order.run, ledger, answer))
        return answer

    def require_affordable(
        self, order: RegionOrder, terms: RegionTerms, events: Mapping[Quantity, Event]
    ) -> None:
        """Raise BudgetExhausted where the ledger could not pay `events`; nothing is charged.

        Asked before clients are, so that nobody trains for a release that cannot be made.
        """
        ledger = terms.ledger(self.name)
        self.bridge.charge(afford_request(order.run, ledger, [*events.values()]))

    def mark_released(self) -> None:
        """Note in the ledger that what was charged has left; not knowing it is harmless."""
        for run, ledger, answer in self.unreleased:
            try:
                self.bridge.charge(release_request(run, ledger, answer))
            except RegionFedError as error:
                logger.warning("the release of charge %d is not marked: %s", answer.seq, error)
        self.unreleased.clear()

    def cohort(self, order: RegionOrder) -> list[str]:
        """Clients asked to train in this round: all, or those that the seed determines.

        Drawn from the configured clients, not from those that happen to be connected, so that the
        same round asks the same clients whenever it is repeated. Where clients limit how often
        they take part, everybody has a turn before anybody has a second.
        """
        size = self.config.coordinator.cohort
        if Mode(self.config.privacy.mode).per_client:
            return rotation(
                self.clients,
                size=size or len(self.clients),
                round=order.round,
                seed=self.config.run.seed,
                region=self.name,
            )
        if size == 0 or size >= len(self.clients):
            return sorted(self.clients)
        rng = _generator(self.config.run.seed, order.round, self.name)
        chosen = rng.choice(len(self.clients), size=size, replace=False)
        return sorted(self.clients[i] for i in chosen)

    def exchange(
        self,
        order: RegionOrder,
        messages: Mapping[str, WireMessage],
        *,
        message_type: str,
        phase: str,
        traffic: Traffic,
        on_answer: Callable[[str, WireMessage], None],
        reply: type[WireMessage],
    ) -> Answers:
        """Ask clients and hand their typed answers to `on_answer` as they arrive.

        Raises:
            QuorumError: fewer usable answers than the quorum, naming who failed and why.
        """
        records = {id(m): m.to_record() for m in messages.values()}
        self.bridge.report({"phase": phase, "round": order.round, "asked": len(messages)})
        answers = ask(
            self.grid,
            self.roster,
            {name: records[id(message)] for name, message in messages.items()},
            message_type=message_type,
            group=f"{order.run}:{order.round}:{phase}",
            deadline=self.config.coordinator.round_deadline,
            poll=self.poll,
            on_answer=lambda name, record: on_answer(name, reply.from_record(record)),
        )
        traffic.count(answers)
        for name, reason in answers.left_out.items():
            logger.warning("round %d: client %s left out: %s", order.round, name, reason)
        self.bridge.report(
            {
                "phase": f"{phase} done",
                "round": order.round,
                "answered": answers.answered,
                "left_out": answers.left_out,
            }
        )
        quorum = self.config.coordinator.quorum
        if len(answers.answered) < quorum:
            why = "; ".join(f"{name}: {reason}" for name, reason in answers.left_out.items())
            raise QuorumError(
                f"region {self.name}: {len(answers.answered)} of {len(messages)} clients gave a "
                f"usable answer to {phase}, the quorum is {quorum} ({why})"
            )
        return answers


def _generator(*parts: int | str) -> np.random.Generator:
    return np.random.default_rng(derive_seed("cohort", *parts))
