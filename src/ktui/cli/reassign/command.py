"""The command line of `ktui reassign`: read, checked and explained."""

from __future__ import annotations

import re
import textwrap
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import NamedTuple, NoReturn, TypeVar

import click
import msgspec

from ktui import __version__
from ktui.cli.context.cluster import complete_context
from ktui.cli.context.terminal import FAILED, BadInput, print_note
from ktui.cli.reassign.options import DEFAULTS, OPTIONS, Action, Group, Option
from ktui.cluster.errors import ClusterError
from ktui.cluster.text import clean
from ktui.execution import RunProblem, RunRefused
from ktui.inputfile import FileProblem
from ktui.ops.reassign.tool import ActionFailed, ReassignProblem
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
        return any(option.name == name for option in self.given)

    def text(self, name: str) -> str | None:
        """Return the value of an option; None if it was not given."""
        return self._only(name, lambda _, text: text) if self.has(name) else None

    def number(self, name: str) -> int:
        """Return the value of an option that is a number; its default if it was not given."""
        return self._only(name, _number) if self.has(name) else DEFAULTS[name]

    @property
    def actions(self) -> tuple[Action, ...]:
        return tuple(action for action in Action if self.has(action))

    @property
    def action(self) -> Action:
        return self.actions[0]

    def _only(self, name: str, read: Callable[[str, str], T]) -> T:
        texts = [value for given, value in self.given if given == name and value is not None]
        values = [read(name, text) for text in texts]
        if not values:
            raise _lacks_argument(name)
        if len(values) > 1:
            raise BadArguments(
                f"Found multiple arguments for option {name}, but you asked for only one"
            )
        return values[0]


def _number(name: str, text: str) -> int:
    if _NUMBER.fullmatch(text) and (number := int(text)) in LONG:
        return number
    raise BadArguments(f"Cannot parse argument '{text}' of option {name}")


def _lacks_argument(name: str) -> BadArguments:
    return BadArguments(f"Option {name} requires an argument")


def parse(words: Sequence[str]) -> Arguments:
    """Read a command line. Like the tool, ignore stray words, and all words after `--`."""
    rest = deque(words)
    given: list[_GivenOption] = []
    while rest and (word := rest.popleft()) != "--":
        if not _looks_like_option(word):
            continue
        name, equals, value = word[2 if word.startswith("--") else 1 :].partition("=")
        if (option := OPTIONS.get(name)) is None:
            # After one dash, the tool also looks for options of one letter. It has none.
            unknown = name if word.startswith("--") else word[1]
            raise BadArguments(f"{unknown} is not a recognized option")
        if option.metavar:
            argument = value if equals else _next_argument(option, rest)
        given.append(_GivenOption(name, argument if option.metavar else None))
    return Arguments(tuple(given))


def _looks_like_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _next_argument(option: Option, rest: deque[str]) -> str | None:
    """Pop the argument of an option. One that is required may look like an option."""
    if option.argument_optional and (not rest or _looks_like_option(rest[0])):
        return None
    if not rest:
        raise _lacks_argument(option.name)
    return rest.popleft()


SERVER, CONTROLLER = "bootstrap-server", "bootstrap-controller"
BATCH_SIZE, POLL_INTERVAL = "reassignment-batch-size", "reassignment-poll-interval-ms"

_CLUSTER_EXCLUDES = ((SERVER, CONTROLLER), ("context", SERVER), ("context", CONTROLLER))
_EXCLUDES = (
    ("take-over", "no-ownership"),
    ("preserve-throttles", "clear-foreign-throttles"),
    ("as-run", "replica-alter-log-dirs-throttle"),
    ("as-run", POLL_INTERVAL),
)


def check(arguments: Arguments) -> None:
    """Check that a command line has one action, and the options that go with it."""
    for problem in _problems(arguments):
        raise BadArguments(problem)


