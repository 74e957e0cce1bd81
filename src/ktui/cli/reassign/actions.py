"""The actions of `ktui reassign`: what each prints and where, and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import click

from ktui.cli.context.errors import FAILED, BadInput
from ktui.cli.context.terminal import print_note
from ktui.cli.reassign.arguments import Arguments, BadArguments
from ktui.cli.reassign.cancel import cancel, cancel_all, remove_cancel
from ktui.cli.reassign.errors import ActionFailed, ReassignProblem
from ktui.cli.reassign.execute import execute
from ktui.cli.reassign.generate import generate
from ktui.cli.reassign.list import list_reassignments
from ktui.cli.reassign.options import Action
from ktui.cli.reassign.progress import show_progress
from ktui.cli.reassign.verify import verify
from ktui.cluster.errors import ClusterError
from ktui.execution.errors import RunProblem, RunRefused
from ktui.fileproblem import FileProblem
from ktui.planning.striped_placement import PlacementProblem

_ACTIONS: Mapping[Action, Callable[[Arguments], None]] = {
    Action.LIST: list_reassignments,
    Action.VERIFY: verify,
    Action.GENERATE: generate,
    Action.EXECUTE: execute,
    Action.CANCEL: cancel,
    Action.CANCEL_ALL: cancel_all,
    Action.REMOVE_CANCEL: remove_cancel,
    Action.PROGRESS: show_progress,
}


def act(arguments: Arguments) -> int:
    """Carry out the action of checked arguments, and return the exit code: 0 or 1.

    Errors of the tool go to standard output, as from the tool. What only ktui refuses goes to
    standard error.
    """
    try:
        _ACTIONS[arguments.action](arguments)
    except ActionFailed as failed:
        click.echo(str(failed))
    except (BadArguments, ReassignProblem, PlacementProblem, ClusterError) as problem:
        click.echo(f"Error: {problem}")
    except (BadInput, FileProblem, RunProblem, RunRefused) as problem:
        print_note(str(problem))
    else:
        return 0
    return FAILED
