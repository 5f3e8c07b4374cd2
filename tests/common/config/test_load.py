"""The federation file: layers, paths, and errors that say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from regionfed.config.federation import FederationConfig
from regionfed.config.keys import alternatives, fields, path_keys
from regionfed.config.load import load_config
from regionfed.config.write import resolved_toml, write_resolved
from regionfed.errors import ConfigError


def write(folder: Path, text: str) -> Path:
    path = folder / "federation.toml"
    path.write_text(text)
    return path


def error_of(path: Path | None, **given: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, **{"environ": {}, **given})
    return str(caught.value)


def test_no_file_gives_the_defaults() -> None:
    assert load_config(None, environ={}) == FederationConfig()


def test_defaults_pass_their_own_validation() -> None:
    assert FederationConfig.model_validate(FederationConfig().model_dump()) == FederationConfig()


def test_later_layers_win(tmp_path: Path) -> None:
    path = write(tmp_path, "[run]\nrounds = 2\nseed = 3\nname = 'file'\n")
    config = load_config(
        path,
        environ={"REGIONFED__RUN__ROUNDS": "4", "REGIONFED__RUN__SEED": "5", "OTHER": "1"},
        overrides=["run.rounds=6"],
    )
    assert (config.run.rounds, config.run.seed, config.run.name) == (6, 5, "file")


def test_environment_values_are_toml_and_words_need_no_quotes() -> None:
    config = load_config(
        None,
        environ={
            "REGIONFED__DATA__REGIONS": '["north", "south"]',
            "REGIONFED__RUN__NAME": "night-run",
            "REGIONFED__PRIVACY__SECURE_AGGREGATION__ENABLED": "true",
            "REGIONFED__TRAINING__LEARNING_RATE": "1e-4",
        },
    )
    assert config.data.regions == ["north", "south"]
    assert config.run.name == "night-run"
    assert config.privacy.secure_aggregation.enabled is True
    assert config.training.learning_rate == 1e-4


def test_overrides_may_be_typed_values() -> None:
    assert load_config(None, environ={}, overrides={"run.rounds": 9}).run.rounds == 9


def test_relative_paths_count_from_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    path = write(
        folder,
        "[run]\noutput = '../out'\n[model]\nkind = 'hub'\ncheckpoint = './mine'\n"
        "[data]\nsource = 'files'\n[data.files]\npath = 'rows/{region}.jsonl'\ntask = 'intent'\n",
    )
    config = load_config(path, environ={})
    assert config.run.output == tmp_path / "out"
    assert config.model.checkpoint == str(folder / "mine")
    assert config.data.files.path == str(folder / "rows/{region}.jsonl")


def test_a_hub_name_is_not_a_path(tmp_path: Path) -> None:
    path = write(tmp_path, "[model]\nkind = 'hub'\ncheckpoint = 'google-t5/t5-3b'\n")
    assert load_config(path, environ={}).model.checkpoint == "google-t5/t5-3b"


def test_relative_paths_of_overrides_count_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, "[run]\nrounds = 1\n")
    config = load_config(path, environ={}, overrides=["run.output=here"])
    assert config.run.output == tmp_path / "here"


def test_unknown_key_names_file_line_and_near_miss(tmp_path: Path) -> None:
    path = write(tmp_path, "[run]\nname = 'x'\nround = 3\n")
    message = error_of(path)
    assert f"{path} line 3" in message
    assert "unknown key run.round; did you mean run.rounds?" in message


def test_unknown_section_and_misplaced_key(tmp_path: Path) -> None:
    path = write(tmp_path, "[modell]\nkind = 't5'\n")
    assert "line 1: unknown key modell; did you mean model?" in error_of(path)
    path = write(tmp_path, "[model]\nrounds = 3\n")
    assert "unknown key model.rounds; rounds belongs in [run]" in error_of(path)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("learning_rate = -1", "training.learning_rate = -1 must be greater than 0"),
        ("learning_rate = inf", "training.learning_rate = inf must be a finite number"),
        ("batch_size = '5'", "training.batch_size = '5' must be a valid integer"),
        ("batch_size = true", "training.batch_size = true must be a valid integer"),
        ("optimizer = 'admw'", "allowed are 'sgd', 'adam', 'adamw'; did you mean 'adamw'?"),
        ("optimizer = 3", "training.optimizer = 3 is not allowed; allowed are 'sgd'"),
    ],
)
def test_wrong_value_names_key_value_and_what_is_allowed(
    tmp_path: Path, line: str, expected: str
) -> None:
    message = error_of(write(tmp_path, f"[training]\n{line}\n"))
    assert "line 2" in message
    assert expected in message


def test_every_wrong_key_is_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "[run]\nrounds = 0\n[training]\nbatch_size = 0\n")
    assert len(error_of(path).splitlines()) == 2


def test_rule_inside_a_section_names_the_section(tmp_path: Path) -> None:
    path = write(tmp_path, "[method.rho]\nlow = 2.0\n")
    assert f"{path} line 1: [method.rho] high (1.0) must be above low (2.0)" in error_of(path)


def test_unknown_key_in_a_table_that_the_user_names(tmp_path: Path) -> None:
    path = write(tmp_path, "[data.custom.mood]\nkind = 'classification'\nlabel = ['a', 'b']\n")
    message = error_of(path)
    assert "line 3" in message
    assert "data.custom.mood.label" in message
    assert "did you mean data.custom.mood.labels?" in message


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("REGIONFED__RUN__ROUNDS", "zero", "variable REGIONFED__RUN__ROUNDS: run.rounds = 'zero'"),
        ("REGIONFED__ROUNDS", "1", "REGIONFED__SECTION__KEY"),
        ("REGIONFED__RUN__NAME", "7", "write it in quotes"),
        ("REGIONFED__DATA__REGIONS", "[1", "is not a TOML value"),
        ("REGIONFED__RUN__ROUNDS__X", "1", "run.rounds"),
    ],
)
def test_environment_errors_name_the_variable(name: str, value: str, expected: str) -> None:
    message = error_of(None, environ={name: value})
    assert name in message
    assert expected in message


def test_assignment_errors() -> None:
    assert "section.key=value" in error_of(None, overrides=["rounds=1"])
    assert "section.key=value" in error_of(None, overrides=["run.rounds"])
    assert "--set run.rounds: run.rounds = 0" in error_of(None, overrides=["run.rounds=0"])


def test_a_line_break_in_a_value_adds_no_key() -> None:
    message = error_of(None, environ={"REGIONFED__RUN__ROUNDS": "1\nother = 2"})
    assert "run.rounds" in message


def test_missing_file_folder_and_broken_toml(tmp_path: Path) -> None:
    assert "does not exist" in error_of(tmp_path / "none.toml")
    assert "is a folder" in error_of(tmp_path)
    assert "is not valid TOML" in error_of(write(tmp_path, "[run\n"))


def test_resolved_file_reads_back_equal(tmp_path: Path) -> None:
    config = load_config(
        None,
        environ={},
        overrides={
            "run.output": str(tmp_path / "runs"),
            "network.certificates": str(tmp_path / "certs"),
            "model.lora": {"rank": 4, "targets": ["q"]},
            "data.custom": {"mood": {"kind": "classification", "labels": ["a", "b"]}},
            "privacy.budget.delta": 1e-7,
        },
    )
    path = tmp_path / "resolved.toml"
    write_resolved(config, path)
    assert load_config(path, environ={}) == config
    assert load_config(path, environ={}).digest() == config.digest()


def test_resolved_file_of_the_defaults_means_the_same(tmp_path: Path) -> None:
    path = tmp_path / "resolved.toml"
    write_resolved(FederationConfig(), path)
    again = load_config(path, environ={})
    assert again.digest() == FederationConfig().digest()
    assert resolved_toml(again) == resolved_toml(FederationConfig())


def test_keys_that_may_be_null_are_null_by_default() -> None:
    """Else a resolved file, which leaves null out, would read back as something else."""
    for key, field in fields():
        if type(None) in alternatives(field.annotation):
            assert field.default is None, key


def test_paths_are_found_in_the_sections() -> None:
    assert {"run.output", "client.state", "network.certificates", "data.root"} <= path_keys()
