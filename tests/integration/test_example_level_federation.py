"""DP-SGD on the clients through all tiers: another unit, a ledger of its own, a stop of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Message, RecordDict
from torch import nn

import regionfed_client.example_level as device_module
from regionfed.cli.main import run
from regionfed.config.federation import FederationConfig
from regionfed.data.types import Row
from regionfed.engine import simulate
from regionfed.errors import BudgetExhausted, ModelError, PrivacyError, RunFailed
from regionfed.flower.local import LocalGrid
from regionfed.messages import EvaluateOrder, message_kind
from regionfed.models.base import EncodedRows, RowwiseModel
from regionfed.privacy.accountant import epsilon
from regionfed.privacy.events import EvaluationMetrics, ExampleLevelTraining, TrainingUpdate
from regionfed.privacy.example_ledger import example_ledgers
from regionfed.privacy.ledger_sqlite import SqliteLedger
from regionfed.report import write_report
from regionfed.run.folder import RunFolder
from regionfed_client.evaluate import evaluate_client
from regionfed_client.runtime import ClientRuntime, Shared

ROWS, BATCH, ROUNDS = 24, 8, 2
STEPS = ROWS // BATCH


def prepare(folder: Path, **privacy: Any) -> tuple[FederationConfig, RunFolder]:
    values: dict[str, Any] = {
        "run": {"rounds": ROUNDS},
        "data": {
            "regions": 2,
            "clients_per_region": 3,
            "tasks": ["intent"],
            "builtin": {"train_queries": ROWS, "validation_queries": 6, "test_queries": 6},
        },
        "model": {"kind": "roberta", "preset": "tiny", "freeze": "encoder"},
        "training": {"epochs": 1, "batch_size": BATCH, "learning_rate": 0.01},
        "method": {"strategy": "residual"},
        "client": {"user": {"enabled": True, "steps": 2}},
        "privacy": {
            "example_level": True,
            "example": {"noise_multiplier": 2.0, "epsilon": 50.0},
            **privacy,
        },
    }
    config = FederationConfig.model_validate(values)
    return config, RunFolder.create(config, out=folder)


def region_kinds(folder: RunFolder) -> set[type]:
    kinds: set[type] = set()
    for path in folder.regions.rglob("*.ledger.sqlite"):
        kinds |= {type(event) for event in SqliteLedger.existing(path).events()}
    return kinds


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[RecordDict]:
    seen: list[RecordDict] = []
    original = LocalGrid._answer

    def answer(self: LocalGrid, message: Message, reply: Message) -> None:
        if reply.has_content():
            seen.append(reply.content)
        original(self, message, reply)

    monkeypatch.setattr(LocalGrid, "_answer", answer)
    return seen


def true_epsilon(rounds: int) -> float:
    return epsilon(
        noise_multiplier=2.0, sample_rate=BATCH / ROWS, rounds=rounds * STEPS, delta=1e-5
    )


def test_beside_mode_client_both_promises_are_kept_apart(
    tmp_path: Path, answers: list[RecordDict], capsys: pytest.CaptureFixture[str]
) -> None:
    config, folder = prepare(
        tmp_path / "run",
        mode="client",
        secure_aggregation={"enabled": True},
        budget={"evaluation_share": 0.2},
    )
    result = simulate(config, folder)
    assert (result.status, result.skipped, result.left_out) == ("ok", (), ())
    # The region's account is what it is without DP-SGD.
    assert region_kinds(folder) == {TrainingUpdate, EvaluationMetrics}
    assert "user" not in result.levels
    assert "it has no noise of DP-SGD in it" in " ".join(result.privacy.notes)
    assert result.privacy.epsilon == pytest.approx(2.0, abs=1e-3)
    example = result.privacy.example_level
    assert example is not None
    assert (example.clients, example.charges) == (6, 6 * ROUNDS)
    assert example.epsilon == pytest.approx(true_epsilon(ROUNDS), abs=1e-6)
    assert "never added" in example.statement
    kinds = {message_kind(record) for record in answers}
    assert not kinds & {"ClientUpdate", "ClientScores"}
    for path in example_ledgers(folder.clients):
        assert path.stat().st_mode & 0o777 == 0o600
        ledger = SqliteLedger.existing(path)
        assert ledger.counts() == (ROUNDS, ROUNDS)
        assert {type(event) for event in ledger.events()} == {ExampleLevelTraining}
    capsys.readouterr()
    assert run(["privacy", "ledger", str(folder.path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["system"]["epsilon"] == pytest.approx(2.0, abs=1e-3)
    assert set(told["regions"]) == {"r00", "r01"}
    assert told["example_level"]["unit"] == "one training example of one client"
    assert told["example_level"]["epsilon"] == pytest.approx(example.epsilon)
    assert len(told["example_level"]["clients"]) == 6
    assert run(["privacy", "ledger", str(folder.path)]) == 0
    assert "another unit than a client" in capsys.readouterr().out
    page = write_report(folder.path).read_text(encoding="utf-8")
    row = next(part for part in page.split("<tr>") if "one example" in part)
    assert f"{example.epsilon:.4g}" in row
    assert "12 x example-level-training" in row
    assert page.count("one client<") >= 2


def test_in_mode_off_nothing_about_training_rows_leaves_but_the_update(
    tmp_path: Path, answers: list[RecordDict]
) -> None:
    config, folder = prepare(tmp_path / "run", mode="off")
    result = simulate(config, folder)
    assert (result.status, result.rounds_done) == ("ok", ROUNDS)
    updates = [r for r in answers if message_kind(r) == "ClientUpdate"]
    assert len(updates) == 6 * ROUNDS
    for record in updates:
        fields = dict(record.config_records["config"])
        assert (fields["examples"], fields["steps"], fields["loss"]) == (0, 0, 0.0)
        assert fields["labels"] == "{}"
        assert set(record.array_records["arrays"]) == {"update"}
    scores = [r for r in answers if message_kind(r) == "ClientScores"]
    for record in scores:
        fields = dict(record.config_records["config"])
        assert fields["examples"] == 0
        assert "user" not in json.loads(str(fields["counts"]))
    # The user's own part was trained, and stays where it is.
    assert len(list(folder.clients.glob("*/*/*.safetensors"))) == 6
    assert set(result.levels) == {"global", "regional"}
    assert result.privacy.epsilon is None
    assert "nothing bounds what a trained model reveals about a client as a whole" in (
        result.privacy.statement
    )
    assert result.privacy.example_level is not None
    assert result.privacy.example_level.epsilon == pytest.approx(true_epsilon(ROUNDS), abs=1e-6)
    for name in ("r00", "r01"):
        assert result.regions[name].rounds == ROUNDS


def test_a_spent_budget_ends_the_run_at_its_last_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    between = (true_epsilon(1) + true_epsilon(2)) / 2
    _, folder = prepare(
        tmp_path / "given", mode="off", example={"noise_multiplier": 2.0, "epsilon": between}
    )
    out = tmp_path / "run"
    code = run(["simulate", str(folder.config_file), "--out", str(out)])
    assert code == BudgetExhausted.exit_code
    stopped = RunFolder(out)
    result = stopped.read_result()
    assert (result.status, result.rounds_done) == ("stopped", 1)
    assert "the budget of this client's examples is spent" in result.reason
    assert "1 of 2 rounds" in capsys.readouterr().err
    assert {"global", "regional"} <= set(result.levels)
    assert stopped.report_file.is_file()
    found = stopped.checkpoints(1).load_latest()
    assert found is not None
    assert found.round == 1
    example = result.privacy.example_level
    assert example is not None
    assert example.epsilon == pytest.approx(true_epsilon(1), abs=1e-6)
    assert example.epsilon <= between
    # What a client says of its stop has no figure of its ledger in it.
    assert f"{true_epsilon(1):.4f}" not in result.reason


def test_a_client_that_dies_after_the_charge_has_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = device_module.private_train
    died: list[str] = []

    def train(*args: Any, **kwargs: Any) -> Any:
        if len(died) < 2:
            died.append("here")
            raise RuntimeError("power cut")
        return original(*args, **kwargs)

    monkeypatch.setattr(device_module, "private_train", train)
    config, folder = prepare(tmp_path / "run", mode="client")
    result = simulate(config, folder)
    counts = [SqliteLedger.existing(p).counts() for p in example_ledgers(folder.clients)]
    assert sum(charged - released for charged, released in counts) == 2
    assert all(charged >= released for charged, released in counts)
    assert len(result.left_out) == 2
    assert not any("power cut" in left.reason for left in result.left_out)


def test_what_cannot_be_trained_is_refused_before_any_client_is_asked(tmp_path: Path) -> None:
    config, folder = prepare(tmp_path / "run", mode="client")
    model = config.model.model_copy(update={"kind": "t5", "freeze": "none"})
    with pytest.raises(ModelError, match="tie_word_embeddings = false"):
        simulate(config.model_copy(update={"model": model}), folder)
    assert not example_ledgers(folder.clients)


@pytest.mark.parametrize("mode", ["off", "client"])
def test_a_client_refuses_any_other_use_of_its_training_rows(tmp_path: Path, mode: str) -> None:
    config, _ = prepare(tmp_path / "run", mode=mode)
    runtime = ClientRuntime(Shared(config), "r00", "c00")
    theta = runtime.bench.flat.read()
    for work in ("local-training", "lookahead-gradient"):
        order = EvaluateOrder(
            run="run",
            region="r00",
            round=1,
            digest=config.digest(),
            layout=runtime.bench.layout,
            base=theta,
            levels=(),
            work=work,
            channel="look-ahead" if mode == "client" else "",
        )
        with pytest.raises(PrivacyError, match="DP-SGD alone"):
            evaluate_client(runtime, order)


class Coupled(RowwiseModel):
    """Rows influence each other where no layer's type shows it."""

    def __init__(self) -> None:
        self.module = nn.Linear(2, 2)

    def encode(self, rows: Sequence[Row]) -> EncodedRows:
        x = torch.tensor([[float(v) for v in row.text.split()] for row in rows]).reshape(-1, 2)
        y = torch.tensor([int(row.target) for row in rows], dtype=torch.int64)
        return EncodedRows(tensors={"x": x, "y": y}, rows=rows)

    def row_losses(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        scores = self.module(batch["x"])
        return nn.functional.cross_entropy(scores - scores.mean(0), batch["y"], reduction="none")

    def predict(self, batch: Mapping[str, torch.Tensor]) -> list[str]:
        return [str(best) for best in self.module(batch["x"]).argmax(1).tolist()]


def coupled(config: Any, tasks: Any) -> Coupled:
    return Coupled()


def test_a_model_of_ones_own_is_refused_by_the_clients(tmp_path: Path) -> None:
    lines = [
        {"text": f"{i} {i % 3}", "target": str(i % 2), "region": f"r{r}", "client": f"c{c}"}
        for r in range(2)
        for c in range(2)
        for i in range(8)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    files = {"path": str(path), "task": "own", "region_column": "region", "client_column": "client"}
    config = FederationConfig.model_validate(
        {
            "run": {"rounds": 1},
            "data": {
                "source": "files",
                "custom": {"own": {"kind": "classification", "labels": ["0", "1"]}},
                "files": files,
            },
            "model": {"kind": "factory", "factory": f"{__name__}:coupled"},
            "training": {"steps": 1},
            "server": {"max_failed_rounds": 1},
            "method": {"strategy": "none"},
            "privacy": {"mode": "client", "example_level": True},
        }
    )
    folder = RunFolder.create(config, out=tmp_path / "run")
    with pytest.raises(RunFailed, match="weight: it is used without an example dimension"):
        simulate(config, folder)
    assert not example_ledgers(folder.clients)
