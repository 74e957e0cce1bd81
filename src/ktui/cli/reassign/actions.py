"""The actions of `ktui reassign`: what each prints and where, and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

import click

from ktui.cli.context.errors import FAILED, BadInput
from ktui.cli.context.terminal import print_note
from ktui.cli.reassign.command_line.arguments import Arguments, BadArguments
from ktui.cli.reassign.command_line.options import Action
from ktui.cli.reassign.errors import ActionFailed, ReassignProblem
from ktui.cluster.errors import ClusterError
from ktui.execution.errors import RunProblem, RunRefused
from ktui.fileproblem import FileProblem
from ktui.planning.striped_placement import PlacementProblem

_ACTIONS: Mapping[Action, str] = {
    Action.LIST: "list:list_reassignments",
    Action.VERIFY: "verify:verify",
    Action.GENERATE: "generate:generate",
    Action.EXECUTE: "execute:execute",
    Action.CANCEL: "cancel:cancel",
    Action.CANCEL_ALL: "cancel:cancel_all",
    Action.REMOVE_CANCEL: "cancel:remove_cancel",
    Action.PROGRESS: "progress:show_progress",
}
"""The module and the function of each action; an action loads no other."""
_BY_CONTROLLERS: Mapping[Action, str] = {
    Action.LIST: "controllers:list_by_controllers",
    Action.CANCEL: "controllers:cancel_by_controllers",
    Action.CANCEL_ALL: "controllers:cancel_all_by_controllers",
}
"""The same with --bootstrap-controller."""


def act(arguments: Arguments) -> int:
    """Carry out the action of checked arguments, and return the exit code: 0 or 1.

    Errors of the tool go to standard output, as from the tool. What only ktui refuses goes to
    standard error.
    """
    try:
        _function(arguments)(arguments)
    except ActionFailed as failed:
        click.echo(str(failed))
    except (BadArguments, ReassignProblem, PlacementProblem, ClusterError) as problem:
        click.echo(f"Error: {problem}")
    except (BadInput, FileProblem, RunProblem, RunRefused) as problem:
        print_note(str(problem))
    else:
        return 0
    return FAILED


def _function(arguments: Arguments) -> Callable[[Arguments], None]:
    actions = _BY_CONTROLLERS if arguments.has("bootstrap-controller") else _ACTIONS
    module, _, name = actions[arguments.action].partition(":")
    function: Callable[[Arguments], None] = getattr(
        import_module(f"ktui.cli.reassign.{module}"), name
    )
    return function
