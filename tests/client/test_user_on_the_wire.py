"""theta_u stays on the device: what crosses both hops is captured and compared."""

import json
from typing import Any

import numpy as np
import pytest
from device_runs import device_config

import regionfed.messages as messages
from regionfed.engine import simulate
from regionfed.flower.local import LocalGrid
from regionfed.messages import WireMessage, message_kind
from regionfed.run.folder import RunFolder
from regionfed_client.user_state import UserStore

KINDS = {
    name: getattr(messages, name)
    for name in messages.__all__
    if isinstance(getattr(messages, name), type)
    and issubclass(getattr(messages, name), WireMessage)
}
USER_FIGURES = {"counts", "report", "run", "personal"}
"""Scalars that tell a run's name, its time, or how well the user's model scored."""


def listened(monkeypatch, folder, *, steps, strategy) -> tuple[RunFolder, list[Any]]:
    """Run with the user level on; every record that passed a local grid, either way."""
    heard: list[Any] = []
    push, reply = LocalGrid.push_messages, LocalGrid._answer

    def on_push(self, sent):
        sent = list(sent)
        heard.extend(m.content for m in sent if m.has_content())
        return push(self, sent)

    def on_answer(self, message, answer):
        if answer.has_content():
            heard.append(answer.content)
        reply(self, message, answer)

    config = device_config(
        "roberta",
        rounds=2,
        client={"user": {"enabled": True, "steps": steps, "learning_rate": 0.01}},
        method={"strategy": strategy},
    )
    made = RunFolder.create(config, out=folder)
    with monkeypatch.context() as patch:
        patch.setattr(LocalGrid, "push_messages", on_push)
        patch.setattr(LocalGrid, "_answer", on_answer)
        simulate(config, made)
    return made, [record for record in heard if message_kind(record)]


def arrays_of(records):
    for record in records:
        for array in record.array_records.get("arrays", {}).values():
            yield array.numpy()


def canonical(value):
    """JSON with its keys in order: they come in the order in which regions answered."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        return json.dumps(json.loads(value), sort_keys=True)
    return str(value)


def parts_of(folder):
    stores = sorted((folder.path / "clients").glob("*/*"))
    assert len(stores) == 4
    return [UserStore(store).load() for store in stores]


@pytest.mark.parametrize("strategy", ["residual", "grad", "interp"])
def test_nothing_of_the_users_part_is_in_any_message(tmp_path, monkeypatch, strategy):
    folder, heard = listened(monkeypatch, tmp_path / "run", steps=12, strategy=strategy)
    parts = parts_of(folder)
    vectors = [v for v in arrays_of(heard) if v.shape == parts[0].regional.shape]
    assert len(vectors) > 20
    for part in parts:
        assert part.theta_u is not None
        length = float(np.linalg.norm(part.theta_u))
        assert length > 0
        composed = part.regional + 0.75 * part.theta_u
        for vector in vectors:
            size = float(np.linalg.norm(vector))
            cosine = float(vector @ part.theta_u) / (size * length) if size else 0.0
            # Updates of the same client point the same way, but none is the user's part.
            assert abs(cosine) < 0.95
            # What was sent is not nearer to the composed model than the regional one is.
            assert np.linalg.norm(vector - composed) > 0.5 * 0.75 * length


def test_messages_are_the_same_whatever_the_device_learns_for_itself(tmp_path, monkeypatch):
    """Two runs that differ in theta_u alone send the same arrays and the same scalars."""

    def sent(name, steps):
        folder, heard = listened(monkeypatch, tmp_path / name, steps=steps, strategy="residual")
        arrays = sorted(a.tobytes() for a in arrays_of(heard))
        scalars = sorted(
            str(sorted((k, canonical(v)) for k, v in config.items() if k not in USER_FIGURES))
            for config in (record.config_records["config"] for record in heard)
        )
        return [part.theta_u for part in parts_of(folder)], arrays, scalars

    few, arrays, scalars = sent("few", 3)
    many, other_arrays, other_scalars = sent("many", 20)
    assert all(not np.allclose(a, b) for a, b in zip(few, many, strict=True))
    assert arrays == other_arrays
    assert scalars == other_scalars


def test_declared_fields_are_all_that_crosses(tmp_path, monkeypatch):
    _, heard = listened(monkeypatch, tmp_path / "run", steps=2, strategy="residual")
    seen = set()
    for record in heard:
        kind = message_kind(record)
        seen.add(kind)
        declared = set(KINDS[kind].declared())
        assert set(record.array_records["arrays"]) <= declared
        assert set(record.config_records["config"]) <= declared | {"kind"}
        assert set(record) == {"arrays", "config"}
        assert not any("theta_u" in name or "alpha_u" in name for name in declared)
    assert {"TrainOrder", "ClientUpdate", "EvaluateOrder", "ClientScores"} <= seen
    assert {"RegionOrder", "RegionUpdate", "RegionScores"} <= seen
