"""The command line of `ktui reassign`: read, checked and explained."""

from __future__ import annotations

import re
import textwrap
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import NamedTuple, NoReturn, TypeVar

import click
import msgspec

from ktui import __version__
from ktui.cli.context.errors import FAILED, BadInput
from ktui.cli.context.terminal import print_note
from ktui.cli.options.cluster import complete_context
from ktui.cli.reassign.options import DEFAULTS, OPTIONS, Action, Group, Option
from ktui.cli.reassign.printed import ActionFailed, ReassignProblem
from ktui.cluster.errors import ClusterError
from ktui.cluster.text import clean
from ktui.execution.errors import RunProblem, RunRefused
from ktui.inputfile import FileProblem
from ktui.planning.replication_factor import PlacementProblem

LONG = range(-(2**63), 2**63)  # the numbers that the tool reads
_NUMBER = re.compile(r"[+-]?\d{1,100}")

T = TypeVar("T")


class BadArguments(Exception):
    """Arguments that are refused; the message is the tool's, where it has one."""


class _GivenOption(NamedTuple):
    name: str
    value: str | None  # None for a flag, and for an optional argument that is left out


class Arguments(msgspec.Struct, frozen=True):
    """The options of a command line."""

    given: tuple[_GivenOption, ...]  # in the order of the command line, with repeats

    def has(self, name: str) -> bool:
        """Return whether an option was given."""
        return any(option.name == name for option in self.given)

    def text(self, name: str) -> str | None:
        """Return the value of an option; None if it was not given."""
        if not self.has(name):
            return None
        return _only(name, self._values(name))

    def number(self, name: str) -> int:
        """Return the value of an option that is a number; its default if it was not given."""
        if not self.has(name):
            return DEFAULTS[name]
        return _only(name, [_number(name, value) for value in self._values(name)])

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions that were given."""
        return tuple(action for action in Action if self.has(action))

    @property
    def action(self) -> Action:
        """The one action of arguments that were checked."""
        return self.actions[0]

    def _values(self, name: str) -> list[str]:
        return [value for given, value in self.given if given == name and value is not None]


def parse(words: Sequence[str]) -> Arguments:
    """Read a command line. Like the tool, ignore stray words, and all words after `--`."""
    rest = deque(words)
    given: list[_GivenOption] = []
    while rest and (word := rest.popleft()) != "--":
        if _looks_like_option(word):
            option, value = _split(word)
            if option.metavar and value is None:
                value = _next_argument(option, rest)
            given.append(_GivenOption(option.name, value if option.metavar else None))
    return Arguments(tuple(given))


def _looks_like_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _split(word: str) -> tuple[Option, str | None]:
    """Return the option of a word, and its argument if that stands in the same word."""
    is_long = word.startswith("--")
    name, equals, value = word[2 if is_long else 1 :].partition("=")
    if name not in OPTIONS:
        # After one dash, the tool also looks for options of one letter. It has none.
        unknown = name if is_long else word[1]
        raise BadArguments(f"{unknown} is not a recognized option")
    return OPTIONS[name], value if equals else None


def _next_argument(option: Option, rest: deque[str]) -> str | None:
    """Pop the argument of an option. One that is required may look like an option."""
    if option.argument_optional and (not rest or _looks_like_option(rest[0])):
        return None
    if not rest:
        raise _lacks_argument(option.name)
    return rest.popleft()


def _number(name: str, text: str) -> int:
    if _NUMBER.fullmatch(text) and (number := int(text)) in LONG:
        return number
    raise BadArguments(f"Cannot parse argument '{text}' of option {name}")


def _only(name: str, values: Sequence[T]) -> T:
    if not values:
        raise _lacks_argument(name)
    if len(values) > 1:
        raise BadArguments(
            f"Found multiple arguments for option {name}, but you asked for only one"
        )
    return values[0]


def _lacks_argument(name: str) -> BadArguments:
    return BadArguments(f"Option {name} requires an argument")


SERVER, CONTROLLER, CONTEXT = "bootstrap-server", "bootstrap-controller", "context"
BATCH_SIZE, INCREMENTAL = "reassignment-batch-size", "incremental"
POLL_INTERVAL = "reassignment-poll-interval-ms"
AS_RUN, IGNORES_ROOM = "as-run", "allow-full-log-dirs"

_OPPOSITES = (
    ("take-over", "no-ownership"),
    ("preserve-throttles", "clear-foreign-throttles"),
    ("as-run", "replica-alter-log-dirs-throttle"),
    ("as-run", POLL_INTERVAL),
)


def check(arguments: Arguments) -> None:
    """Check that a command line has one action, and the options that go with it."""
    _check_refused(arguments)
    if len(arguments.actions) != 1:
        raise BadArguments(
            "Command must include exactly one action: --generate, --execute, --verify, --cancel, "
            "--list"
        )
    _check_cluster(arguments)
    _check_required(arguments)
    _check_permitted(arguments)
    for one, other in _OPPOSITES:
        _check_not_both(arguments, one, other)
    _check_batches(arguments)
    _check_room_ignored(arguments)


def _check_refused(arguments: Arguments) -> None:
    for name, _ in arguments.given:
        if OPTIONS[name].refusal:
            raise BadArguments(OPTIONS[name].refusal)


def _check_cluster(arguments: Arguments) -> None:
    _check_not_both(arguments, SERVER, CONTROLLER)
    _check_not_both(arguments, CONTEXT, SERVER)
    _check_not_both(arguments, CONTEXT, CONTROLLER)
    if not any(map(arguments.has, (SERVER, CONTROLLER, CONTEXT))):
        raise BadArguments(f"Please specify either --{SERVER} or --{CONTROLLER}")


def _check_required(arguments: Arguments) -> None:
    for option in OPTIONS.values():
        if arguments.action in option.required and not arguments.has(option.name):
            raise BadArguments(f'Missing required argument "[{option.name}]"')


def _check_permitted(arguments: Arguments) -> None:
    action = arguments.action
    for name, _ in arguments.given:
        if not OPTIONS[name].goes_with(action):
            raise BadArguments(f'Option "[{name}]" can\'t be used with action "[{action}]"')


def _check_not_both(arguments: Arguments, one: str, other: str) -> None:
    if arguments.has(one) and arguments.has(other):
        raise BadArguments(f"Please don't specify both --{one} and --{other}")


def _check_batches(arguments: Arguments) -> None:
    size, interval = arguments.number(BATCH_SIZE), arguments.number(POLL_INTERVAL)
    if size < 0:
        raise BadArguments(f"--{BATCH_SIZE} is {size}. Give 0 for no batches, or a positive number")
    if arguments.has(INCREMENTAL) and size == 0:
        raise BadArguments(f"--{INCREMENTAL} needs batches. Give --{BATCH_SIZE} N, with N above 0")
    if interval <= 0:
        raise BadArguments(f"--{POLL_INTERVAL} is {interval}. Give a number above 0")


def _check_room_ignored(arguments: Arguments) -> None:
    """Check the option about moves between log dirs, which no run makes."""
    if arguments.has(AS_RUN) and arguments.has(IGNORES_ROOM):
        raise BadArguments(
            f"--{IGNORES_ROOM} is about moves between log directories, and --{AS_RUN} makes none. "
            "Leave one of them out"
        )


WIDTH = 80
_COLUMN = 24  # where the meaning of an option begins; a longer option has a line of its own

_PURPOSE = (
    "Move partitions between brokers, with the options of Apache Kafka's "
    "kafka-reassign-partitions.sh and some more. Give exactly one action."
)
_FILES = """\
Files:
  --reassignment-json-file; log_dirs may be left out, and "any" leaves the
  directory to the broker:

    {"version": 1, "partitions": [
      {"topic": "orders", "partition": 0, "replicas": [4, 5, 6],
       "log_dirs": ["any", "/disk1", "any"]}]}

  --topics-to-move-json-file:

    {"version": 1, "topics": [{"topic": "orders"}, {"topic": "payments"}]}"""

_wrap = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)


def help_text(program: str) -> str:
    """Return the help; `program` is how it was called, such as "ktui reassign"."""
    examples = (_example(program, option) for option in OPTIONS.values() if option.example)
    parts = (
        f"Usage: {program} ACTION [OPTION]...",
        "\n".join(_wrap(_PURPOSE, WIDTH)),
        *map(_section, Group),
        _FILES,
        "\n".join(("Examples:", *examples)),
    )
    return "\n\n".join(parts)


def _section(group: Group) -> str:
    options = (each for each in OPTIONS.values() if each.group is group and not each.refusal)
    return "\n".join((f"{group}:", *map(_entry, options)))


def _entry(option: Option) -> str:
    term = f"  --{option.name} {option.metavar}".rstrip()
    indent = " " * _COLUMN
    meaning = "\n".join(_wrap(option.about, WIDTH, initial_indent=indent, subsequent_indent=indent))
    if len(term) > _COLUMN - 2:
        return f"{term}\n{meaning}"
    return term.ljust(_COLUMN) + meaning.lstrip()


def _example(program: str, option: Option) -> str:
    """Return an example of an action, as a shell accepts it; no line parts an option's value."""
    words = re.sub(" (?!--)", "\N{NO-BREAK SPACE}", f"{program} {option.example}")
    lines = _wrap(words, WIDTH - len(" \\"), initial_indent="  ", subsequent_indent="      ")
    return " \\\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


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


_COMMAND_FILES = {"FILE": click.Path(), "DIR": click.Path(file_okay=False)}
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
        type=_COMMAND_FILES.get(option.metavar),
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
