"""How far along a direction: the search for rho on the region's validation loss (section 3.7).

`RhoSearch` is a pure state machine. It says which rho it wants evaluated (`pending`), takes their
losses (`update`), and can be written down between two exchanges (`to_dict`). With one point per
exchange it is golden-section search; with k > 1 points it cuts the bracket to 2/(k + 1) of its
width per exchange. rho = 0, no personalisation, is always among the evaluated, and nothing is
served that does not beat it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from regionfed.errors import ConfigError, StateError, UpdateError

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
# Losses are keyed by rho; points of nested grids closer than SAME are one and the same point.
DIGITS = 12
SAME = 1e-9


class Verdict(StrEnum):
    """What a search found; `lower` and `upper` are about the ends of its interval."""

    INTERIOR = "interior"
    LOWER = "lower"
    UPPER = "upper"
    REJECTED = "rejected"
    FIXED = "fixed"


@dataclass(frozen=True)
class RhoResult:
    """The outcome of a search.

    `rho` is the best rho above 0 that was evaluated, `served` what is used: `rho` if its loss is
    below that of rho = 0, else 0. `loss` belongs to `rho`, `loss_zero` to rho = 0 (inf where not
    finite). `bracket` is the last interval; `interval` the first. `evaluations` counts rho values,
    `exchanges` client round trips.
    """

    rho: float
    served: float
    status: Verdict
    bracket: tuple[float, float]
    interval: tuple[float, float]
    loss: float
    loss_zero: float
    evaluations: int
    exchanges: int

    @property
    def helped(self) -> bool:
        """Whether personalisation beat none on the validation loss."""
        return self.served > 0

    def explain(self) -> str:
        """Say in plain words what the verdict means."""
        served = (
            f"Served rho = {self.served:.4g}: loss {self.loss:.6g} against {self.loss_zero:.6g} "
            "without personalisation."
            if self.helped
            else f"Served rho = 0 (no personalisation): the best rho above 0, {self.rho:.4g}, has "
            f"loss {self.loss:.6g} against {self.loss_zero:.6g} without."
        )
        low, high = self.bracket
        if self.status is Verdict.INTERIOR:
            return f"interior: the optimum lies within [{low:.4g}, {high:.4g}]. {served}"
        if self.status is Verdict.LOWER:
            return (
                f"lower: the search collapsed to the lower end of [{self.interval[0]:.4g}, "
                f"{self.interval[1]:.4g}]; {self.rho:.4g} is the resolution of the search, not an "
                "optimum (a golden-section search on [0, 1] that collapses ends at 0.618034^7 = "
                f"0.0344 whatever the data). {served}"
            )
        if self.status is Verdict.UPPER:
            return (
                f"upper: the loss still falls at the upper end {high:.4g}; the optimum lies "
                f"beyond, widen the interval. {served}"
            )
        if self.status is Verdict.FIXED:
            return f"fixed: rho is not searched, {self.rho:.4g} was checked against 0. {served}"
        if not math.isfinite(self.loss):
            return f"rejected: no rho above 0 has a finite validation loss. {served}"
        return f"rejected: nothing beats no personalisation on the validation data. {served}"


@dataclass
class RhoSearch:
    """Minimise a loss over [lo, hi] until the bracket is at most `tol` wide.

    `points` is the number of interior rho values per exchange, 1 for golden section. Both ends are
    evaluated with the first exchange, so that a search which runs into one of them says so.
    Raises `ConfigError` for an interval that is not 0 <= lo < hi, or a `tol` or `points` that
    cannot work.
    """

    lo: float = 0.0
    hi: float = 1.0
    tol: float = 0.05
    points: int = 5
    _bracket: tuple[float, float] = field(init=False)
    _losses: dict[float, float] = field(init=False, default_factory=dict)
    _exchanges: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        _check_interval(self.lo, self.hi, tol=self.tol, points=self.points)
        self._bracket = (_key(self.lo), _key(self.hi))

    @property
    def done(self) -> bool:
        """Whether the bracket is narrow enough and the ends are known."""
        return self._narrow() and bool(self._losses)

    def pending(self) -> list[float]:
        """Return the rho values to evaluate next, ascending; empty when done."""
        if self.done:
            return []
        wanted = {_key(0.0), _key(self.lo), _key(self.hi), *self._interior()}
        return sorted(rho for rho in wanted if rho not in self._losses)

    def update(self, losses: Mapping[float, float]) -> None:
        """Take the losses of all pending rho values; one that is not finite counts as +inf.

        Raises `UpdateError` when a pending value is missing; the search is then unchanged.
        """
        given = {_key(rho): loss for rho, loss in losses.items()}
        wanted = self.pending()
        missing = [rho for rho in wanted if rho not in given]
        if missing:
            raise UpdateError(f"rho search: no loss for rho = {missing}; evaluate all pending")
        for rho in wanted:
            self._losses[rho] = given[rho] if math.isfinite(given[rho]) else math.inf
        self._exchanges += 1
        # Nested grids may hold points that are known already; then no exchange is needed.
        while not self._narrow() and all(rho in self._losses for rho in self._interior()):
            self._shrink()

    def result(self) -> RhoResult:
        """Return the verdict. Raises `StateError` before the search is done."""
        if not self.done:
            raise StateError(f"rho search is not done: {self.pending()} are to be evaluated")
        zero = self._losses[0.0]
        above = [rho for rho in sorted(self._losses) if rho > 0]
        best = min(above, key=lambda rho: self._losses[rho])
        loss = self._losses[best]
        beats = loss < zero
        low, high = self._around(best)
        if not math.isfinite(loss):
            status = Verdict.REJECTED
        elif low <= _key(self.lo) and (beats or self.lo == 0):
            status = Verdict.LOWER
        elif not beats:
            status = Verdict.REJECTED
        elif high >= _key(self.hi):
            status = Verdict.UPPER
        else:
            status = Verdict.INTERIOR
        return RhoResult(
            rho=best,
            served=best if beats else 0.0,
            status=status,
            bracket=(low, high),
            interval=(self.lo, self.hi),
            loss=loss,
            loss_zero=zero,
            evaluations=len(self._losses),
            exchanges=self._exchanges,
        )

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form; an infinite loss is null."""
        return {
            "lo": self.lo,
            "hi": self.hi,
            "tol": self.tol,
            "points": self.points,
            "bracket": list(self._bracket),
            "losses": [
                [rho, loss if math.isfinite(loss) else None] for rho, loss in self._losses.items()
            ],
            "exchanges": self._exchanges,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> RhoSearch:
        """Read the JSON form back. Raises `StateError` for anything else."""
        try:
            search = cls(
                lo=_number(data["lo"]),
                hi=_number(data["hi"]),
                tol=_number(data["tol"]),
                points=int(_number(data["points"])),
            )
            low, high = _pair(data["bracket"])
            search._bracket = (_number(low), _number(high))
            rows = data["losses"]
            if not isinstance(rows, list):
                raise TypeError("losses are no list")
            for rho, loss in map(_pair, rows):
                search._losses[_number(rho)] = math.inf if loss is None else _number(loss)
            search._exchanges = int(_number(data["exchanges"]))
        except (KeyError, TypeError, ValueError, ConfigError) as error:
            raise StateError(f"rho search: the saved state is damaged ({error})") from error
        return search

    def _around(self, best: float) -> tuple[float, float]:
        low, high = self._bracket
        if low <= best <= high or self._losses[best] >= self._losses[0.0]:
            return low, high
        # The loss has several valleys and golden section went down another one than the best.
        known = sorted(self._losses)
        at = known.index(best)
        return known[at - 1], known[min(at + 1, len(known) - 1)]

    def _narrow(self) -> bool:
        return self._bracket[1] - self._bracket[0] <= self.tol + 10**-DIGITS

    def _interior(self) -> list[float]:
        low, high = self._bracket
        width = high - low
        fractions = (
            [1.0 - GOLDEN, GOLDEN]
            if self.points == 1
            else [i / (self.points + 1) for i in range(1, self.points + 1)]
        )
        return [self._known(_key(low + width * fraction)) for fraction in fractions]

    def _known(self, rho: float) -> float:
        return next((known for known in self._losses if abs(known - rho) < SAME), rho)

    def _shrink(self) -> None:
        low, high = self._bracket
        inner = self._interior()
        if self.points == 1:
            left, right = inner
            # A tie goes to the smaller rho: of two equal models the less personalised one.
            if self._losses[left] <= self._losses[right]:
                self._bracket = (low, right)
            else:
                self._bracket = (left, high)
            return
        grid = [low, *inner, high]
        best = min(range(len(grid)), key=lambda i: (self._losses[grid[i]], i))
        self._bracket = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])


