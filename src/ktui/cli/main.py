"""The `ktui` command: finds the verb, runs it, and turns what went wrong into words."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from keyword import iskeyword

import click

from ktui import __version__
from ktui.cli.errors import BadInput
from ktui.cli.terminal import clean_output
from ktui.cluster.errors import ClusterError
from ktui.execution.problem import RunProblem, RunRefused
from ktui.fileproblem import FileProblem

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
"""Exit codes besides 0; 3 (some partitions not at their target) comes with verbs that move."""

DEBUG = "KTUI_DEBUG"
"""Set to anything, a defect of ktui's own is told with its traceback."""

VERBS = (
    "watch",
    "record",
    "replay",
    "list",
    "plan",
    "start",
    "resume",
    "runs",
    "status",
    "limits",
    "throttle",
    "pause",
    "continue",
    "cancel",
    "add",
    "pipeline",
    "insights",
    "doctor",
    "demo",
    "lab",
)
NOT_FOR_PEOPLE = ("engine",)
"""Verbs that other verbs start."""
DEFAULT_VERB = "watch"


class Verbs(click.Group):
    """Loads a verb's module only when that verb is called, so that none pays for another."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the verbs, in the order of the help."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Give one verb's command, or None when there is no such verb."""
        del ctx
        if cmd_name not in (*VERBS, *NOT_FOR_PEOPLE):
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = import_module(f"ktui.cli.{name}").command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take bare `ktui [options]` as `ktui watch [options]`."""
        own = {option for parameter in self.get_params(ctx) for option in parameter.opts}
        if not args or (args[0].startswith("-") and args[0] not in own):
            args = [DEFAULT_VERB, *args]
        return super().parse_args(ctx, args)


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ktui")
def ktui() -> None:
    """Live management of Kafka partition reassignments.

    Without a verb: the live view, as `ktui watch`.
    """


def main() -> None:
    """Run the command line; every end is an exit code and, on failure, one plain sentence."""
    with clean_output():
        _run()


def _run() -> None:
    try:
        code = ktui(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(BAD_INPUT)
    except (BadInput, FileProblem, RunRefused) as problem:
        _stop(str(problem), BAD_INPUT)
    except (ClusterError, RunProblem) as error:
        _stop(str(error), FAILED)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(INTERRUPTED)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        _stop(f"{error.strerror or error}{place}", FAILED)
    except Exception as error:  # noqa: BLE001 - no traceback reaches a person unless asked for
        if os.environ.get(DEBUG):
            click.echo(traceback.format_exc(), err=True)
            sys.exit(FAILED)
        what = f"a defect of ktui itself: {type(error).__name__}: {error}"
        _stop(f"{what}. Please report it, with what {DEBUG}=1 shows.", FAILED)
    else:
        sys.exit(code)


def _stop(message: str, code: int) -> None:
    click.echo(f"ktui: {message}", err=True)
    sys.exit(code)
