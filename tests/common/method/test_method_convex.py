"""The method's functions against a straight-line computation on quadratics, over five rounds.

Client u of region r has L_u(x) = 1/2 (x - b_u)' A_u (x - b_u). The reference below knows nothing
of the package: plain float64 formulas in the order of algorithm section 3.
"""

import numpy as np
import pytest

from regionfed.method.compose import compose
from regionfed.method.conflict import calibrate_mu, conflict
from regionfed.method.rho import RhoSearch
from regionfed.method.server_opt import ServerState, Sgd, derive_mean_update
from regionfed.method.strategies import Grad, Interp, Meta, RegionView, Residual
from regionfed.method.strength import strength
from regionfed.method.vectors import weighted_mean

REGIONS, CLIENTS, DIM, ROUNDS = 4, 3, 6, 5
ETA, LOCAL_RATE, LOCAL_STEPS, INNER_RATE = 0.5, 0.1, 4, 0.05
ETA_RES, DECAY = 0.3, 0.05


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(7)
    roots = rng.standard_normal((REGIONS, CLIENTS, DIM, DIM)) * 0.3
    a = roots @ roots.transpose(0, 1, 3, 2) + 0.3 * np.eye(DIM)
    b = rng.standard_normal((REGIONS, 1, DIM)) + 0.1 * rng.standard_normal((REGIONS, CLIENTS, DIM))
    return a, b


def reference(problem, strategy):
    a, b = problem
    x = np.zeros(DIM)
    residual = np.zeros((REGIONS, DIM))
    mu, rows = None, []
    for _ in range(ROUNDS):
        start = [x + residual[r] if strategy == "residual" else x for r in range(REGIONS)]
        g = np.zeros((REGIONS, DIM))
        for r in range(REGIONS):
            for u in range(CLIENTS):
                g[r] += a[r, u] @ (start[r] - b[r, u]) / CLIENTS
        mean = g.sum(axis=0) / REGIONS
        x = x - ETA * mean
        d = np.sqrt(((g - mean) ** 2).sum(axis=1))
        mu = (np.sort(d)[1] + np.sort(d)[2]) / 2 if mu is None else mu
        for r in range(REGIONS):
            alpha = 0.5 + 0.5 / (1 + np.exp(-(d[r] - mu) / mu))
            if strategy == "residual":
                residual[r] = (1 - DECAY) * residual[r] - ETA_RES * (g[r] - mean)
                rows.append((d[r], 1.0, 1.0, x + residual[r]))
                continue
            v = np.zeros(DIM)
            if strategy == "grad":
                v = mean - g[r]
            for u in range(CLIENTS):
                y = x.copy()
                if strategy == "interp":
                    for _ in range(LOCAL_STEPS):
                        y -= LOCAL_RATE * a[r, u] @ (y - b[r, u])
                    v += (y - x) / CLIENTS
                elif strategy == "meta":
                    v -= a[r, u] @ (x - b[r, u]) / CLIENTS
                elif strategy == "meta-2":
                    first = a[r, u] @ (x - b[r, u])
                    second = a[r, u] @ (x - INNER_RATE * first - b[r, u])
                    v -= (first + second) / 2 / CLIENTS
            losses = []
            for rho in np.arange(0, 41) / 40:
                e = x + alpha * rho * v - b[r]
                losses.append(np.einsum("ui,uij,uj->", e, a[r], e) / 2 / CLIENTS)
            rho = np.argmin(losses) / 40
            rows.append((d[r], alpha, rho, x + alpha * rho * v))
    return rows


def client_gradient(problem, r, u, theta):
    a, b = problem
    return (a[r, u] @ (theta.astype(np.float64) - b[r, u])).astype(np.float32)


def answer(problem, r, needs, theta):
    """What the region's clients send back for the work a strategy declares."""
    answers = []
    for u in range(CLIENTS):
        here, gradients = theta.copy(), []
        rate, steps = (
            (LOCAL_RATE, LOCAL_STEPS)
            if needs.work == "local-training"
            else (INNER_RATE, needs.steps)
        )
        for _ in range(steps):
            gradients.append(client_gradient(problem, r, u, here))
            here = here - np.float32(rate) * gradients[-1]
        answers.append(theta - here if needs.work == "local-training" else weighted_mean(gradients))
    return weighted_mean(answers)


def region_loss(problem, r, theta):
    a, b = problem
    e = theta.astype(np.float64) - b[r]
    return np.einsum("ui,uij,uj->", e, a[r], e) / 2 / CLIENTS


def composed(problem, strategy):
    needs, server = strategy.needs, Sgd(ETA)
    theta, state = np.zeros(DIM, np.float32), ServerState()
    kept = [None] * REGIONS
    mu, rows = None, []
    for _ in range(ROUNDS):
        updates = []
        for r in range(REGIONS):
            start = compose(theta, regional=kept[r])
            updates.append(
                weighted_mean([client_gradient(problem, r, u, start) for u in range(CLIENTS)])
            )
        before = theta
        theta, state = server.step(theta, weighted_mean(updates), state)
        g = derive_mean_update(before, theta, eta=ETA)
        d = [conflict(update, g) for update in updates]
        mu = calibrate_mu(d) if mu is None else mu
        for r in range(REGIONS):
            alpha = strength(d[r], mu=mu, scale="scale-free") if needs.scales_with_alpha else 1.0
            worked = answer(problem, r, needs, theta) if needs.work != "none" else None
            v = strategy.displacement(
                RegionView(updates[r], g, client_answer=worked, state=kept[r])
            )
            rho = 1.0
            if needs.stateful:
                kept[r] = v
            if needs.searches_rho:
                search = RhoSearch(points=39)
                while not search.done:
                    search.update(
                        {
                            rho: region_loss(
                                problem, r, compose(theta, regional=v, alpha_region=alpha * rho)
                            )
                            for rho in search.pending()
                        }
                    )
                rho = search.result().served
            rows.append((d[r], alpha, rho, compose(theta, regional=v, alpha_region=alpha * rho)))
    return rows


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("grad", Grad()),
        ("interp", Interp()),
        ("meta", Meta()),
        ("meta-2", Meta(steps=2)),
        ("residual", Residual(eta_res=ETA_RES, decay=DECAY)),
    ],
)
def test_five_rounds_agree(problem, name, strategy):
    expected, found = reference(problem, name), composed(problem, strategy)
    assert len(expected) == len(found) == REGIONS * ROUNDS
    for want, got in zip(expected, found, strict=True):
        np.testing.assert_allclose(got[:2], want[:2], atol=1e-6)
        assert got[2] == pytest.approx(want[2], abs=1e-12)
        np.testing.assert_allclose(got[3], want[3], atol=1e-6)
    # The search must have had something to decide, or agreement says little.
    assert any(row[2] > 0 for row in expected)
