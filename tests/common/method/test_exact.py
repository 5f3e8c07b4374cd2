"""The order-free mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regionfed.errors import UpdateError
from regionfed.method.exact import ExactMean


def mean_of(vectors: list[np.ndarray], weights: list[int]) -> np.ndarray:
    total = ExactMean(vectors[0].size)
    for vector, weight in zip(vectors, weights, strict=True):
        total.add(vector, weight)
    return total.mean()


@given(st.integers(0, 2**32), st.integers(2, 9))
def test_the_order_of_terms_does_not_change_a_bit(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = [
        (rng.standard_normal(17) * 10.0 ** rng.integers(-6, 2)).astype(np.float32)
        for _ in range(count)
    ]
    weights = [int(w) for w in rng.integers(1, 50, count)]
    order = rng.permutation(count)
    one = mean_of(vectors, weights)
    other = mean_of([vectors[i] for i in order], [weights[i] for i in order])
    assert one.tobytes() == other.tobytes()
    exact = np.average(np.array(vectors, dtype=np.float64), axis=0, weights=weights)
    np.testing.assert_allclose(one, exact, rtol=1e-6, atol=1e-10)


def test_a_term_that_could_overflow_is_refused_and_not_added() -> None:
    total = ExactMean(2)
    total.add(np.array([1, 2], dtype=np.float32))
    with pytest.raises(UpdateError, match="does not fit the exact sum"):
        total.add(np.array([1e9, 0], dtype=np.float32), 1000)
    np.testing.assert_array_equal(total.mean(), [1, 2])


def test_the_rest_of_a_part_is_the_mean_of_the_other_terms() -> None:
    total, part = ExactMean(1), ExactMean(1)
    for index, value in enumerate([1.0, 2.0, 6.0]):
        vector = np.array([value], dtype=np.float32)
        total.add(vector, 2)
        if index == 0:
            part.add(vector, 2)
    rest = total.without(part)
    assert rest.mean()[0] == 4.0
    assert (rest.terms, rest.weight, rest.effective) == (2, 4, 2.0)


@pytest.mark.parametrize(("shape", "weight"), [((3,), 1), ((2,), 0)])
def test_a_wrong_shape_or_weight_is_refused(shape: tuple[int], weight: int) -> None:
    with pytest.raises(UpdateError):
        ExactMean(2).add(np.ones(shape, dtype=np.float32), weight)
