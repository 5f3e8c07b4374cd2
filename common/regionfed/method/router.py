"""Which strategy a region gets this round (the router of Dynamic, algorithm section 3.6).

A router is a fixed order of preferences plus a memory: a strategy that did not beat no
personalisation on the region's validation data is left out for `cooldown` rounds. That memory is
what keeps a region from being held on a strategy under which it gets worse round after round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from regionfed.errors import ConfigError, StateError

NONE, GRAD, INTERP, META, RESIDUAL = "none", "grad", "interp", "meta", "residual"


@dataclass(frozen=True)
class RegionFacts:
    """What is known of a region when it is routed.

    `d` and `mu` are in update units, `h` in nats, `size` and `mean_size` in examples (n_r and the
    mean over regions). `floor` is the noise floor of d_r, None where it was not measured.
    """

    d: float
    mu: float
    h: float
    size: float
    mean_size: float
    floor: float | None = None

    def __post_init__(self) -> None:
        for name in ("d", "mu", "h", "size", "mean_size"):
            if math.isnan(getattr(self, name)):
                raise ConfigError(f"routing needs {name}, and it is NaN")


@dataclass(frozen=True)
class RouterState:
    """A region's memory: per strategy the last round it is left out of, and how often it failed.

    `last` is the strategy of the round before, None at the start. JSON through `to_dict`.
    """

    blocked_through: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    last: str | None = None

    def blocked(self, strategy: str, *, round_: int) -> bool:
        """Whether `strategy` is left out in round `round_`."""
        return round_ <= self.blocked_through.get(strategy, -1)

    def record(self, strategy: str, *, round_: int, helped: bool, cooldown: int) -> RouterState:
        """Return the state after `strategy` was tried in round `round_`.

        `helped`: it beat no personalisation on the region's validation loss. If not, it is left
        out of the next `cooldown` rounds. No personalisation itself cannot fail.
        """
        if helped or strategy == NONE:
            return replace(self, last=strategy)
        return RouterState(
            blocked_through={**self.blocked_through, strategy: round_ + cooldown},
            failures={**self.failures, strategy: self.failures.get(strategy, 0) + 1},
            last=strategy,
        )

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "blocked_through": dict(self.blocked_through),
            "failures": dict(self.failures),
            "last": self.last,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> RouterState:
        """Read the JSON form back. Raises `StateError` for anything else."""
        last = data.get("last")
        if last is not None and not isinstance(last, str):
            raise StateError(f"router state: 'last' is {last!r}, expected a name or null")
        return cls(
            blocked_through=_counts(data, "blocked_through"),
            failures=_counts(data, "failures"),
            last=last,
        )


@dataclass(frozen=True)
class Choice:
    """The strategy of a round and, in one sentence, why."""

    strategy: str
    reason: str


class Router(Protocol):
    """Routes one region; `cooldown` is how many rounds a failed strategy is left out."""

    @property
    def cooldown(self) -> int: ...

    def choose(self, facts: RegionFacts, state: RouterState, *, round_: int) -> Choice:
        """Return the strategy for round `round_`."""
        ...


@dataclass(frozen=True)
class PaperRouter:
    """`dynamic-paper`: Meta, else Interp, else Grad, by the paper's strict inequalities.

    Meta if d > tau_d and h > tau_h; else Interp if n > size_ratio*mean(n); else Grad. `tau_d`
    None takes mu. A strategy that is left out hands on to the next in that order, and after Grad
    there is no personalisation.
    """

    tau_d: float | None = None
    tau_h: float = 0.05
    size_ratio: float = 1.5
    cooldown: int = 3

    def __post_init__(self) -> None:
        _check_cooldown(self.cooldown)

    def choose(self, facts: RegionFacts, state: RouterState, *, round_: int) -> Choice:
        """Return the strategy for round `round_` (algorithm section 3.6)."""
        tau_d = facts.mu if self.tau_d is None else self.tau_d
        wanted: list[Choice] = []
        if facts.d > tau_d and facts.h > self.tau_h:
            wanted.append(
                Choice(
                    META,
                    f"d = {facts.d:.4g} > tau_d = {tau_d:.4g} and "
                    f"h = {facts.h:.4g} > tau_h = {self.tau_h:.4g}",
                )
            )
        if facts.size > self.size_ratio * facts.mean_size:
            wanted.append(
                Choice(
                    INTERP,
                    f"n = {facts.size:.6g} > {self.size_ratio:g} * mean n = {facts.mean_size:.6g}",
                )
            )
        wanted.append(Choice(GRAD, "neither in conflict with other labels nor a large region"))
        return _first_open(wanted, state, round_=round_)


@dataclass(frozen=True)
class ResidualRouter:
    """`dynamic`: Residual wherever there is conflict, the paper's order where Residual failed.

    A region whose d is within `margin` times its noise floor is aligned and gets no
    personalisation. Without a floor the region counts as in conflict: Residual corrects only what
    differs. A region already on Residual stays: its d is then measured at the personalised point,
    where a small one says that the correction works, not that it can be dropped.
    """

    margin: float = 1.5
    fallback: PaperRouter = field(default_factory=PaperRouter)

    def __post_init__(self) -> None:
        if not self.margin > 0:
            raise ConfigError(f"margin = {self.margin}: must be > 0")

    @property
    def cooldown(self) -> int:
        return self.fallback.cooldown

    def choose(self, facts: RegionFacts, state: RouterState, *, round_: int) -> Choice:
        """Return the strategy for round `round_`."""
        if not state.blocked(RESIDUAL, round_=round_):
            if state.last == RESIDUAL:
                return Choice(RESIDUAL, "kept: it beats no personalisation on this region's data")
            if facts.floor is None:
                return Choice(RESIDUAL, "no noise floor measured, taken as in conflict")
            if facts.d > self.margin * facts.floor:
                return Choice(
                    RESIDUAL, f"d = {facts.d:.4g} > {self.margin:g} * floor {facts.floor:.4g}"
                )
        if facts.floor is not None and facts.d <= self.margin * facts.floor:
            return Choice(
                NONE, f"aligned: d = {facts.d:.4g} <= {self.margin:g} * floor {facts.floor:.4g}"
            )
        chosen = self.fallback.choose(facts, state, round_=round_)
        left_out = state.blocked_through[RESIDUAL]
        return replace(
            chosen, reason=f"residual left out through round {left_out}; {chosen.reason}"
        )


def _first_open(wanted: list[Choice], state: RouterState, *, round_: int) -> Choice:
    skipped: list[str] = []
    for choice in wanted:
        if not state.blocked(choice.strategy, round_=round_):
            return replace(choice, reason="; ".join([*skipped, choice.reason]))
        left_out = state.blocked_through[choice.strategy]
        skipped.append(
            f"{choice.strategy} did not beat no personalisation, left out through round {left_out}"
        )
    return Choice(NONE, "; ".join(skipped))


def _check_cooldown(cooldown: int) -> None:
    if cooldown < 1:
        raise ConfigError(f"cooldown = {cooldown}: a failed strategy rests at least 1 round")


def _counts(data: Mapping[str, object], key: str) -> dict[str, int]:
    value = data.get(key)
    if not isinstance(value, dict) or not all(
        isinstance(k, str) and isinstance(v, int) for k, v in value.items()
    ):
        raise StateError(f"router state: {key!r} is {value!r}, expected names with round numbers")
    return dict(value)
