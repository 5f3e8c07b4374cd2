"""Rivals through the tiers: after a crash, over processes, and what crosses a hop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_convex_federation import CLIENTS, REGIONS, configure, region_state, write_rows

import regionfed_client.train as training
from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.flower.local import LocalGrid
from regionfed.launch import LocalFederation
from regionfed.messages import message_kind
from regionfed.run.checkpoint import CheckpointStore
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent

ENROLLED = REGIONS * CLIENTS
VECTORS = {"scaffold": "control", "ditto": "personal"}


def prepare(
    tmp_path: Path, strategy: str, **changes: dict[str, Any]
) -> tuple[FederationConfig, RunFolder]:
    write_rows(tmp_path / "rows.jsonl")
    given = configure(tmp_path / "rows.jsonl", "none").model_dump(mode="json")
    given["method"]["strategy"] = strategy
    for section, values in changes.items():
        given[section].update(values)
    config = FederationConfig.model_validate(given)
    return config, RunFolder.create(config, out=tmp_path / "run")


def arrays(folder: RunFolder) -> dict[str, bytes]:
    checkpoint = folder.checkpoints(2).load_latest()
    assert checkpoint is not None
    return {name: array.tobytes() for name, array in checkpoint.arrays.items()}


def kept(folder: RunFolder, strategy: str) -> dict[str, np.ndarray]:
    """The newest vector of every device."""
    found = {}
    for path in sorted((folder.path / "clients").glob(f"*/*/{VECTORS[strategy]}")):
        newest = CheckpointStore(path).load_latest()
        assert newest is not None
        found[f"{path.parent.parent.name}/{path.parent.name}"] = newest.arrays["vector"]
    return found


class _Crash(Exception):
    """Stands for the end of the process."""


def run_until(config: FederationConfig, folder: RunFolder, *, round: int, phase: str) -> None:
    def crash(event: ProgressEvent) -> None:
        if event.tier == "server" and (event.round, event.phase) == (round, phase):
            raise _Crash

    with pytest.raises(_Crash):
        simulate(config, folder, crash)


@pytest.mark.parametrize("strategy", sorted(VECTORS))
@pytest.mark.parametrize(
    ("phase", "back"), [("train", False), ("evaluate", False), ("train", True)]
)
def test_a_resumed_run_goes_on_with_the_devices_vectors(
    tmp_path: Path, strategy: str, phase: str, back: bool
) -> None:
    config, whole = prepare(tmp_path, strategy)
    simulate(config, whole)
    cut = RunFolder.create(config, out=tmp_path / "cut")
    run_until(config, cut, round=4, phase=phase)
    if back:
        # The newest checkpoint is lost, and the server goes back by one more round.
        newest = cut.checkpoints(2).rounds()[-1]
        (cut.checkpoint_folder / f"round-{newest:06d}.json").unlink()
    simulate(config, RunFolder.create(config, out=cut.path, resume=True))
    assert arrays(cut) == arrays(whole)
    mine, undisturbed = kept(cut, strategy), kept(whole, strategy)
    assert mine.keys() == undisturbed.keys()
    assert len(mine) == ENROLLED
    for name, vector in mine.items():
        np.testing.assert_array_equal(vector, undisturbed[name])


def test_c_is_the_mean_of_all_c_i_though_an_answer_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client whose answer of round 2 is no use goes on from its c_i of round 1."""
    original = training.train_client

    def train(runtime: Any, order: Any) -> Any:
        answer = original(runtime, order)
        if (runtime.region, runtime.client, order.round) == ("r1", "c2", 2):
            return replace(answer, control=answer.control * np.float32("nan"))
        return answer

    monkeypatch.setattr(training, "train_client", train)
    config, folder = prepare(tmp_path, "scaffold")
    result = simulate(config, folder)
    assert [(left.region, left.client, left.round) for left in result.left_out] == [("r1", "c2", 2)]
    assert "control holds NaN" in result.left_out[0].reason
    checkpoint = folder.checkpoints(1).load_latest()
    assert checkpoint is not None
    control, own = checkpoint.arrays["control"], kept(folder, "scaffold")
    assert len(own) == ENROLLED
    assert np.linalg.norm(control) > 0
    total = np.sum([vector.astype(np.float64) for vector in own.values()], axis=0)
    np.testing.assert_allclose(total / ENROLLED, control, atol=2e-6)
    assert region_state(folder, "r1").control["c2"] == [3, 4, 5]
    assert region_state(folder, "r1").control["c1"] == [3, 4, 5]


