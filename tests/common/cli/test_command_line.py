"""The command line: frozen flags, quick start, and one readable line on every failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from regionfed.cli import failure
from regionfed.cli.main import COMMANDS, load_command, run
from regionfed.errors import QuorumError

FLAGS = {
    "simulate": {"config", "--out", "--set", "--resume", "--json", "--workers", "--help"},
    "up": {"config", "--out", "--set", "--resume", "--json", "--help"},
    "plan": {"config", "--set", "--json", "--help"},
    "report": {"run_dir", "--help"},
    "schema": {"--docs", "--help"},
    "version": {"--json", "--help"},
}
"""A knob belongs into the federation file; a new flag needs a reason and a line here."""


def flags_of(command: click.Command) -> set[str]:
    found: set[str] = set()
    for parameter in command.get_params(click.Context(command)):
        names = parameter.opts if isinstance(parameter, click.Option) else [parameter.name or ""]
        found.update(names)
    return found


@pytest.mark.parametrize("name", FLAGS)
def test_flags_are_frozen(name: str) -> None:
    assert flags_of(load_command(name)) == FLAGS[name]


def test_commands_are_frozen() -> None:
    documented_elsewhere = {"diagnose", "bench", "privacy", "certs", "check", "compose", "status"}
    assert set(COMMANDS) == set(FLAGS) | documented_elsewhere


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_loads_and_describes_itself(name: str) -> None:
    assert load_command(name).help
    assert COMMANDS[name].endswith((".", "?"))


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["version", "--json"]])
def test_quick_commands_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from regionfed.cli.main import run\n"
        f"status = run({arguments!r})\n"
        "heavy = {'torch', 'flwr', 'transformers', 'matplotlib', 'scipy'} & set(sys.modules)\n"
        "assert status == 0 and not heavy, (status, heavy)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def test_version_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["versions"]["flwr"].startswith("1.39")
    assert printed["machine"]["cores"] >= 1


def test_schema_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0
    assert "properties" in json.loads(capsys.readouterr().out)


def test_schema_writes_documents(tmp_path: Path) -> None:
    assert run(["schema", "--docs", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "federation.schema.json",
        "configuration.md",
        "result.md",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nosuch"], 2, "No such command"),
        (["plan", "--nosuch"], 2, "No such option"),
        (["simulate", "nosuch.toml"], 2, "nosuch.toml does not exist"),
        (["plan", "--set", "run.round=1"], 2, "did you mean run.rounds?"),
        (["simulate", "--resume"], 12, "--resume --out DIR"),
        (["report", "nosuch"], 12, "nosuch is not a folder"),
    ],
)
def test_failures_are_one_line_with_the_code_of_their_kind(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert "Traceback" not in printed.err
    last = printed.err.strip().splitlines()[-1]
    assert words in last


def test_an_earlier_run_is_not_destroyed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").write_text("kept")
    assert run(["simulate", "--out", str(tmp_path)]) == 12
    assert "is not empty" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["precious"]


def test_an_unforeseen_failure_is_one_line_and_a_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> dict[str, str]:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("regionfed.run.versions.versions", broken)
    failure.keep_logs_in(tmp_path)
    try:
        assert run(["version"]) == 1
    finally:
        failure.keep_logs_in(None)
    printed = capsys.readouterr().err
    assert printed.startswith("internal error: ZeroDivisionError: boom. Traceback: ")
    log = Path(printed.strip().rpartition(": ")[2])
    assert log.parent == tmp_path
    assert "Traceback" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_debug_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REGIONFED_DEBUG", "0")
    assert run(["--debug", "report", "nosuch"]) == 12
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> dict[str, str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("regionfed.run.versions.versions", interrupted)
    assert run(["version"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_every_exit_code_has_its_paragraph() -> None:
    import regionfed.errors as errors

    text = (Path(__file__).parents[3] / "docs" / "exit-codes.md").read_text()
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    assert QuorumError in kinds
    for kind in kinds:
        assert f"\n## {kind.exit_code}: " in text, kind.__name__
