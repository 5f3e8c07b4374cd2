"""The `regionfed` command: finds the subcommand, and ends on every failure with one line.

Subcommands are imported when they are called, so that `--help` and `version` start at once.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import click
import typer
from typer.core import TyperCommand, TyperGroup

from regionfed.cli.failure import report_failure, report_unexpected
from regionfed.errors import RegionFedError

COMMANDS = {
    "simulate": "Run all tiers in this process, with the same apps as a deployment.",
    "up": "Run all tiers as processes of this machine, over loopback gRPC.",
    "plan": "Check a configuration and print what a run would cost; nothing is trained.",
    "diagnose": "Measure whether regions conflict: is a global model enough?",
    "status": "What a run is doing, tier by tier, and whether it is alive.",
    "report": "Write report.html of a run anew, also of one that failed or still runs.",
    "bench": "Run a benchmark recipe and write its tables and plots.",
    "privacy": "What a privacy budget buys, what a run has spent, and whether it holds.",
    "certs": "Make certificates and keys; private keys stay on site.",
    "check": "Check a process before or during a run.",
    "compose": "Files that start the federation in containers.",
    "schema": "Print the JSON schema of the federation file, or write the generated reference.",
    "version": "Print the versions of RegionFed and of what it runs on.",
}
"""What each subcommand does; `regionfed.cli.NAME` holds it as a typer application `app`."""

INTERRUPTED = 130


def load_command(name: str) -> click.Command:
    """Import one subcommand."""
    command = typer.main.get_command(importlib.import_module(f"regionfed.cli.{name}").app)
    command.name = name
    return command


class LazyGroup(TyperGroup):
    """A group whose subcommands are imported when they are called, and not for its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which a newcomer needs them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """What the group's help says of a subcommand, or None when there is none."""
        del ctx
        text = COMMANDS.get(cmd_name)
        return None if text is None else TyperCommand(cmd_name, help=text)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand that is called."""
        if args[0] in COMMANDS:
            return args[0], load_command(args[0]), args[1:]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=LazyGroup,
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
    """Regional federated learning: global server, regional coordinators, clients."""
    if debug:
        os.environ["REGIONFED_DEBUG"] = "1"


def run(arguments: Sequence[str]) -> int:
    """Execute one command line and return its exit code (`docs/exit-codes.md`)."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=list(arguments), prog_name="regionfed", standalone_mode=False)
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
        # Typer turns Ctrl-C into this code by itself, without a word.
        print("interrupted", file=sys.stderr)
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of the installed command."""
    sys.exit(run(sys.argv[1:]))