def check_fixed(losses: Mapping[float, float], *, rho: float = 1.0) -> RhoResult:
    """Verdict on a displacement whose rho is not searched: serve it only if it beats rho = 0.

    `losses` holds the validation losses at 0 and at `rho`. Raises `UpdateError` if one is missing.
    """
    if 0.0 not in losses or rho not in losses:
        raise UpdateError(f"checking rho = {rho} needs its loss and that of rho = 0")
    zero, loss = (v if math.isfinite(v) else math.inf for v in (losses[0.0], losses[rho]))
    helped = loss < zero
    return RhoResult(
        rho=rho,
        served=rho if helped else 0.0,
        status=Verdict.FIXED if helped else Verdict.REJECTED,
        bracket=(0.0, rho),
        interval=(0.0, rho),
        loss=loss,
        loss_zero=zero,
        evaluations=2,
        exchanges=1,
    )


def exchanges_needed(*, lo: float, hi: float, tol: float, points: int) -> int:
    """Client exchanges a search takes at most: each cuts the bracket to 2/(points + 1) of it.

    Golden section (`points` = 1) cuts to 0.618. Raises `ConfigError` as `RhoSearch` does.
    """
    _check_interval(lo, hi, tol=tol, points=points)
    factor = GOLDEN if points == 1 else 2.0 / (points + 1)
    width, count = hi - lo, 0
    while width > tol + 10**-DIGITS:
        width *= factor
        count += 1
    return count


def _check_interval(lo: float, hi: float, *, tol: float, points: int) -> None:
    if not (0 <= lo < hi < math.inf):
        raise ConfigError(f"rho interval [{lo}, {hi}]: needs 0 <= low < high")
    if not 0 < tol < hi - lo:
        raise ConfigError(f"rho tolerance {tol}: must lie between 0 and the width {hi - lo}")
    if tol < 1e-6:
        raise ConfigError(f"rho tolerance {tol}: below 1e-6 losses cannot tell rho apart")
    if points != 1 and points < 3:
        raise ConfigError(
            f"rho points {points}: give 1 (golden section) or at least 3; 2 per exchange shrink "
            "the bracket less than golden section does"
        )


def _key(rho: float) -> float:
    return round(float(rho), DIGITS)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _pair(value: object) -> tuple[object, object]:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise TypeError(f"{value!r} is no pair")
    return value[0], value[1]
