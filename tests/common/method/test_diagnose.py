from dataclasses import replace

import numpy as np
import pytest

from regionfed.errors import ConfigError, DataError, UpdateError
from regionfed.method.diagnose import Finding, Thresholds, diagnose
from regionfed.method.dispersion import RegionUnits, average_rounds, disperse, effective_dimensions
from regionfed.method.router import PaperRouter

DIM = 40


def federation(*, regions, clients, odd=(), shift=1.0, noise=1.0, seed=0, decay=0.0, scales=None):
    """Regions share a gradient of length 1; the odd ones differ by `shift` in their own way.

    `noise` is the length of one client's deviation; `decay` concentrates it in few coordinates.
    """
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal(DIM)
    shared /= np.linalg.norm(shared)
    shape = np.exp(-decay * np.arange(DIM))
    shape *= noise / np.linalg.norm(shape)
    out = []
    for r in range(regions):
        own = rng.standard_normal(DIM)
        own *= shift / np.linalg.norm(own)
        mean = shared + (own if r in odd else 0)
        scale = 1.0 if scales is None else scales[r]
        units = mean + scale * shape * rng.standard_normal((clients, DIM))
        out.append(RegionUnits(f"r{r}", units.astype(np.float32), [1] * clients))
    return out


def halves(region):
    middle = len(region.vectors) // 2
    parts = [region.vectors[:middle], region.vectors[middle:]]
    return RegionUnits(
        region.name, np.stack([p.mean(axis=0) for p in parts]), [len(p) for p in parts]
    )


@pytest.mark.parametrize("split", [lambda region: region, halves], ids=["clients", "halves"])
@pytest.mark.parametrize("odd", [(2,), (0, 5), (1, 3, 6)])
def test_conflicting_regions_are_told_from_aligned_ones(odd, split):
    for seed in range(5):
        regions = federation(regions=8, clients=10, odd=odd, shift=1.2, noise=1.0, seed=seed)
        found = diagnose([split(region) for region in regions])
        verdicts = [region.finding is not Finding.ALIGNED for region in found.regions]
        assert verdicts == [r in odd for r in range(8)], seed
        routes = [region.strategy for region in found.regions]
        assert routes == ["residual" if r in odd else "none" for r in range(8)]


def test_all_in_conflict_and_none_in_conflict():
    everyone = federation(regions=6, clients=6, odd=range(6), shift=2.0, noise=0.8)
    assert {r.finding for r in diagnose(everyone).regions} == {Finding.SEVERE}
    for seed in range(10):
        alike = federation(regions=6, clients=6, noise=3.0, seed=seed)
        found = diagnose(alike)
        assert {r.finding for r in found.regions} == {Finding.ALIGNED}
        assert {r.strategy for r in found.regions} == {"none"}


def test_two_regions_that_differ_are_both_in_conflict():
    found = diagnose(federation(regions=2, clients=5, odd=(1,), shift=1.5, noise=0.7))
    assert all(r.finding is not Finding.ALIGNED for r in found.regions)


def test_severity_follows_the_size_of_the_difference_not_its_significance():
    def finding(shift):
        regions = federation(regions=5, clients=10, odd=(0,), shift=shift, noise=0.05)
        return diagnose(regions).regions[0]

    assert finding(0.3).finding is Finding.ALIGNED
    assert finding(0.3).p_value <= 0.01
    assert finding(1.2).finding is Finding.MILD
    assert finding(3.0).finding is Finding.SEVERE
    # Lengths 1 and sqrt(1 + 1.2^2) of the gradients, 1.2 between them.
    assert finding(1.2).relative_gap == pytest.approx(1.2 / np.sqrt((1 + 2.44) / 2), rel=0.15)
    assert "mild" in finding(1.2).explain()
    assert "noise floor" in finding(1.2).explain()


