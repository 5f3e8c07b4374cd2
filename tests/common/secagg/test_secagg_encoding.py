"""Encoding: exact where it can be, unbiased where it rounds, closed where it would wrap."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regionfed.secagg import Block, SecAggConfig, decode, encode, signed_sum
from regionfed.secagg import errors as e


def config(length: int = 4, **terms: float) -> SecAggConfig:
    block = Block("update", length, **({"clip": 1.0, "scale": 2.0**20} | terms))
    return SecAggConfig(blocks=(block,), directory=bytes(32))


def spikes(scale: float) -> np.ndarray:
    """The sum of 1000 unit spikes on one coordinate, without the range check."""
    terms = config(scale=scale)
    words = encode({"update": np.array([1.0, 0, 0, 0])}, terms)
    return np.sum([words] * 1000, axis=0, dtype=np.uint32)


def test_a_thousand_aligned_unit_spikes_add_up() -> None:
    terms = config()
    terms.check_cohort(1000)
    steps = signed_sum(spikes(2.0**20), terms, clients=1000)["update"]
    assert decode(steps, terms.blocks[0]).tolist() == [1000.0, 0, 0, 0]


def test_at_four_times_the_scale_they_would_wrap_and_are_refused() -> None:
    terms = config(scale=2.0**22)
    total = spikes(2.0**22)
    assert decode(total.view(np.int32), terms.blocks[0])[0] == -24.0
    with pytest.raises(e.ValueOutOfRange, match="wrap"):
        terms.check_cohort(1000)
    with pytest.raises(e.ValueOutOfRange):
        signed_sum(total, terms, clients=1000)


def test_the_specified_scale_is_safe_to_about_two_thousand_clients() -> None:
    config().check_cohort(2000)
    with pytest.raises(e.ValueOutOfRange):
        config().check_cohort(2048)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_value_that_is_not_finite_is_refused(bad: float, dtype: type) -> None:
    values = np.zeros(200_000, dtype=dtype)
    values[-1] = bad
    with pytest.raises(e.NotFinite, match="update"):
        encode({"update": values}, config(len(values)))


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(4, dtype=np.int64),
        np.zeros(4, dtype=np.float16),
        np.zeros(5, dtype=np.float32),
        np.zeros((2, 2), dtype=np.float32),
    ],
    ids=str,
)
def test_a_block_of_wrong_type_or_shape_is_refused(values: np.ndarray) -> None:
    with pytest.raises(e.VectorInvalid, match="update"):
        encode({"update": values}, config())


def test_blocks_must_be_those_of_the_configuration() -> None:
    for blocks in ({}, {"other": np.zeros(4)}, {"update": np.zeros(4), "other": np.zeros(4)}):
        with pytest.raises(e.VectorInvalid, match="sums the blocks"):
            encode(blocks, config())


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40),
    st.floats(0.01, 100),
    st.integers(4, 20),
)
def test_the_encoded_norm_stays_below_the_effective_clip(
    values: list[float], clip: float, bits: int
) -> None:
    terms = config(len(values), clip=clip, scale=2.0**bits)
    block = terms.blocks[0]
    steps = encode({"update": np.array(values)}, terms).view(np.int32).astype(np.float64)
    assert np.linalg.norm(steps / block.scale) <= block.effective_clip * (1 + 1e-12)
    assert np.abs(steps).max() <= block.bound


def test_the_effective_clip_charges_the_rounding() -> None:
    block = Block("update", 60_500_000, clip=0.5, scale=2.0**20)
    expected = 0.5 * (1 + math.sqrt(60_500_000) / (2.0**20 * 0.5))
    assert block.effective_clip == pytest.approx(expected, rel=1e-14)


def test_rounding_is_unbiased() -> None:
    terms = config(200_000, clip=1e6, scale=1.0)
    values = np.full(200_000, 0.3)
    steps = encode({"update": values}, terms, rng=np.random.default_rng(0)).view(np.int32)
    assert set(np.unique(steps)) == {0, 1}
    assert steps.mean() == pytest.approx(0.3, abs=4 * math.sqrt(0.21 / 200_000))


def test_rounding_differs_between_calls_unless_seeded() -> None:
    terms = config(1000, clip=1e3, scale=1.0)
    values = {"update": np.full(1000, 0.5)}
    assert np.any(encode(values, terms) != encode(values, terms))
    first, second = (encode(values, terms, rng=np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_clip_is_over_all_blocks_of_the_loop() -> None:
    """The norm and the scaling run in chunks; a long vector must be clipped as one."""
    size = 3 * (1 << 16) + 5
    values = np.ones(size, dtype=np.float32)
    terms = config(size)
    steps = encode({"update": values}, terms).view(np.int32)
    expected = 2.0**20 / math.sqrt(size)
    assert np.all(np.abs(steps - expected) <= 1)


def test_device_noise_is_added_and_bounded() -> None:
    terms = config(4, device_noise_std=3.0)
    noise = {"update": np.array([0, 5, -7, 30], dtype=np.int64)}
    steps = encode({"update": np.zeros(4)}, terms, device_noise=noise).view(np.int32)
    assert steps.tolist() == [0, 5, -7, 30]
    noise["update"][0] = terms.blocks[0].bound + 1
    with pytest.raises(e.ValueOutOfRange, match="nothing is sent"):
        encode({"update": np.zeros(4)}, terms, device_noise=noise)
    with pytest.raises(e.VectorInvalid, match="device noise"):
        encode({"update": np.zeros(4)}, terms)
    with pytest.raises(e.VectorInvalid, match="int64"):
        encode({"update": np.zeros(4)}, terms, device_noise={"update": np.zeros(4)})


@pytest.mark.parametrize(
    "change",
    [
        {"min_cohort": 2},
        {"threshold_numerator": 1, "threshold_denominator": 2},
        {"threshold_numerator": 4},
        {"modulus_bits": 16},
        {"neighbours": 21},
        {"directory": b""},
        {"blocks": ()},
    ],
)
def test_a_configuration_against_the_rules_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(e.ConfigurationInvalid):
        replace(config(), **change)


@pytest.mark.parametrize(
    "terms",
    [{"clip": 0.0}, {"scale": -1.0}, {"clip": math.nan}, {"scale": math.inf}, {"length": 0}],
)
def test_a_block_against_the_rules_is_refused(terms: dict[str, float]) -> None:
    with pytest.raises(e.ConfigurationInvalid, match="update"):
        replace(config().blocks[0], **terms)


@pytest.mark.parametrize("clients", range(3, 400))
def test_the_threshold_is_at_least_two_thirds(clients: int) -> None:
    assert config().threshold(clients) == math.ceil(2 * clients / 3)
