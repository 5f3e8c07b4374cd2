"""What travels beside the update in a private run: sketch, clip bit, label shares, sizes.

The thresholds of cohort and window are lowered, so that twelve clients do for what needs a
hundred; a slow test runs with the real ones.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convex_model import WIDTH
from flwr.app import Message, RecordDict
from private_runs import SECURE, charges, ledgers, theta
from test_convex_federation import configure, pseudo_gradient, region_state

import regionfed.privacy.adaptive_clip as adaptive_clip
import regionfed.privacy.conflict_gate as conflict_gate
import regionfed.privacy.quantities as quantities
from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.errors import TransportError
from regionfed.flower.local import LocalGrid
from regionfed.messages import RegionUpdate, message_kind
from regionfed.run.folder import RunFolder
from regionfed.run.records import PersonaliseRecord, RoundRecord
from regionfed.run.result import Result
from regionfed_coordinator.region import Region

WINDOW = 3
LABELS = ("-1", "0", "1")
EXACT = {"epsilon": 1e12, "max_participations": 100}
"""A budget so large that its noise is below every tolerance here."""

Table = dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]


@pytest.fixture(autouse=True)
def low_thresholds(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "slow" in request.keywords:
        return
    for module, name, value in (
        (conflict_gate, "TOO_FEW", 4),
        (conflict_gate, "PLENTY", 5),
        (conflict_gate, "LONG_WINDOW", WINDOW),
        (conflict_gate, "SHORT_WINDOW", WINDOW),
        (adaptive_clip, "MINIMUM_COHORT", 4),
        (quantities, "MINIMUM_COHORT", 4),
    ):
        monkeypatch.setattr(module, name, value)


def write_labelled(path: Path, *, regions: int = 3, clients: int = 4) -> Table:
    """Rows whose label is the sign of a product that differs from region to region."""
    rng = np.random.default_rng(11)
    table: Table = {}
    with path.open("w") as file:
        for r in range(regions):
            own = rng.standard_normal(WIDTH) * (1.0 + 3.0 * r)
            for c in range(clients):
                for split, count in (("train", 4 + 2 * r + c % 3), ("validation", 2), ("test", 2)):
                    x = rng.standard_normal((count, WIDTH)).round(3)
                    y = np.sign(np.trunc(x @ own)).astype(int)
                    if split == "train":
                        table.setdefault(f"r{r}", {})[f"c{c:03d}"] = (x, y.astype(float))
                    for row, target in zip(x, y, strict=True):
                        fields = {"region": f"r{r}", "client": f"c{c:03d}", "split": split}
                        text = " ".join(map(str, row))
                        file.write(
                            json.dumps({"text": text, "target": str(target), **fields}) + "\n"
                        )
    return table


def prepare(
    tmp_path: Path,
    *,
    strategy: str,
    name: str = "run",
    size: dict[str, int] | None = None,
    **changes: Any,
) -> tuple[FederationConfig, RunFolder, Table]:
    table = write_labelled(tmp_path / "rows.jsonl", **(size or {}))
    given = configure(tmp_path / "rows.jsonl", strategy).model_dump(mode="json")
    given["data"]["custom"] = {"regression": {"kind": "classification", "labels": list(LABELS)}}
    given["privacy"] = {"mode": "client"}
    for section, values in changes.items():
        given[section].update(values)
    config = FederationConfig.model_validate(given)
    return config, RunFolder.create(config, out=tmp_path / name), table


def run(
    tmp_path: Path, *, strategy: str, **changes: Any
) -> tuple[FederationConfig, RunFolder, Table, Result]:
    config, folder, table = prepare(tmp_path, strategy=strategy, **changes)
    result = simulate(config, folder)
    assert result.status == "ok", result.reason
    assert result.skipped == ()
    return config, folder, table, result


def kinds(folder: RunFolder, region: str) -> list[list[str]]:
    """The kinds of event by round."""
    by_round: dict[int, list[str]] = {}
    for event in ledgers(folder)[region].events():
        by_round.setdefault(event.round, []).append(event.kind)
    return list(by_round.values())


def exchanges(folder: RunFolder) -> set[int | None]:
    records = {r.round: r for r in folder.metrics().read() if isinstance(r, RoundRecord)}
    return {region.exchanges for record in records.values() for region in record.regions.values()}


def squared_conflicts(table: Table, *, rounds: int) -> dict[str, np.ndarray]:
    """d_r squared by round, from the data."""
    start = np.linspace(-1, 1, WIDTH)
    found: dict[str, list[float]] = {name: [] for name in table}
    for _ in range(rounds):
        means = {
            name: np.mean([pseudo_gradient(start, rows) for rows in clients.values()], axis=0)
            for name, clients in table.items()
        }
        centre = np.mean(list(means.values()), axis=0)
        for name, mean in means.items():
            found[name].append(float(np.sum((mean - centre) ** 2)))
        start = start - 0.9 * centre
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize("section", [{}, SECURE, {"mode": "client-strict", **SECURE}])
def test_each_quantity_is_an_event_of_one_exchange(tmp_path: Path, section: dict[str, Any]) -> None:
    _, folder, _, result = run(
        tmp_path, strategy="dynamic-paper", privacy={"mode": "client", **section}
    )
    training = ["training-update", "conflict-sketch"]
    for region, ledger in ledgers(folder).items():
        first, *later = kinds(folder, region)
        assert first == [*training, "intent-histogram", "dataset-size"]
        assert [found[:2] for found in later] == [training] * 4
        assert {kind for found in later for kind in found} <= {*training, "look-ahead-update"}
        charged, released = ledger.counts()
        assert charged == released
        assert 1.5 < ledger.spent().eps_coordinator <= 2.0 + 1e-5
    # Three to begin with, one of which later rounds save.
    assert exchanges(folder) == ({3, 2} if section else {1})
    assert any("clip-bit: the clipping norm is fixed" in note for note in result.privacy.notes)


def test_shares_that_are_off_go_to_training_and_the_report_says_so(tmp_path: Path) -> None:
    off = {"sketch_share": 0.0, "histogram_share": 0.0, "size_share": 0.0}
    _, folder, _, result = run(tmp_path, strategy="grad", privacy={"mode": "client", "budget": off})
    assert {kind for found in kinds(folder, "r0") for kind in found} == {"training-update"}
    assert result.privacy.epsilon == pytest.approx(2.0, abs=1e-4)
    note = next(note for note in result.privacy.notes if "not asked for" in note)
    for words in ("conflict-sketch: switched off", "intent-histogram: switched off", "training"):
        assert words in note


def test_labels_and_sizes_are_what_the_clients_have(tmp_path: Path) -> None:
    _, folder, table, _ = run(
        tmp_path, strategy="dynamic-paper", privacy={"mode": "client", "budget": EXACT}
    )
    for region, clients in table.items():
        found = region_state(folder, region).census
        shares = [
            [float(np.mean(y == float(name))) for name in LABELS] for _, y in clients.values()
        ]
        np.testing.assert_allclose(
            [found["labels"][n] for n in LABELS], np.sum(shares, 0), atol=1e-3
        )
        assert found["examples"] == pytest.approx(
            sum(len(y) for _, y in clients.values()), abs=0.01
        )


def test_conflict_follows_the_sketches_once_the_window_is_full(tmp_path: Path) -> None:
    _, folder, table, _ = run(
        tmp_path,
        strategy="grad",
        run={"rounds": 6, "evaluate_every": 1},
        privacy={"mode": "client", "clipping_norm": 100.0, "budget": EXACT},
    )
    truth = squared_conflicts(table, rounds=6)
    for name in table:
        found = [entry["squared"] for entry in region_state(folder, name).history]
        # A sketch of six numbers in 32 buckets keeps their distance unless two of them meet.
        np.testing.assert_allclose(np.median(found / truth[name]), 1.0, atol=0.05)
    alphas = [
        (record.round, record.region, record.alpha)
        for record in folder.metrics().read()
        if isinstance(record, PersonaliseRecord)
    ]
    early = {alpha for number, _, alpha in alphas if number < WINDOW}
    late = {region: alpha for number, region, alpha in alphas if number == 6}
    assert early == {0.75}
    assert len(set(late.values())) == 3
    recent = {name: values[-WINDOW:].mean() for name, values in truth.items()}
    assert sorted(late, key=lambda name: late[name]) == sorted(recent, key=lambda n: recent[n])


def test_alpha_stays_where_conflict_is_within_noise(tmp_path: Path) -> None:
    _, _, _, result = run(tmp_path, strategy="grad", privacy={"mode": "client"})
    told = " ".join(result.privacy.notes)
    assert "does not stand out of its noise" in told or "routing is off" in told


@pytest.mark.parametrize("section", [{}, SECURE])
def test_adaptive_clipping_follows_the_quantile(tmp_path: Path, section: dict[str, Any]) -> None:
    start = 0.3
    privacy = {"mode": "client", "adaptive_clipping": True, "clipping_norm": start, "budget": EXACT}
    config, folder, table, _ = run(tmp_path, strategy="none", privacy={**privacy, **section})
    norms = dict.fromkeys(table, start)
    expected = np.linspace(-1, 1, WIDTH)
    for number in range(1, config.run.rounds + 1):
        released = {}
        for name, clients in table.items():
            updates = [pseudo_gradient(expected, rows) for rows in clients.values()]
            lengths = [float(np.linalg.norm(update)) for update in updates]
            clipped = [
                update * min(1.0, norms[name] / length)
                for update, length in zip(updates, lengths, strict=True)
            ]
            released[name] = np.sum(clipped, axis=0) / len(clients)
            told = [
                c.clipping_norm
                for c in charges(folder)
                if (c.region, c.round, c.release) == (name, number, "training-update")
            ]
            assert told == pytest.approx([norms[name]], rel=1e-5)
            within = np.mean([length <= norms[name] for length in lengths])
            norms[name] *= math.exp(-0.2 * (within - 0.5))
        expected = expected - 0.9 * np.mean(list(released.values()), axis=0)
    assert len(set(norms.values())) > 1
    np.testing.assert_allclose(theta(folder), expected, atol=1e-3)


def test_a_look_ahead_is_clipped_at_the_c_in_force(tmp_path: Path) -> None:
    privacy = {"mode": "client", "adaptive_clipping": True, "clipping_norm": 0.3, "budget": EXACT}
    _, folder, table, _ = run(tmp_path, strategy="interp", privacy=privacy)
    for name, clients in table.items():
        kept = region_state(folder, name)
        (told,) = [
            c.clipping_norm
            for c in charges(folder)
            if (c.region, c.release) == (name, "look-ahead-update")
        ]
        assert told == pytest.approx(kept.clipping_norm, rel=1e-5)
        updates = [pseudo_gradient(theta(folder), rows) for rows in clients.values()]
        clipped = [u * min(1.0, told / float(np.linalg.norm(u))) for u in updates]
        assert kept.part is not None
        direction = kept.part / np.linalg.norm(kept.part)
        expected = -np.mean(clipped, axis=0)
        np.testing.assert_allclose(direction, expected / np.linalg.norm(expected), atol=0.01)
        assert np.linalg.norm(kept.part) <= told


def test_adaptive_clipping_below_its_cohort_keeps_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantities, "MINIMUM_COHORT", 100)
    _, folder, _, result = run(
        tmp_path, strategy="none", privacy={"mode": "client", "adaptive_clipping": True}
    )
    assert {charge.clipping_norm for charge in charges(folder)} == {1.0}
    assert any("the clipping norm stays at 1" in note for note in result.privacy.notes)


def test_nothing_else_leaves_a_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[RecordDict] = []
    original = LocalGrid._answer

    def answer(self: LocalGrid, message: Message, reply: Message) -> None:
        if reply.has_content():
            seen.append(reply.content)
        original(self, message, reply)

    monkeypatch.setattr(LocalGrid, "_answer", answer)
    run(
        tmp_path,
        strategy="dynamic-paper",
        privacy={"mode": "client", "adaptive_clipping": True, **SECURE},
    )
    upward = {"SummedVector", "SecureAnswer", "RegionUpdate", "RegionScores", ""}
    assert {message_kind(record) for record in seen} == upward
    updates = [
        RegionUpdate.from_record(record)
        for record in seen
        if message_kind(record) == "RegionUpdate"
    ]
    known = {
        *("exchanges", "bytes_down", "bytes_up", "left_out", "clients", "seconds", "privacy"),
        *("noise_std", "notes", "labels", "examples", "sketch_std", "conflict_window"),
    }
    for update in updates:
        assert set(update.report) <= known
        assert update.sketch is not None
        assert update.sketch.shape == (32,)
        released = {charge["release"] for charge in update.report["privacy"]}
        assert {"training-update", "conflict-sketch", "clip-bit"} <= released


def test_what_is_asked_once_is_not_given_to_a_second_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Region.charge
    lost: list[str] = []

    def charge(self: Region, *args: Any) -> Any:
        if self.name == "r1" and not lost:
            lost.append(self.name)
            raise TransportError("the desk went away")
        return original(self, *args)

    monkeypatch.setattr(Region, "charge", charge)
    config, folder, _ = prepare(
        tmp_path, strategy="dynamic-paper", privacy={"mode": "client", "budget": EXACT}
    )
    result = simulate(config, folder)
    assert result.status == "ok"
    assert [(skip.region, skip.round) for skip in result.skipped] == [("r1", 1)]
    assert "lost" in region_state(folder, "r1").census
    assert "labels" in region_state(folder, "r0").census
    assert all("intent-histogram" not in found for found in kinds(folder, "r1"))
    assert any("not asked for twice" in note for note in result.privacy.notes)


@pytest.mark.slow
def test_at_the_real_thresholds_a_hundred_clients_open_the_gate(tmp_path: Path) -> None:
    """Ten rounds of 100 clients in each of three regions."""
    _, folder, _, result = run(
        tmp_path,
        strategy="grad",
        size={"clients": 100},
        run={"rounds": 10, "evaluate_every": 0},
        privacy={
            "mode": "client",
            "clipping_norm": 20.0,
            "adaptive_clipping": True,
            "budget": {"epsilon": 60.0, "max_participations": 10},
            "secure_aggregation": {"scale_bits": 16},
        },
    )
    assert exchanges(folder) == {1}
    for region in ledgers(folder):
        assert kinds(folder, region) == [["training-update", "conflict-sketch", "clip-bit"]] * 10
    found = [r for r in folder.metrics().read() if isinstance(r, PersonaliseRecord)]
    alphas = {record.region: record.alpha for record in found}
    assert set(alphas.values()) != {0.75}
    assert any(note.startswith("not asked for") for note in result.privacy.notes)
