"""Which quantities a private run asks its clients for, in which vector, and why not the others.

A channel is one kind of exchange in which clients send integers that are only ever summed. The
training vector carries the update and, where the run acts on them, a conflict sketch and a clip
bit; the first training vector of a region also carries what is asked once (privacy section 3).
Each quantity has its own clip, its own noise and its own event in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from regionfed.config.federation import FederationConfig
from regionfed.privacy.adaptive_clip import MINIMUM_COHORT
from regionfed.privacy.conflict_gate import conflict_gate
from regionfed.tasks.spec import TaskKind, TaskSpec


class Channel(StrEnum):
    """Exchanges in which clients send nothing but summed integers."""

    TRAIN = "train"
    FIRST = "train-first"
    LOOK_AHEAD = "look-ahead"
    LOSSES = "losses"
    METRICS = "metrics"

    @property
    def trains(self) -> bool:
        """Whether clients train for it, which is a participation."""
        return self in (Channel.TRAIN, Channel.FIRST)


class Quantity(StrEnum):
    """What is summed; the value names its block in the summed vector."""

    UPDATE = "train"
    SKETCH = "conflict-sketch"
    CLIP_BIT = "clip-bit"
    LABELS = "intent-histogram"
    SIZE = "dataset-size"
    LOOK_AHEAD = "look-ahead"
    LOSSES = "losses"
    METRICS = "metrics"


BESIDE = (Quantity.SKETCH, Quantity.CLIP_BIT, Quantity.LABELS, Quantity.SIZE)
"""Quantities that travel in the training vector beside the update."""
ONCE = (Quantity.LABELS, Quantity.SIZE)
"""Those that a client gives once in a run."""
ASKED_ONCE = "labels and sizes are given once in a run"
"""How the refusal begins of a client that has given what is asked once."""
_USES_CONFLICT = ("grad", "interp", "meta", "dynamic", "dynamic-paper")


@dataclass(frozen=True)
class Beside:
    """Quantities that are asked for beside the update, and in words why the others are not."""

    asked: tuple[Quantity, ...]
    reasons: Mapping[Quantity, str]

    def note(self) -> str:
        """One sentence for the report; empty where everything is asked for."""
        if not self.reasons:
            return ""
        told = "; ".join(f"{quantity}: {reason}" for quantity, reason in self.reasons.items())
        return f"not asked for, with their shares of the budget given to training: {told}"


def share(config: FederationConfig, quantity: Quantity) -> float:
    """The quantity's configured share of the budget; the update's is what the others leave."""
    budget = config.privacy.budget
    return {
        Quantity.SKETCH: budget.sketch_share,
        Quantity.CLIP_BIT: budget.clip_bit_share,
        Quantity.LABELS: budget.histogram_share,
        Quantity.SIZE: budget.size_share,
        Quantity.LOSSES: budget.loss_share,
        Quantity.METRICS: budget.evaluation_share,
    }[quantity]


def beside(config: FederationConfig, *, cohort: int, tasks: Sequence[TaskSpec]) -> Beside:
    """What a region with `cohort` clients per round is asked for beside its updates."""
    found = {
        Quantity.SKETCH: _no_sketch(config, cohort),
        Quantity.CLIP_BIT: _no_clip_bit(config, cohort),
        Quantity.LABELS: _no_routing(config, cohort)
        or ("" if histogram_labels(tasks) else "no task has a fixed set of labels"),
        Quantity.SIZE: _no_routing(config, cohort),
    }
    for quantity in found:
        if share(config, quantity) == 0:
            found[quantity] = "switched off, its share is 0"
    return Beside(
        asked=tuple(quantity for quantity, reason in found.items() if not reason),
        reasons={quantity: reason for quantity, reason in found.items() if reason},
    )


def histogram_task(tasks: Sequence[TaskSpec]) -> TaskSpec | None:
    """The task whose labels h_r is about: the first classification task."""
    kinds = (TaskKind.CLASSIFICATION, TaskKind.IMAGE)
    return next((task for task in tasks if task.kind in kinds), None)


def histogram_labels(tasks: Sequence[TaskSpec]) -> tuple[str, ...]:
    """The labels of that task, in order."""
    task = histogram_task(tasks)
    return () if task is None else task.labels


def _no_sketch(config: FederationConfig, cohort: int) -> str:
    strategy = config.method.strategy
    if strategy not in _USES_CONFLICT:
        return f"strategy '{strategy}' does not act on conflict"
    gate = conflict_gate(clients_per_region=cohort, private=True)
    if not gate.window:
        return gate.reason
    if config.run.rounds < gate.window:
        return (
            f"{config.run.rounds} rounds are fewer than the {gate.window} that conflict is "
            "averaged over"
        )
    return ""


def _no_clip_bit(config: FederationConfig, cohort: int) -> str:
    if not config.privacy.adaptive_clipping:
        return "the clipping norm is fixed"
    if cohort < MINIMUM_COHORT:
        return (
            f"{cohort} clients per round are fewer than {MINIMUM_COHORT}, so the clipping norm "
            f"stays at {config.privacy.clipping_norm:g}"
        )
    return ""


def _no_routing(config: FederationConfig, cohort: int) -> str:
    if config.method.strategy != "dynamic-paper":
        return f"strategy '{config.method.strategy}' does not route by it"
    return _no_sketch(config, cohort)
