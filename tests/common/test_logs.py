"""Logs as a person reads them and as one JSON object per line."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from regionfed.errors import ConfigError
from regionfed.logs import JsonFormatter, set_up_app_logs, set_up_logs, structured, wants_json

FIELDS = {"tier": "region", "region": "north"}


def objects(*lines: str) -> list[dict[str, str]]:
    return [json.loads(text) for text in structured(lines, FIELDS)]


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    root.handlers[:] = []
    yield
    root.handlers[:], root.level = before


def test_the_format_is_text_unless_json_is_asked_for() -> None:
    assert not wants_json({})
    assert wants_json({"REGIONFED_LOG": "JSON"})
    with pytest.raises(ConfigError, match="REGIONFED_LOG = 'xml' is no format"):
        wants_json({"REGIONFED_LOG": "xml"})


def test_flowers_own_lines_keep_their_level_and_lose_their_colours() -> None:
    (entry,) = objects("\x1b[93mWARNING \x1b[0m:   node 7 went away\n")
    assert entry["level"] == "WARNING"
    assert entry["logger"] == "flwr"
    assert entry["message"] == "node 7 went away"
    assert entry["region"] == "north"


def test_our_text_lines_keep_their_logger() -> None:
    (entry,) = objects("2026-01-02 03:04:05,678Z ERROR regionfed.start: cannot start yet: no key")
    assert (entry["level"], entry["logger"]) == ("ERROR", "regionfed.start")
    assert entry["message"] == "cannot start yet: no key"


def test_the_web_servers_lines_keep_their_logger() -> None:
    (entry,) = objects("2026-01-02T03:04:05.678Z INFO [uvicorn.error] Started server process [7]")
    assert (entry["logger"], entry["message"]) == ("uvicorn.error", "Started server process [7]")


def test_a_traceback_is_one_object() -> None:
    found = objects(
        "Traceback (most recent call last):\n",
        '  File "x.py", line 1\n',
        "ValueError: bad\n",
        "after\n",
    )
    assert [entry["level"] for entry in found] == ["ERROR", "INFO"]
    assert found[0]["message"].endswith("ValueError: bad")


def test_a_traceback_that_is_cut_off_is_kept() -> None:
    (entry,) = objects("Traceback (most recent call last):\n", "  File\n")
    assert entry["message"].startswith("Traceback")


def test_lines_that_are_objects_already_pass_unchanged() -> None:
    line = '{"level": "INFO", "message": "x"}'
    assert list(structured([line + "\n"], FIELDS)) == [line]
    (entry,) = objects("{not json}\n")
    assert entry["message"] == "{not json}"


def test_a_record_has_time_level_place_and_trace() -> None:
    try:
        raise ValueError("bad")
    except ValueError:
        record = logging.getLogger("regionfed.x").makeRecord(
            "regionfed.x", logging.ERROR, "f", 1, "went %s", ("wrong",), sys.exc_info()
        )
    entry = json.loads(JsonFormatter(FIELDS).format(record))
    assert entry["message"] == "went wrong"
    assert entry["tier"] == "region"
    assert entry["time"].endswith("+00:00")
    assert "ValueError: bad" in entry["trace"]


def test_flowers_records_are_not_written_twice(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs({"REGIONFED_LOG": "json", "REGIONFED_TIER": "global"})
    logging.getLogger("flwr").getChild("x").warning("from flower")
    logging.getLogger("regionfed.x").warning("from us")
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert [json.loads(line)["message"] for line in lines] == ["from us"]


def test_an_app_in_another_process_leaves_the_logs_alone() -> None:
    before = logging.getLogger().handlers[:]
    set_up_app_logs({})
    assert logging.getLogger().handlers == before
    set_up_app_logs({"REGIONFED_ROLE": "superexec"})
    assert len(logging.getLogger().handlers) == len(before) + 1


def test_a_command_keeps_its_exit_status_and_its_last_words() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "regionfed.logs", "sh", "-c", "echo one; echo two >&2; exit 7"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 7
    assert {json.loads(line)["message"] for line in done.stdout.splitlines()} == {"one", "two"}


def test_a_command_is_told_to_stop() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "regionfed.logs", "sh", "-c", "echo up; exec sleep 60"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "up" in process.stdout.readline()
    process.terminate()
    assert process.wait(timeout=20) == 128 + 15
