"""`ktui reassign`: reads its words as kafka-reassign-partitions.sh does, and performs an action."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NoReturn

import click

from ktui import __version__
from ktui.cli.context.errors import FAILED, BadInput
from ktui.cli.context.terminal import print_note
from ktui.cli.options.cluster import complete_context
from ktui.cli.reassign.command_line import Arguments, BadArguments, check, help_text, parse
from ktui.cli.reassign.options import OPTIONS, Action, Group, Option
from ktui.cli.reassign.printed import ActionFailed, ReassignProblem
from ktui.cluster.errors import ClusterError
from ktui.cluster.text import clean
from ktui.execution.errors import RunProblem, RunRefused
from ktui.inputfile import FileProblem
from ktui.planning.striped_placement import PlacementProblem

_ACTIONS: Mapping[Action, str] = {
    Action.LIST: "reading:list_reassignments",
    Action.VERIFY: "verify:verify",
    Action.GENERATE: "reading:generate",
    Action.EXECUTE: "execute:execute",
    Action.CANCEL: "cancel:cancel",
    Action.CANCEL_ALL: "cancel:cancel_all",
    Action.REMOVE_CANCEL: "cancel:remove_cancel",
    Action.PROGRESS: "reading:show_progress",
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


_FILES = {"FILE": click.Path(), "DIR": click.Path(file_okay=False)}
"""The arguments that a shell completes as files, by what stands for them in the help."""
_ONLY_WITH = (Group.EXECUTE, Group.VERIFY_AND_CANCEL, Group.GENERATE)
"""The groups whose heading the meaning needs, since neither shell nor manual shows groups."""


class ReassignCommand(click.Command):
    """A command that reads its own words; click knows its options for the shell and the manual."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell that completes the line
            return super().parse_args(ctx, args)
        ctx.params["arguments"] = _read(ctx, args)
        return []

    def get_help(self, ctx: click.Context) -> str:
        return help_text(ctx.command_path)


def _read(context: click.Context, words: list[str]) -> Arguments:
    if not words:
        _end(context, context.get_help(), FAILED)
    try:
        arguments = parse(words)
        if arguments.has("help"):
            _end(context, context.get_help())
        if arguments.has("version"):
            _end(context, f"ktui, version {__version__}")
        check(arguments)
    except BadArguments as problem:
        _refuse(context, problem)
    return arguments


def _refuse(context: click.Context, problem: BadArguments) -> NoReturn:
    hint = f"Try '{context.command_path} --help' for help."
    _end(context, f"ktui: {clean(str(problem))}\n{hint}", FAILED)


def _end(context: click.Context, text: str, code: int = 0) -> NoReturn:
    click.echo(text, err=code != 0)
    context.exit(code)


def _for_click(option: Option) -> click.Option:
    only_with = f"{option.group}: " if option.group in _ONLY_WITH else ""
    return click.Option(
        [f"--{option.name}"],
        help=only_with + option.about,
        metavar=option.metavar or None,
        is_flag=not option.metavar,
        flag_value="" if option.argument_optional else None,
        type=_FILES.get(option.metavar),
        shell_complete=complete_context if option.name == "context" else None,
        hidden=bool(option.refusal),
    )


@click.command(
    "reassign", cls=ReassignCommand, params=[_for_click(option) for option in OPTIONS.values()]
)
@click.pass_context
def command(context: click.Context, arguments: Arguments) -> None:
    """Move partitions with the options of kafka-reassign-partitions.sh.

    Options, messages and files are those of Apache Kafka's tool, so scripts written for it go on
    working. ktui adds actions (--cancel-all, --remove-cancel, --progress), batches (KIP-1335), and
    the options --context, --state-dir, --as-run, --take-over, --no-ownership,
    --allow-full-log-dirs and --clear-foreign-throttles.

    Give exactly one action, and name the cluster with --bootstrap-server or --context.

    Exit code 1 if the words or the action fail, as in Apache's tool. Unlike there, --help prints
    on standard output, with exit code 0.
    """
    try:
        code = act(arguments)
    except BadArguments as problem:
        _refuse(context, problem)
    context.exit(code)
