"""Each baseline against what its paper states, and against FedAvg where they must be equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regionfed.bench.federation import Federation
from regionfed.bench.population import open_population
from regionfed.bench.systems import SYSTEMS
from regionfed.bench.systems.apfl import Apfl, ApflOptions
from regionfed.bench.systems.base import Averaging, System
from regionfed.bench.systems.ditto import Ditto, DittoOptions, DittoRegion
from regionfed.bench.systems.fedavg import FedAvg, RegionAware
from regionfed.bench.systems.fedbabu import FedBabu, FedBabuOptions
from regionfed.bench.systems.fedprox import FedProx, FedProxOptions
from regionfed.bench.systems.fedtp import FedTp, FedTpOptions
from regionfed.bench.systems.finetune import Finetune, FinetuneRegion, FinetuneRegionOptions
from regionfed.bench.systems.parts import attention_mask, head_mask
from regionfed.bench.systems.pfedme import PFedMe, PFedMeOptions
from regionfed.bench.systems.regionfed import RegionFed, RegionFedGrad, RegionFedResidual
from regionfed.bench.systems.scaffold import Scaffold, ScaffoldOptions
from regionfed.method.config import MethodConfig, ResidualConfig
from regionfed.method.vectors import Vector
from regionfed.training.gradient import mean_gradient
from regionfed.training.hooks import StepHooks


def run(system: System, rounds: int = 2) -> System:
    for number in range(1, rounds + 1):
        system.round(number)
    return system


def theta_of(system: System) -> Vector:
    assert isinstance(system, (Averaging, RegionFed, FedTp))
    return system.theta


@pytest.fixture
def fedavg(federation: Federation) -> Vector:
    return theta_of(run(FedAvg(federation)))


def test_fedavg_is_the_mean_weighted_by_examples(federation: Federation) -> None:
    system = FedAvg(federation)
    start = system.theta
    expected = np.zeros(start.size)
    total = 0
    for region in federation.population.regions:
        for member in federation.cohort(region, 1):
            update = federation.train(member, start=start, number=1).update
            expected += member.examples * update.astype(np.float64)
            total += member.examples
    system.round(1)
    np.testing.assert_allclose(system.theta, start - expected / total, atol=1e-6)
    assert not np.array_equal(system.theta, start)


def test_stacked_clients_are_trained_as_one_by_one(make_federation: Any, fedavg: Vector) -> None:
    stacked = theta_of(run(FedAvg(make_federation(stack=True))))
    np.testing.assert_allclose(stacked, fedavg, atol=1e-5)


def test_region_aware_equals_fedavg_where_all_clients_have_equally_many_rows(
    federation: Federation, fedavg: Vector
) -> None:
    np.testing.assert_allclose(theta_of(run(RegionAware(federation))), fedavg, atol=1e-6)


def test_fedprox_without_a_pull_is_fedavg_bit_for_bit(
    federation: Federation, fedavg: Vector
) -> None:
    system = run(FedProx(federation, FedProxOptions(mu=0.0)))
    assert np.array_equal(theta_of(system), fedavg)


def test_fedprox_pulls_towards_theta(federation: Federation, fedavg: Vector) -> None:
    start = federation.population.initial
    near = theta_of(run(FedProx(federation, FedProxOptions(mu=5.0)), rounds=1))
    free = theta_of(run(FedAvg(federation), rounds=1))
    assert np.linalg.norm(near - start) < np.linalg.norm(free - start)


@pytest.mark.parametrize("control", ["gradient", "path"])
def test_scaffolds_control_variates_sum_to_zero(federation: Federation, control: str) -> None:
    system = Scaffold(federation, ScaffoldOptions.model_validate({"control": control}))
    run(system, rounds=3)
    own = np.sum([vector.astype(np.float64) for vector in system.own.values()], axis=0)
    assert np.linalg.norm(system.common) > 0
    # The mean over all clients; those that were never asked hold 0.
    np.testing.assert_allclose(own / system.members, system.common, atol=2e-6)


def test_scaffolds_first_round_is_fedavgs_bit_for_bit(federation: Federation) -> None:
    assert np.array_equal(
        theta_of(run(Scaffold(federation), rounds=1)), theta_of(run(FedAvg(federation), rounds=1))
    )


def test_scaffolds_second_option_is_the_displacement_under_sgd(make_federation: Any) -> None:
    training = {"optimizer": "sgd", "learning_rate": 0.05, "steps": 3}
    federation = make_federation(training=training)
    system = Scaffold(federation, ScaffoldOptions(control="path"))
    run(system, rounds=1)
    before, common, theta = dict(system.own), system.common, system.theta
    system.round(2)
    asked = 0
    for region in federation.population.regions:
        for member in federation.cohort(region, 2):
            key = (member.region, member.client)
            known = before.get(key)
            correction = common if known is None else common - known
            result = federation.train(
                member, start=theta, number=2, hooks=StepHooks(correction=correction)
            )
            # c_i - c + (x - y)/(K*eta), Karimireddy et al., equation 4.
            expected = result.update / np.float32(result.steps * 0.05) - correction
            np.testing.assert_allclose(system.own[key], expected, atol=2e-4)
            asked += 1
    assert asked


def test_ditto_without_a_pull_is_local_training_bit_for_bit(federation: Federation) -> None:
    system = run(Ditto(federation, DittoOptions(strength=0.0)), rounds=3)
    assert isinstance(system, Ditto)
    for region in federation.population.regions:
        for member in federation.population.members[region]:
            local = federation.population.initial
            asked = False
            for number in range(1, 4):
                if member in federation.cohort(region, number):
                    asked = True
                    local = (
                        local
                        - federation.train(
                            member, start=local, number=number, salt=("personal",)
                        ).update
                    )
            served = system.served(3, final=True).personal
            assert served is not None
            expected = local if asked else system.theta
            assert np.array_equal(served(member), expected)


def test_dittos_theta_is_fedavgs_bit_for_bit(federation: Federation, fedavg: Vector) -> None:
    assert np.array_equal(theta_of(run(Ditto(federation))), fedavg)
    assert np.array_equal(theta_of(run(DittoRegion(federation))), fedavg)


def test_dittos_personal_model_nears_theta_as_the_pull_grows(federation: Federation) -> None:
    def gap(strength: float) -> float:
        system = DittoRegion(federation, DittoOptions(strength=strength))
        run(system, rounds=1)
        start = federation.population.initial
        return float(sum(np.linalg.norm(v - start) for v in system.own.values()))

    assert gap(5.0) < gap(0.5) < gap(0.0)


def test_apfl_without_a_local_share_serves_the_global_model(
    federation: Federation, fedavg: Vector
) -> None:
    system = run(Apfl(federation, ApflOptions(alpha=0.0)))
    personal = system.served(2, final=True).personal
    assert personal is not None
    for member in federation.population.everyone():
        assert np.array_equal(personal(member), fedavg)


def test_apfls_theta_is_fedavgs_and_its_mixture_is_not(
    federation: Federation, fedavg: Vector
) -> None:
    system = run(Apfl(federation, ApflOptions(alpha=0.5)))
    assert np.array_equal(theta_of(system), fedavg)
    member = federation.cohort(federation.population.regions[0], 1)[0]
    personal = system.served(2, final=True).personal
    assert personal is not None
    assert not np.array_equal(personal(member), fedavg)


def test_apfl_with_a_full_local_share_is_local_training(federation: Federation) -> None:
    system = run(Apfl(federation, ApflOptions(alpha=1.0)), rounds=1)
    assert isinstance(system, Apfl)
    member = federation.cohort(federation.population.regions[0], 1)[0]
    start = federation.population.initial
    local = start - federation.train(member, start=start, number=1, salt=("local",)).update
    np.testing.assert_allclose(system.own[member.region, member.client], local, atol=1e-7)


def test_fedbabus_head_is_unchanged_during_federation_and_tuned_after(
    federation: Federation,
) -> None:
    system = FedBabu(federation, FedBabuOptions(steps=2, learning_rate=0.1))
    run(system, rounds=2)
    initial = federation.population.initial
    assert np.array_equal(system.theta[system.head], initial[system.head])
    assert not np.array_equal(system.theta[~system.head], initial[~system.head])
    personal = system.served(2, final=True).personal
    assert personal is not None
    tuned = personal(federation.population.everyone()[0])
    assert not np.array_equal(tuned[system.head], initial[system.head])


def test_fedbabu_that_tunes_the_head_leaves_the_body(federation: Federation) -> None:
    system = FedBabu(federation, FedBabuOptions(tune="head", steps=2, learning_rate=0.1))
    run(system, rounds=1)
    personal = system.served(1, final=True).personal
    assert personal is not None
    tuned = personal(federation.population.everyone()[0])
    assert np.array_equal(tuned[~system.head], system.theta[~system.head])


def test_fedbabu_sends_the_body_alone(federation: Federation) -> None:
    system = FedBabu(federation)
    run(system, rounds=1)
    clients = sum(len(federation.cohort(r, 1)) for r in federation.population.regions)
    assert system.cost.up == pytest.approx(clients * (1 - head_mask(federation.population).mean()))


def test_pfedmes_inner_problem_converges(make_federation: Any) -> None:
    """At the minimum of f_i + lambda/2*||theta - w||^2 the gradient vanishes."""
    federation = make_federation(training={"steps": 800, "batch_size": 512, "learning_rate": 0.05})
    system = PFedMe(federation, PFedMeOptions(strength=2.0, inner=800, rate=1.0))
    population = federation.population
    member = population.everyone()[0]
    theta_i, anchor = system.solve(member, number=1)
    slope = mean_gradient(
        population.model, population.flat, member.train, federation.training, at=theta_i
    ).gradient
    wanted = 2.0 * (system.theta - theta_i)
    assert np.linalg.norm(slope) > 1e-3
    assert np.linalg.norm(slope - wanted) < 0.02 * np.linalg.norm(slope)
    np.testing.assert_allclose(anchor, theta_i, atol=1e-7)


def test_pfedme_without_a_pull_and_with_all_steps_inner_is_fedavgs_update(
    federation: Federation,
) -> None:
    """lambda = 0 and eta*lambda = 1: w_i moves to the end of plain local training."""
    system = PFedMe(federation, PFedMeOptions(strength=0.0, inner=3, rate=1.0))
    member = federation.population.everyone()[0]
    theta_i, _ = system.solve(member, number=1)
    plain = federation.train(member, start=system.theta, number=1, salt=("", "inner0")).update
    np.testing.assert_allclose(theta_i, system.theta - plain, atol=1e-7)


def test_fedtp_leaves_what_is_not_attention_to_fedavg(federation: Federation) -> None:
    """With M = 0 all clients start alike, so the first round is FedAvg's."""
    system = FedTp(federation, FedTpOptions(learning_rate=0.5))
    run(system, rounds=1)
    np.testing.assert_allclose(system.theta, theta_of(run(FedAvg(federation), rounds=1)), atol=1e-6)
    first, second = federation.population.everyone()[:2]
    differing = system.personal(first) != system.personal(second)
    assert differing.any()
    assert not differing[~attention_mask(federation.population)].any()


