"""The traps of privacy section 7: what the libraries would say, and that nothing here says it."""

from __future__ import annotations

import dp_accounting
import pytest
from dp_accounting import NeighboringRelation as Relation
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from regionfed.privacy.accountant import epsilon, spend
from regionfed.privacy.events import RegionalMeanRelease, Sampling, TrainingUpdate, Unit

DELTA, ROUNDS = 1e-5, 50


def fifty(release: dp_accounting.DpEvent) -> dp_accounting.DpEvent:
    return dp_accounting.SelfComposedDpEvent(release, ROUNDS)


def test_fixed_size_sampling_is_never_taken_for_amplification() -> None:
    sampled = dp_accounting.SampledWithoutReplacementDpEvent(
        100, 10, dp_accounting.GaussianDpEvent(4.0)
    )
    trap = RdpAccountant(neighboring_relation=Relation.REPLACE_ONE)
    trap.compose(fifty(sampled))
    # What Flower's accountant is built on; one client can change a sum by 2C there.
    assert trap.get_epsilon(DELTA) == pytest.approx(1.5750, abs=5e-4)
    events = [
        TrainingUpdate(round=number, noise_multiplier=4.0, sampling=Sampling.FIXED, sample_rate=0.1)
        for number in range(ROUNDS)
    ]
    spent = spend(events, delta=DELTA)
    assert spent.eps_external == spent.eps_coordinator == pytest.approx(8.5959, abs=5e-4)
    assert spent.eps_pld == pytest.approx(8.5959, abs=5e-4)
    assert spent.eps_rdp == pytest.approx(9.2350, abs=5e-4)
    for participations in (5, 10, 50):
        bounded = spend(events, delta=DELTA, max_participations=participations)
        told = (bounded.eps_coordinator, bounded.eps_pld, bounded.eps_rdp, bounded.eps_external)
        assert all(abs(figure - 1.5750) > 0.1 for figure in told)


def test_the_libraries_accountants_differ_by_relation_and_ours_do_not() -> None:
    gaussian = fifty(dp_accounting.GaussianDpEvent(4.0))
    figures = {}
    for relation in (Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE):
        rdp = RdpAccountant(neighboring_relation=relation)
        pld = PLDAccountant(neighboring_relation=relation)
        for accountant in (rdp, pld):
            accountant.compose(gaussian)
        figures[relation] = (rdp.get_epsilon(DELTA), pld.get_epsilon(DELTA))
    # RDP takes the multiplier relative to the sensitivity under the relation, PLD relative to
    # add/remove: under replace-one the two speak of different noise.
    assert figures[Relation.REPLACE_ONE] == (
        pytest.approx(9.2350, abs=5e-4),
        pytest.approx(20.676, abs=1e-3),
    )
    ours = tuple(
        epsilon(noise_multiplier=4.0, rounds=ROUNDS, delta=DELTA, accountant=name)
        for name in ("rdp", "pld")
    )
    assert ours == pytest.approx(figures[Relation.ADD_OR_REMOVE_ONE], abs=5e-4)


def test_paper_mode_counts_2c_for_a_client_and_c_for_the_region() -> None:
    events = [RegionalMeanRelease(round=number, noise_multiplier=4.0) for number in range(ROUNDS)]
    region = spend(events, delta=DELTA, unit=Unit.REGION)
    client = spend(events, delta=DELTA, unit=Unit.CLIENT)
    assert region.eps_coordinator == pytest.approx(8.5959, abs=5e-4)
    assert client.eps_coordinator == pytest.approx(20.676, abs=1e-3)
