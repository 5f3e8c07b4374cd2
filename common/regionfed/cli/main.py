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
from typer.core import TyperGroup

from regionfed.cli.failure import report_failure, report_unexpected
from regionfed.errors import RegionFedError

COMMANDS = {
    "simulate": "regionfed.cli.simulate",
    "up": "regionfed.cli.up",
    "plan": "regionfed.cli.plan",
    "report": "regionfed.cli.report",
    "privacy": "regionfed.cli.privacy",
    "certs": "regionfed.cli.certs",
    "schema": "regionfed.cli.schema",
    "version": "regionfed.cli.version",
}
"""Module by subcommand; each has a typer application called `app`."""

INTERRUPTED = 130


class LazyGroup(TyperGroup):
    """A group whose subcommands are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which a newcomer needs them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of that name, or None when there is none."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command


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
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has closed it, as `head` does; that is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return report_unexpected(error)
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of the installed command."""
    sys.exit(run(sys.argv[1:]))