@pytest.mark.parametrize("clients", [2, 5, 10])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_false_alarms_hold_their_level(clients, decay):
    scales = [1, 1, 1, 1, 1.5, 1.5, 0.7, 0.7]
    repeats = 120
    alarms = sum(
        disperse(
            federation(regions=8, clients=clients, seed=seed, decay=decay, scales=scales),
            draws=199,
            seed=seed,
        ).p_values.min()
        <= 0.05
        for seed in range(repeats)
    )
    # Binomial(120, 0.05) exceeds 13 once in 400 times.
    assert alarms <= 13


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_effective_dimensions_err_on_the_low_side(decay):
    spectrum = np.exp(-2 * decay * np.arange(DIM))
    truth = spectrum.sum() ** 2 / (spectrum**2).sum()
    found = []
    for seed in range(50):
        regions = federation(regions=8, clients=10, seed=seed, decay=decay)
        residuals = [r.vectors - r.vectors.mean(axis=0) for r in regions]
        found.append(effective_dimensions(residuals, freedom=72))
    assert truth / 2 - 1 <= np.mean(found) <= truth
    assert effective_dimensions([np.zeros((2, 3))] * 2, freedom=2) == 1


def test_estimates_behind_the_verdict():
    regions = federation(regions=4, clients=8, odd=(3,), shift=2.0, noise=1.0, seed=3)
    gaps = np.mean(
        [
            disperse(
                federation(regions=4, clients=8, odd=(3,), shift=2.0, noise=1.0, seed=s), draws=9
            ).gaps
            for s in range(200)
        ],
        axis=0,
    )
    assert gaps[0, 1] == pytest.approx(0, abs=0.03)
    assert gaps[0, 3] == pytest.approx(4.0, rel=0.05)
    found = diagnose(regions, divergences={"r3": 0.4}, router=PaperRouter())
    assert [r.name for r in found.regions] == ["r0", "r1", "r2", "r3"]
    assert found.regions[3].strategy == "meta"
    assert found.matrix.distances.shape == (4, 4)
    assert found.regions[3].d > found.regions[3].floor
    again = diagnose(regions, divergences={"r3": 0.4}, router=PaperRouter())
    assert again.regions == found.regions


def test_an_aligned_verdict_says_what_the_data_could_not_have_shown():
    blind = diagnose([halves(r) for r in federation(regions=2, clients=6, odd=(0,))]).regions[0]
    assert blind.finding is Finding.ALIGNED
    assert blind.detectable_gap > 1.0
    assert (
        "These data show only relative gaps above" in replace(blind, detectable_gap=1.5).explain()
    )
    nothing = replace(blind, detectable_gap=np.inf).explain()
    assert nothing.startswith("no conflict shown")
    assert "could not have shown a conflict of any size" in nothing
    sharp = diagnose(federation(regions=8, clients=20, noise=0.2)).regions[0]
    assert sharp.detectable_gap < 0.2


def test_identical_clients_without_scatter():
    same = np.ones((3, 4), np.float32)
    regions = [RegionUnits("a", same, [1] * 3), RegionUnits("b", same, [1] * 3)]
    assert {r.finding for r in diagnose(regions).regions} == {Finding.ALIGNED}
    regions[1] = RegionUnits("b", -same, [1] * 3)
    assert all(r.finding is not Finding.ALIGNED for r in diagnose(regions).regions)


def test_rounds_are_averaged_per_unit():
    rng = np.random.default_rng(0)
    rounds = rng.standard_normal((3, 2, 5)).astype(np.float32)
    averaged = average_rounds([list(units) for units in rounds])
    np.testing.assert_allclose(averaged, rounds.mean(axis=0), atol=1e-6)
    with pytest.raises(UpdateError):
        average_rounds([list(rounds[0]), list(rounds[1][:1])])


def test_errors():
    good = federation(regions=2, clients=3)
    with pytest.raises(DataError, match="two halves"):
        RegionUnits("a", np.ones((1, 3), np.float32), [1])
    with pytest.raises(UpdateError, match="one row per unit"):
        RegionUnits("a", np.ones((2, 3), np.float32), [1])
    with pytest.raises(DataError, match="two regions"):
        diagnose(good[:1])
    with pytest.raises(UpdateError, match="length"):
        diagnose([good[0], RegionUnits("b", np.ones((2, 3), np.float32), [1, 1])])
    with pytest.raises(ConfigError, match="draws"):
        diagnose(good, draws=9)
    with pytest.raises(ConfigError):
        Thresholds(level=0)
