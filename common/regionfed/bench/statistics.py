"""Means over seeds and paired differences with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import Field

from regionfed.errors import ConfigError
from regionfed.run.scores import Record

CONFIDENCE = 0.95


class Interval(Record):
    """A mean over seeds with its two-sided 95% interval (Student's t).

    With a single value there is no interval, and `low` and `high` are infinite.
    """

    mean: float = Field(description="Mean.")
    sd: float = Field(description="Sample standard deviation; 0 for a single value.")
    low: float = Field(description="Lower end.")
    high: float = Field(description="Upper end.")
    count: int = Field(description="Number of values.")

    @property
    def certain(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low > 0 or self.high < 0


def interval(values: Sequence[float]) -> Interval:
    """Mean, deviation and interval. Raises `ValueError` for no values."""
    if not values:
        raise ValueError("no values to summarise")
    array = np.asarray(values, dtype=np.float64)
    mean = float(array.mean())
    if array.size == 1:
        return Interval(mean=mean, sd=0.0, low=-math.inf, high=math.inf, count=1)
    sd = float(array.std(ddof=1))
    half = _student(array.size - 1) * sd / math.sqrt(array.size)
    return Interval(mean=mean, sd=sd, low=mean - half, high=mean + half, count=array.size)


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Interval | None:
    """The difference first minus second over the seeds that both have; None without any.

    Seeds decide data, initial model, selection and batches alike, so their effect cancels.
    """
    common = sorted(set(first) & set(second))
    return interval([first[seed] - second[seed] for seed in common]) if common else None


def _student(freedom: int) -> float:
    """The two-sided 95% quantile of Student's t."""
    try:
        from scipy.stats import t
    except ImportError:
        raise ConfigError(
            "intervals over seeds need scipy: pip install 'regionfed[report]'"
        ) from None
    return float(t.ppf(0.5 + CONFIDENCE / 2, freedom))
