"""The `regionfed-client` command: ask, look at and export the model on this device."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import click
import typer

from regionfed.cli.failure import report_failure, report_unexpected
from regionfed.errors import ConfigError, DataError, RegionFedError

INTERRUPTED = 130

_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")

State = Annotated[
    Path | None, typer.Option("--state", metavar="DIR", help="The device's state, or a run folder.")
]
Region = Annotated[str | None, typer.Option("--region", metavar="R", help="Whose model.")]
Client = Annotated[str | None, typer.Option("--client", metavar="C", help="Whose model.")]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="The federation file.")
]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of a failure.")
    ] = False,
) -> None:
    """The model on this device: nothing here uses the network."""
    if debug:
        os.environ["REGIONFED_DEBUG"] = "1"


@app.command()
def predict(
    text: Annotated[
        str | None, typer.Argument(help="One query; left out: lines of a file.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="Which question to answer.")] = None,
    source: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help=".txt or .jsonl; '-' or left out: stdin."),
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write JSON lines here.")
    ] = None,
    state: State = None,
    region: Region = None,
    client: Client = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON also for one query.")] = False,
) -> None:
    """Answer one query, or every line of a file, from the composed model."""
    _stay_offline()
    from regionfed_client.served import ServedModel, as_line, find_place, quiet_libraries

    if text is not None and source is not None:
        raise ConfigError("a query and --input are both given; give one of them")
    if text is None and source is None and sys.stdin.isatty():
        raise ConfigError("nothing to answer: give a query, --input FILE, or lines on stdin")
    place = find_place(state=state, region=region, client=client, config=config)
    with quiet_libraries():
        from regionfed_client.predict import Question, answers, read_questions, task_named

        device = ServedModel.open(place)
        if text is not None:
            single = Question(task_named(device, task).name, text.strip())
            ((_, found),) = answers(device, [single])
            value: dict[str, object] = {"task": single.task, "text": text, "answer": found}
            with _writing(target) as out:
                print(as_line(value) if as_json or target else found, file=out)
            return
        with _reading(source) as lines, _writing(target) as out:
            questions = read_questions(
                lines,
                device,
                task=task,
                json_lines=source is not None and source.suffix in (".jsonl", ".json"),
                source=str(source or "stdin"),
            )
            for question, found in answers(device, questions):
                line: dict[str, object] = {
                    "task": question.task,
                    "text": question.text,
                    "answer": found,
                }
                print(as_line(line), file=out)


@app.command()
def show(
    state: State = None,
    region: Region = None,
    client: Client = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """What is stored on the device: round, strength, sizes. No data."""
    from regionfed.units import amount
    from regionfed_client.served import as_line, describe, find_place

    # Nothing is built, so no configuration is needed; its place stands in for it.
    found = describe(
        find_place(state=state, region=region, client=client, config=Path("federation.toml"))
    )
    if as_json:
        typer.echo(as_line(found))
        return
    if found["user_part_served"]:
        served = f"regional + {found['alpha_u']:.3f} * own part"
    elif found["user_part"]:
        served = "regional (the own part did not beat it on this device's rows)"
    else:
        served = "regional (no own part: the user level is off)"
    typer.echo(f"client      {found['region']}/{found['client']}")
    typer.echo(f"round       {found['round']}")
    typer.echo(f"serves      {served}")
    typer.echo(f"parameters  {found['parameters']:,}")
    typer.echo(f"on disk     {amount(float(str(found['bytes'])))} in {found['folder']}")
    if found["mu_u"] is not None:
        typer.echo(f"mu_u        {found['mu_u']:.4g} over {found['conflicts_seen']} conflicts")


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty folder.")],
    form: Annotated[
        str, typer.Option("--format", help="transformers, onnx or executorch.")
    ] = "transformers",
    state: State = None,
    region: Region = None,
    client: Client = None,
    config: Config = None,
) -> None:
    """Write the composed model as a folder for other programs. It contains the user's own part."""
    _stay_offline()
    from regionfed_client.served import ServedModel, find_place, quiet_libraries

    place = find_place(state=state, region=region, client=client, config=config)
    with quiet_libraries():
        from regionfed_client.export import export_model

        written = export_model(ServedModel.open(place), folder, form=form)
    for path in written:
        typer.echo(path)


def _stay_offline() -> None:
    """Let no library ask the network; they read this when they are imported."""
    for name in _OFFLINE:
        os.environ[name] = "1"


@contextmanager
def _reading(source: Path | None) -> Iterator[IO[str]]:
    if source is None or str(source) == "-":
        yield sys.stdin
        return
    try:
        file = source.open(encoding="utf-8")
    except OSError as error:
        raise DataError(f"--input {source} cannot be read: {error.strerror}") from None
    with file:
        yield file


@contextmanager
def _writing(target: Path | None) -> Iterator[IO[str]]:
    """Standard output, or a file that is whole or not there."""
    if target is None:
        yield sys.stdout
        return
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with aside.open("w", encoding="utf-8") as file:
            yield file
        os.replace(aside, target)
    except OSError as error:
        raise DataError(f"--output {target} cannot be written: {error.strerror}") from None
    finally:
        aside.unlink(missing_ok=True)


def run(arguments: Sequence[str]) -> int:
    """Execute one command line and return its exit code (`docs/exit-codes.md`)."""
    command = typer.main.get_command(app)
    try:
        code = command.main(
            args=list(arguments), prog_name="regionfed-client", standalone_mode=False
        )
    except RegionFedError as error:
        return report_failure(error)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has closed it, as `head` does; that is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return report_unexpected(error)
    if code == INTERRUPTED:
        print("interrupted", file=sys.stderr)
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of the installed command."""
    sys.exit(run(sys.argv[1:]))
