"""What crosses the hops of a private run, message by message."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from private_runs import SECURE, prepare

import regionfed_client.train as client_train
from regionfed.engine import simulate
from regionfed.errors import DataError
from regionfed.flower.local import LocalGrid
from regionfed.messages import message_kind

FILLED = {
    "SummedVector": {"client", "round", "words", "receipt"},
    "SecureAnswer": {"client", "round", "step", "following"},
    "Refusal": {"error", "reason"},
    "RegionUpdate": {"region", "round", "weight", "skipped", "update", "report"},
    "RegionScores": {"region", "round", "skipped", "counts", "personal", "report"},
}
REPORTED = {
    *("exchanges", "bytes_down", "bytes_up", "left_out", "clients", "seconds"),
    *("privacy", "noise_std", "notes", "noised"),
}
PERSONAL = {
    *("alpha", "gate", "strategy", "why", "rho", "served", "verdict", "explanation", "curve"),
}
EMPTY: tuple[Any, ...] = ("", b"", 0, 0.0, False, "{}", "[]")


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


def filled(record: RecordDict) -> set[str]:
    config = dict(record.config_records.get("config", ConfigRecord()))
    config.pop("kind", None)
    names = {key for key, value in config.items() if value not in EMPTY}
    return names | {name for arrays in record.array_records.values() for name in arrays}


def whole(record: RecordDict) -> str:
    return str(dict(record.config_records.get("config", ConfigRecord())))


@pytest.mark.parametrize("section", [{}, SECURE])
def test_nothing_but_sums_and_keys_leaves_a_client(
    tmp_path: Path, answers: list[RecordDict], section: dict[str, Any]
) -> None:
    budget = {"evaluation_share": 0.1, "loss_share": 0.1}
    config, folder = prepare(
        tmp_path,
        strategy="meta",
        run={"rounds": 2},
        privacy={"mode": "client", "budget": budget, **section},
    )
    result = simulate(config, folder)
    assert result.skipped == ()
    kinds: dict[str, set[str]] = defaultdict(set)
    for record in answers:
        kind = message_kind(record)
        if kind not in FILLED:
            # The node's name, asked for once.
            assert not record.array_records
            assert kind == ""
            continue
        kinds[kind] |= filled(record)
        assert filled(record) <= FILLED[kind], kind
        if kind.startswith("Region"):
            config_record = record.config_records["config"]
            report = json.loads(str(config_record["report"]))
            assert set(report) <= REPORTED
            if kind == "RegionUpdate":
                # The second round was opened with the unmasking of the first.
                number = int(str(config_record["round"]))
                assert report["exchanges"] == ({1: 3, 2: 2}[number] if section else 1)
            if kind == "RegionScores":
                assert set(json.loads(str(config_record["personal"]))) <= PERSONAL
    assert {"SummedVector", "RegionUpdate", "RegionScores"} <= set(kinds)
    assert ("SecureAnswer" in kinds) == bool(section)


def test_a_refusal_quotes_no_data(
    tmp_path: Path, answers: list[RecordDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = client_train.train_client

    def train(runtime: Any, order: Any) -> Any:
        if runtime.client == "c0":
            raise DataError("row 'a secret sentence' has no label")
        if runtime.client == "c1":
            raise ValueError("a secret sentence")
        return original(runtime, order)

    monkeypatch.setattr(client_train, "train_client", train)
    config, folder = prepare(tmp_path, run={"rounds": 1}, privacy={"mode": "client"})
    result = simulate(config, folder)
    assert {left.client for left in result.left_out} == {"c0", "c1"}
    assert all("its own log has the reason" in left.reason for left in result.left_out)
    assert not any("secret" in whole(record) for record in answers)


def test_without_masks_an_update_would_be_seen_and_with_them_it_is_not(
    tmp_path: Path, answers: list[RecordDict]
) -> None:
    def vectors() -> list[np.ndarray]:
        return [
            record.array_records["arrays"]["words"].numpy()
            for record in answers
            if message_kind(record) == "SummedVector"
        ]

    def small(words: np.ndarray) -> bool:
        # An encoded update lies within the clip on the grid; a masked one is spread over 2^32.
        return bool((np.abs(words.view(np.int32)) <= (1 << 20) + 1).all())

    config, folder = prepare(tmp_path, run={"rounds": 1}, privacy={"mode": "client"})
    simulate(config, folder)
    assert vectors()
    assert all(small(words) for words in vectors())
    answers.clear()
    config, folder = prepare(
        tmp_path, name="masked", run={"rounds": 1}, privacy={"mode": "client", **SECURE}
    )
    simulate(config, folder)
    assert vectors()
    assert not any(small(words) for words in vectors())