def _problems(arguments: Arguments) -> Iterator[str]:
    """Yield what is wrong, in the order of the tool: what follows may rest on what comes before."""
    has = arguments.has
    options = [OPTIONS[name] for name, _ in arguments.given]
    yield from (option.refusal for option in options if option.refusal)
    if len(arguments.actions) != 1:
        yield (
            "Command must include exactly one action: --generate, --execute, --verify, --cancel, "
            "--list"
        )
    action = arguments.action
    yield from _exclusions(arguments, _CLUSTER_EXCLUDES)
    if not any(map(has, (SERVER, CONTROLLER, "context"))):
        yield f"Please specify either --{SERVER} or --{CONTROLLER}"
    for option in OPTIONS.values():
        if option.required and action in option.actions and not has(option.name):
            yield f'Missing required argument "[{option.name}]"'
    for option in options:
        if not option.goes_with(action):
            yield f'Option "[{option.name}]" can\'t be used with action "[{action}]"'
    yield from _exclusions(arguments, _EXCLUDES)
    yield from _batch_problems(arguments)
    if has("as-run") and has("allow-full-log-dirs"):  # no run makes such moves
        yield (
            "--allow-full-log-dirs is about moves between log directories, and --as-run makes "
            "none. Leave one of them out"
        )


def _batch_problems(arguments: Arguments) -> Iterator[str]:
    size, interval = arguments.number(BATCH_SIZE), arguments.number(POLL_INTERVAL)
    if size < 0:
        yield f"--{BATCH_SIZE} is {size}. Give 0 for no batches, or a positive number"
    if arguments.has("incremental") and size == 0:
        yield f"--incremental needs batches. Give --{BATCH_SIZE} N, with N above 0"
    if interval <= 0:
        yield f"--{POLL_INTERVAL} is {interval}. Give a number above 0"


def _exclusions(arguments: Arguments, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    for one, other in pairs:
        if arguments.has(one) and arguments.has(other):
            yield f"Please don't specify both --{one} and --{other}"


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
    term, indent = f"  --{option.name} {option.metavar}".rstrip(), " " * _COLUMN
    meaning = "\n".join(_wrap(option.about, WIDTH, initial_indent=indent, subsequent_indent=indent))
    if len(term) > _COLUMN - 2:
        return f"{term}\n{meaning}"
    return term.ljust(_COLUMN) + meaning.lstrip()


def _example(program: str, option: Option) -> str:
    """Return an example of an action, as a shell accepts it; no line parts an option's value."""
    words = re.sub(" (?!--)", "\N{NO-BREAK SPACE}", f"{program} {option.example}")
    lines = _wrap(words, WIDTH - len(" \\"), initial_indent="  ", subsequent_indent="      ")
    return " \\\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


_FUNCTIONS: Mapping[Action, str] = {
    Action.LIST: "reading:list_reassignments",
    Action.GENERATE: "reading:generate",
    Action.PROGRESS: "reading:show_progress",
    Action.VERIFY: "changes:verify",
    Action.EXECUTE: "changes:execute",
    Action.CANCEL: "changes:cancel",
    Action.CANCEL_ALL: "changes:cancel_all",
    Action.REMOVE_CANCEL: "changes:remove_cancel",
}
"""The module and the function of each action, so that --list does not load what others need."""


def act(arguments: Arguments) -> int:
    """Carry out the action of checked arguments, and return the exit code: 0 or 1.

    Errors of the tool go to standard output, as from the tool. What only ktui refuses goes to
    standard error.
    """
    module, _, name = _FUNCTIONS[arguments.action].partition(":")
    if arguments.has(CONTROLLER):
        module = "controllers"
    try:
        getattr(import_module(f"ktui.cli.reassign.{module}"), name)(arguments)
    except ActionFailed as failed:
        click.echo(str(failed))
    except (BadArguments, ReassignProblem, PlacementProblem, ClusterError) as problem:
        click.echo(f"Error: {problem}")
    except (BadInput, FileProblem, RunProblem, RunRefused) as problem:
        print_note(str(problem))
    else:
        return 0
    return FAILED


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