def test_fine_tuning_federates_as_fedavg(federation: Federation, fedavg: Vector) -> None:
    assert np.array_equal(theta_of(run(Finetune(federation))), fedavg)


def test_tuning_by_region_takes_no_more_rounds_than_fedavg(make_federation: Any) -> None:
    federation = make_federation(run={"seed": 3, "rounds": 3})
    system = FinetuneRegion(federation, FinetuneRegionOptions(rounds=1))
    plain = FedAvg(federation)
    run(system, rounds=2)
    run(plain, rounds=2)
    assert np.array_equal(system.theta, plain.theta)
    assert not system.tuned
    system.round(3)
    plain.round(3)
    assert set(system.tuned) == set(federation.population.regions)
    assert (system.cost.down, system.cost.up) == (plain.cost.down, plain.cost.up)


def test_grad_never_changes_theta(federation: Federation) -> None:
    assert np.array_equal(
        theta_of(run(RegionFedGrad(federation))), theta_of(run(RegionAware(federation)))
    )


def test_residual_without_a_step_is_region_aware_fedavg(make_federation: Any) -> None:
    method = MethodConfig(residual=ResidualConfig(learning_rate=1e-30)).model_dump()
    federation = make_federation(method=method)
    np.testing.assert_allclose(
        theta_of(run(RegionFedResidual(federation))),
        theta_of(run(RegionAware(federation))),
        atol=1e-7,
    )


def test_residuals_parts_cancel_over_the_regions(federation: Federation) -> None:
    """With equal weights the g_r - g sum to zero, and so do all theta_r."""
    system = RegionFedResidual(federation)
    run(system, rounds=3)
    parts = [memory.theta_r for memory in system.regions.values()]
    assert all(part is not None and np.linalg.norm(part) > 1e-3 for part in parts)
    total = np.sum([part for part in parts if part is not None], axis=0)
    assert np.abs(total).max() < 1e-5


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_every_system_runs_and_serves_every_region(make_federation: Any, name: str) -> None:
    kind = SYSTEMS[name]
    plain = make_federation()
    federation = Federation(plain.config, open_population(plain.config, marked=kind.needs_marks))
    system = kind(federation)
    run(system)
    served = system.served(2, final=True)
    for member in federation.population.everyone():
        vector = served.regional(member.region)
        assert vector.shape == federation.population.initial.shape
        if served.personal is not None:
            vector = served.personal(member)
        assert np.isfinite(vector).all()
        assert not np.array_equal(vector, federation.population.initial)