def test_a_regions_state_and_the_checkpoint_agree_on_what_c_counts(tmp_path: Path) -> None:
    """A region's state and the checkpoint agree on the last round that c holds."""
    config, folder = prepare(tmp_path, "scaffold", run={"rounds": 2})
    simulate(config, folder)
    checkpoint = folder.checkpoints(1).load_latest()
    assert checkpoint is not None
    counted = checkpoint.meta["shared"]["counted"]
    assert counted == {f"r{place}": 2 for place in range(REGIONS)}
    assert region_state(folder, "r0").control == {f"c{c}": [1, 2] for c in range(CLIENTS)}


def test_nothing_of_dittos_personal_models_is_in_any_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs that differ in the pull alone send the same arrays, and keep other models."""

    def sent(strength: float) -> tuple[list[bytes], dict[str, np.ndarray]]:
        heard: list[Any] = []
        push, reply = LocalGrid.push_messages, LocalGrid._answer

        def on_push(self: Any, messages: Any) -> Any:
            messages = list(messages)
            heard.extend(m.content for m in messages if m.has_content())
            return push(self, messages)

        def on_answer(self: Any, message: Any, answer: Any) -> None:
            if answer.has_content():
                heard.append(answer.content)
            reply(self, message, answer)

        place = tmp_path / str(strength)
        place.mkdir()
        config, folder = prepare(place, "ditto", run={"rounds": 2})
        given = config.model_dump(mode="json")
        given["method"]["ditto"]["strength"] = strength
        with monkeypatch.context() as patch:
            patch.setattr(LocalGrid, "push_messages", on_push)
            patch.setattr(LocalGrid, "_answer", on_answer)
            simulate(FederationConfig.model_validate(given), folder)
        found = [
            array.numpy().tobytes()
            for record in heard
            if message_kind(record)
            for array in record.array_records.get("arrays", {}).values()
        ]
        assert len(found) > 20
        return sorted(found), kept(folder, "ditto")

    arrays_of_one, own = sent(0.0)
    arrays_of_other, other = sent(2.0)
    assert arrays_of_one == arrays_of_other
    for name, vector in own.items():
        assert np.abs(vector - other[name]).max() > 1e-4
        assert vector.tobytes() not in arrays_of_one


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["scaffold", "ditto", "fedbabu", "fedprox"])
def test_over_processes_the_bits_are_those_of_simulate(tmp_path: Path, strategy: str) -> None:
    config = FederationConfig.model_validate(
        {
            "run": {"rounds": 2, "seed": 7},
            "data": {
                "regions": 2,
                "clients_per_region": 2,
                "tasks": ["intent"],
                "builtin": {"train_queries": 24, "validation_queries": 6, "test_queries": 6},
            },
            "model": {"kind": "roberta", "preset": "tiny"},
            "training": {"steps": 2, "batch_size": 8},
            "method": {"strategy": strategy},
            "privacy": {"mode": "off"},
        }
    )
    alone = RunFolder.create(config, out=tmp_path / "simulate")
    result = simulate(config, alone)
    processes = RunFolder.create(config, out=tmp_path / "up")
    deployed = LocalFederation(config, processes).run()
    assert deployed.status == result.status == "ok"
    assert arrays(processes) == arrays(alone)
    assert deployed.overall == result.overall
    assert deployed.levels.keys() == result.levels.keys()
    if strategy in VECTORS:
        mine, other = kept(processes, strategy), kept(alone, strategy)
        assert mine.keys() == other.keys()
        for name, vector in mine.items():
            np.testing.assert_array_equal(vector, other[name])
