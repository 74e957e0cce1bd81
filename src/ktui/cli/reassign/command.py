"""`ktui reassign`: reads its words as kafka-reassign-partitions.sh does, and performs an action."""

from __future__ import annotations

from typing import NoReturn

import click

from ktui import __version__
from ktui.cli.context.errors import FAILED
from ktui.cli.options.cluster import complete_context
from ktui.cli.reassign.actions import act
from ktui.cli.reassign.command_line.arguments import Arguments, BadArguments, parse
from ktui.cli.reassign.command_line.check import check
from ktui.cli.reassign.command_line.help import help_text
from ktui.cli.reassign.command_line.options import OPTIONS, Group, Option
from ktui.cluster.text import clean

_FILES = {"FILE": click.Path(), "DIR": click.Path(file_okay=False)}
"""The arguments that a shell completes as files, by what stands for them in the help."""
_ONLY_WITH = (Group.EXECUTE, Group.VERIFY_AND_CANCEL, Group.GENERATE)
"""The groups whose heading the meaning needs, since neither shell nor manual shows groups."""


class ReassignCommand(click.Command):
    """A command that reads its own words; click knows its options for the shell and the manual."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words as `arguments`, or end with the help, the version or an error."""
        if ctx.resilient_parsing:  # a shell that completes the line
            return super().parse_args(ctx, args)
        ctx.params["arguments"] = _read(ctx, args)
        return []

    def get_help(self, ctx: click.Context) -> str:
        """Return the help with its groups, in place of click's."""
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
