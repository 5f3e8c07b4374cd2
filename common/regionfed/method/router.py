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

    `last` is the strategy of the round before, None at the start. `seen` counts the rounds whose
    conflict was measured against a noise floor, `d_squared` and `floor_squared` are the sums of
    d^2 and floor^2 over them. JSON through `to_dict`.
    """

    blocked_through: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    last: str | None = None
    seen: int = 0
    d_squared: float = 0.0
    floor_squared: float = 0.0

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
        return replace(
            self,
            blocked_through={**self.blocked_through, strategy: round_ + cooldown},
            failures={**self.failures, strategy: self.failures.get(strategy, 0) + 1},
            last=strategy,
        )

    def after(self, strategy: str, facts: RegionFacts) -> RouterState:
        """Return the state after `strategy` was chosen on `facts`, for the round that follows."""
        if facts.floor is None:
            return replace(self, last=strategy)
        return replace(
            self,
            last=strategy,
            seen=self.seen + 1,
            d_squared=self.d_squared + facts.d**2,
            floor_squared=self.floor_squared + facts.floor**2,
        )

    def excess(self, facts: RegionFacts) -> float | None:
        """Root mean square of d over that of its floor, this round included; None without one.

        One round's ratio scatters by several per cent even where regions are alike; the mean over
        rounds does so less and less.
        """
        if facts.floor is None:
            return None
        floor_squared = self.floor_squared + facts.floor**2
        if floor_squared == 0:
            return math.inf if facts.d > 0 else 0.0
        return math.sqrt((self.d_squared + facts.d**2) / floor_squared)

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "blocked_through": dict(self.blocked_through),
            "failures": dict(self.failures),
            "last": self.last,
            "seen": self.seen,
            "d_squared": self.d_squared,
            "floor_squared": self.floor_squared,
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
            seen=int(_amount(data, "seen")),
            d_squared=_amount(data, "d_squared"),
            floor_squared=_amount(data, "floor_squared"),
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

    A region whose d is within `margin` times its noise floor, in the root mean square over the
    rounds so far, is aligned and gets no personalisation. Measured on the built-in data (4 regions
    of 6 clients, cohorts of 4): identical regions stay within 0.93 to 1.08 in single rounds,
    regions in conflict average 1.1 to 1.3. Without a floor the region counts as in conflict:
    Residual corrects only what differs. A region already on Residual stays: its d is then measured
    at the personalised point, where a small one says that the correction works, not that it can be
    dropped.
    """

    margin: float = 1.08
    fallback: PaperRouter = field(default_factory=PaperRouter)

    def __post_init__(self) -> None:
        if not self.margin > 0:
            raise ConfigError(f"margin = {self.margin}: must be > 0")

    @property
    def cooldown(self) -> int:
        return self.fallback.cooldown

    def choose(self, facts: RegionFacts, state: RouterState, *, round_: int) -> Choice:
        """Return the strategy for round `round_`."""
        excess = state.excess(facts)
        if not state.blocked(RESIDUAL, round_=round_):
            if state.last == RESIDUAL:
                return Choice(RESIDUAL, "kept: only the validation check can end it")
            if excess is None:
                return Choice(RESIDUAL, "no noise floor measured, taken as in conflict")
            if excess > self.margin:
                return Choice(
                    RESIDUAL, f"d is {excess:.3g} times its noise floor > {self.margin:g}"
                )
        if excess is not None and excess <= self.margin:
            return Choice(NONE, f"aligned: d is {excess:.3g} times its floor <= {self.margin:g}")
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


def _amount(data: Mapping[str, object], key: str) -> float:
    value = data.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise StateError(f"router state: {key!r} is {value!r}, expected a number >= 0")
    return float(value)


def _counts(data: Mapping[str, object], key: str) -> dict[str, int]:
    value = data.get(key)
    if not isinstance(value, dict) or not all(
        isinstance(k, str) and isinstance(v, int) for k, v in value.items()
    ):
        raise StateError(f"router state: {key!r} is {value!r}, expected names with round numbers")
    return dict(value)
