"""The user level under differential privacy: trained, kept and served on the device, and free."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from private_runs import SECURE, ledgers, prepare
from test_convex_federation import CLIENTS, REGIONS, ROUNDS

from regionfed.engine import simulate
from regionfed.flower.local import LocalGrid
from regionfed.messages import message_kind
from regionfed.privacy.events import EvaluationMetrics, TrainingUpdate
from regionfed.report import write_report
from regionfed.run.folder import RunFolder
from regionfed_client.user_state import UserPart, UserStore

USER = {"user": {"enabled": True, "steps": 8, "learning_rate": 0.1}}
DEVICES = REGIONS * CLIENTS


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[RecordDict]:
    """Every answer on every hop."""
    seen: list[RecordDict] = []
    original = LocalGrid._answer

    def answer(self: LocalGrid, message: Message, reply: Message) -> None:
        if reply.has_content():
            seen.append(reply.content)
        original(self, message, reply)

    monkeypatch.setattr(LocalGrid, "_answer", answer)
    return seen


def parts(folder: RunFolder) -> list[UserPart]:
    found = [UserStore(path).load() for path in sorted(folder.clients.glob("*/*"))]
    assert len(found) == DEVICES
    return found


def private(**budget: float) -> dict[str, Any]:
    return {"mode": "client", "noise_multiplier": 0.5, "budget": {"epsilon": 60.0, **budget}}


def test_without_a_share_for_scores_nothing_about_it_leaves(
    tmp_path: Path, answers: list[RecordDict]
) -> None:
    config, folder = prepare(tmp_path, client=USER, privacy=private())
    result = simulate(config, folder)
    assert (result.status, result.skipped, result.levels) == ("ok", (), {})
    kept = [record for record in answers if message_kind(record) == "Kept"]
    assert len(kept) == DEVICES
    for record in kept:
        assert set(dict(record.config_records["config"])) == {"kind", "client", "round"}
        assert not record.array_records["arrays"]
    assert all(part.round == ROUNDS and part.theta_u is not None for part in parts(folder))
    for ledger in ledgers(folder).values():
        assert [type(event) for event in ledger.events()] == [TrainingUpdate] * ROUNDS
    notes = " ".join(result.privacy.notes)
    assert f"trained on {CLIENTS} of {CLIENTS} devices and stays there" in notes
    assert "nothing about it leaves" in notes
    assert "stays there, which costs no budget" in write_report(folder.path).read_text()


@pytest.mark.parametrize("section", [{}, SECURE])
def test_its_scores_leave_in_the_charged_vector_alone(
    tmp_path: Path, answers: list[RecordDict], section: dict[str, Any]
) -> None:
    given = {**private(evaluation_share=0.5), **section}
    config, folder = prepare(tmp_path, client=USER, privacy=given)
    result = simulate(config, folder)
    assert result.skipped == ()
    assert set(result.levels) == {"global", "user"}
    for ledger in ledgers(folder).values():
        events = ledger.events()
        kinds = [type(event) for event in events]
        assert kinds == [TrainingUpdate] * ROUNDS + [EvaluationMetrics]
        scored = events[-1]
        assert isinstance(scored, EvaluationMetrics)
        # rows and correct ones, at two levels
        assert scored.values == 4
    assert not {"ClientScores", "ClientUpdate"} & {message_kind(record) for record in answers}
    assert "only inside the noised, charged vector" in " ".join(result.privacy.notes)


def test_what_devices_learn_for_themselves_changes_no_message(
    tmp_path: Path, answers: list[RecordDict]
) -> None:
    def sent(name: str, steps: int) -> tuple[list[UserPart], list[tuple[str, frozenset[str]]]]:
        answers.clear()
        user = {"user": {**USER["user"], "steps": steps}}
        config, folder = prepare(tmp_path, name=name, client=user, privacy=private())
        simulate(config, folder)
        shapes = [
            (
                message_kind(record),
                frozenset(dict(record.config_records.get("config", ConfigRecord()))),
            )
            for record in answers
        ]
        return parts(folder), sorted(shapes, key=str)

    few, first = sent("few", 1)
    many, second = sent("many", 20)
    assert first == second
    assert not any(
        np.allclose(a.theta_u, b.theta_u)
        for a, b in zip(few, many, strict=True)
        if a.theta_u is not None and b.theta_u is not None
    )


def test_a_simulation_measures_it_outside_the_promise(tmp_path: Path) -> None:
    given = {**private(), "audit_metrics": "simulated"}
    config, folder = prepare(tmp_path, strategy="residual", client=USER, privacy=given)
    result = simulate(config, folder)
    assert set(result.levels) == {"global", "regional", "user"}
    assert all(part.theta_u is not None for part in parts(folder))
    assert any("outside the promise" in note for note in result.privacy.notes)


def test_devices_without_the_user_level_keep_what_is_served(tmp_path: Path) -> None:
    config, folder = prepare(
        tmp_path, strategy="residual", client={"keep_model": True}, privacy=private()
    )
    result = simulate(config, folder)
    assert all(part.theta_u is None and part.round == ROUNDS for part in parts(folder))
    assert f"is kept on {CLIENTS} of {CLIENTS} devices" in " ".join(result.privacy.notes)
