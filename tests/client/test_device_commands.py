"""`regionfed-client`: what a device answers, shows and says when it cannot."""

import io
import json
import socket

import pytest
from device_runs import device_config

from regionfed.config.write import write_resolved
from regionfed.engine import simulate
from regionfed.errors import ConfigError, DataError, ModelError, StateError
from regionfed.run.folder import RunFolder
from regionfed_client.cli import run
from regionfed_client.predict import Question, answer
from regionfed_client.served import ServedModel, find_place


def whose(folder, region="r00", client="c00"):
    return ["--state", str(folder), "--region", region, "--client", client]


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the device asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_one_query_is_answered_offline(finished, capsys, no_network):
    folder = finished("t5")
    arguments = ["predict", "butter avlable", "--task", "spell", *whose(folder)]
    assert run(arguments) == 0
    plain = capsys.readouterr().out
    assert run([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"task": "spell", "text": "butter avlable", "answer": plain.rstrip("\n")}


def test_batches_keep_order_and_agree_with_single_answers(finished, tmp_path, capsys, monkeypatch):
    folder = finished("t5")
    device = ServedModel.open(find_place(state=folder, region="r00", client="c00", config=None))
    texts = [row.text for row in device.bench.data.load("r00", "c00").test if row.task == "intent"]
    expected = answer(device, [Question("intent", text) for text in texts])
    assert any(expected)
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": t, "task": "intent"}) + "\n" for t in texts))
    target = tmp_path / "out.jsonl"
    assert run(["predict", "--input", str(rows), "--output", str(target), *whose(folder)]) == 0
    assert [json.loads(line)["answer"] for line in target.open()] == expected
    plain = tmp_path / "rows.txt"
    plain.write_text("\n".join([texts[0], "", texts[1]]) + "\n")
    capsys.readouterr()
    assert run(["predict", "--input", str(plain), "--task", "intent", *whose(folder)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["answer"] for line in lines] == [expected[0], "", expected[1]]
    monkeypatch.setattr("sys.stdin", io.StringIO(texts[2] + "\n"))
    assert run(["predict", "--task", "intent", *whose(folder)]) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == expected[2]


def test_tags_are_one_per_word(finished, capsys):
    folder = finished("roberta")
    assert run(["predict", "red nubat tire", "--task", "ner", *whose(folder)]) == 0
    assert len(capsys.readouterr().out.split()) == 3


def test_show_tells_sizes_and_no_data(finished, capsys):
    folder = finished("t5")
    assert run(["show", "--json", *whose(folder, client="c01")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["round"] == 1
    assert found["user_part"] is True
    assert found["parameters"] > 10_000
    assert found["conflicts_seen"] == 1
    assert run(["show", *whose(folder)]) == 0
    assert "serves      regional" in capsys.readouterr().out


def test_clear_errors(finished, tmp_path, capsys):
    folder = finished("t5")

    def fails(arguments, kind, text):
        assert run(arguments) == kind.exit_code
        assert text in capsys.readouterr().err

    fails(["predict", "x", "--state", str(folder), "--task", "spell"], ConfigError, "--region")
    fails(["predict", "x", *whose(folder)], ConfigError, "which task")
    fails(["predict", "x", "--task", "sums", *whose(folder)], ConfigError, "answers intent")
    fails(["show", *whose(folder, client="c09")], StateError, "no stored model of r00/c09")
    fails(["show", "--state", str(tmp_path / "none")], StateError, "is not a folder")
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "a", "task": "spell"}\nnot json\n')
    fails(["predict", "--input", str(bad), *whose(folder)], DataError, "line 2")
    fails(
        ["predict", "--input", str(tmp_path / "no.txt"), "--task", "spell", *whose(folder)],
        DataError,
        "cannot be read",
    )
    other = tmp_path / "other.toml"
    write_resolved(device_config("roberta"), other)
    fails(
        ["predict", "x", "--task", "ner", "--config", str(other), *whose(folder)],
        ModelError,
        "does not fit",
    )
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    fails(["export", str(full), *whose(folder)], StateError, "not an empty folder")
    fails(["export", str(tmp_path / "e"), "--format", "h5", *whose(folder)], ConfigError, "onnx")


def test_a_device_without_the_user_level_serves_the_region(tmp_path, capsys):
    config = device_config("roberta", client={"keep_model": True})
    folder = RunFolder.create(config, out=tmp_path / "run")
    simulate(config, folder)
    assert run(["show", "--json", *whose(folder.path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["user_part"], found["alpha_u"]) == (False, 0.0)
    assert run(["predict", "red tire", "--task", "intent", *whose(folder.path)]) == 0
    assert capsys.readouterr().out.strip()


def test_nothing_is_stored_where_nothing_is_asked_for(tmp_path):
    config = device_config("roberta", client={})
    folder = RunFolder.create(config, out=tmp_path / "run")
    simulate(config, folder)
    assert not (folder.path / "clients").exists()
