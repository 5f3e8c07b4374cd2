"""The user level: durable, bounded, served where it helps, and better for users with own words."""

import json
import stat

import numpy as np
import pytest
from device_runs import device_config

from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.errors import StateError
from regionfed.messages import EvaluateOrder
from regionfed.method.user import UserCalibration
from regionfed.run.folder import RunFolder
from regionfed_client.runtime import ClientRuntime, Shared
from regionfed_client.user import serve_user
from regionfed_client.user_state import UserPart, UserStore


def part(round_, value=1.0, **changes):
    ones = np.ones(5, np.float32)
    fields = {
        "round": round_,
        "regional": value * ones,
        "theta_u": 2 * ones,
        "alpha": 0.5,
        "buffers": None,
        "layout": "digest",
    }
    return UserPart(**{**fields, **changes})


def test_the_store_is_private_and_keeps_the_newest(tmp_path):
    store = UserStore(tmp_path / "region" / "client")
    store.save(part(1), UserCalibration((1.0,)))
    store.save(part(2, value=3.0), UserCalibration((1.0, 2.0)))
    found = store.load()
    assert found.round == 2
    np.testing.assert_allclose(found.model(), 4.0)
    assert store.calibration().conflicts == (1.0, 2.0)
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert len(list(store.folder.glob("*.safetensors"))) == 1


def test_a_crash_in_a_save_leaves_the_earlier_part(tmp_path, monkeypatch):
    store = UserStore(tmp_path / "client")
    store.save(part(1), UserCalibration((1.0,)))

    def crash(*args, **kwargs):
        raise OSError("power cut")

    monkeypatch.setattr("regionfed.run.checkpoint.write_atomically", crash)
    with pytest.raises(OSError, match="power cut"):
        store.save(part(2, value=9.0), UserCalibration((9.0,)))
    monkeypatch.undo()
    found = store.load()
    assert found.round == 1
    np.testing.assert_allclose(found.model(), 2.0)
    assert store.calibration().conflicts == (1.0,)


def test_a_part_that_is_not_served_leaves_the_regional_model():
    np.testing.assert_array_equal(part(1, alpha=0.0).model(), np.ones(5))
    np.testing.assert_array_equal(part(1, theta_u=None, alpha=0.0).model(), np.ones(5))


def test_missing_and_damaged_state_is_named(tmp_path):
    store = UserStore(tmp_path)
    with pytest.raises(StateError, match="keep_model"):
        store.load()
    (tmp_path / "calibration.json").write_text("{")
    with pytest.raises(StateError, match="damaged"):
        store.calibration()


def order(bench, theta, **changes):
    fields = {
        "run": "run",
        "region": "r00",
        "round": 1,
        "digest": "",
        "layout": bench.layout,
        "base": theta,
        "levels": (),
        "user": True,
    }
    return EvaluateOrder(**{**fields, **changes})


def runtime_of(tmp_path, **user):
    config = device_config(
        "roberta", client={"state": str(tmp_path), "user": {"enabled": True, **user}}
    )
    runtime = ClientRuntime(Shared(config), "r00", "c00")
    return runtime, runtime.bench


def test_the_memory_bound_is_checked_before_anything_is_trained(tmp_path):
    runtime, bench = runtime_of(tmp_path, memory_mb=16)
    large = np.zeros((17 << 20) // 4, np.float32)
    with pytest.raises(StateError, match="memory_mb"):
        serve_user(runtime, order(bench, large), large)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_part_that_makes_it_worse_is_not_served(tmp_path):
    runtime, bench = runtime_of(tmp_path, steps=5, learning_rate=3.0)
    theta = bench.flat.read()
    serve_user(runtime, order(bench, theta), theta)
    stored = UserStore.of(runtime).load()
    assert stored.alpha == 0.0
    assert np.abs(stored.theta_u).max() > 0
    np.testing.assert_array_equal(stored.model(), theta)


def test_conflicts_of_earlier_rounds_calibrate_later_ones(tmp_path):
    runtime, bench = runtime_of(tmp_path, steps=8, learning_rate=0.01)
    theta = bench.flat.read()
    update = np.full_like(theta, 1e-3)
    for round_ in (1, 2):
        serve_user(runtime, order(bench, theta, round=round_, region_update=update), theta)
    store = UserStore.of(runtime)
    assert len(store.calibration().conflicts) == 2
    assert store.load().round == 2
    assert 0.5 <= store.load().alpha <= 1.0
    kept = json.loads((store.folder / "calibration.json").read_text())
    assert set(kept) == {"conflicts"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_users_with_words_of_their_own_gain_over_the_region(tmp_path):
    """Three seeds: the user level beats the regional one for words that mean the user's own."""
    gains = []
    for seed in range(1, 4):
        config = FederationConfig.model_validate(
            {
                "run": {"rounds": 6, "evaluate_every": 0, "seed": seed},
                "privacy": {"mode": "off"},
                "data": {
                    "regions": 2,
                    "clients_per_region": 4,
                    "tasks": ["intent", "ner"],
                    "builtin": {
                        "train_queries": 120,
                        "validation_queries": 30,
                        "test_queries": 60,
                        "user_vocabulary": 8,
                        "user_share": 0.5,
                    },
                },
                "model": {"kind": "roberta", "preset": "tiny"},
                "training": {"steps": 15, "learning_rate": 0.005},
                "client": {"user": {"enabled": True, "steps": 120, "learning_rate": 0.003}},
            }
        )
        folder = RunFolder.create(config, out=tmp_path / str(seed))
        result = simulate(config, folder)
        levels = {name: scores.overall for name, scores in result.levels.items()}
        print(seed, levels)
        gains.append(levels["user"] - levels["regional"])
    assert min(gains) > 0.02
