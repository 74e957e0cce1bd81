"""How verbs are declared: options by words such as `--by TIME`, groups of options and of verbs."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial, wraps
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ktui.imports import import_to_stay
from ktui.planning.plan import closest_names

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
Verb = Callable[..., R]


class _Members(click.Choice[str]):
    """The words of an enum; the verb gets the member."""

    def __init__(self, kind: type[enum.StrEnum]) -> None:
        super().__init__([member.value for member in kind])
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return self._kind(super().convert(value, param, ctx))


AS_GIVEN = "ktui.as_given"  # the key in a context's notes of what was given, by name


def _read(
    reads: Callable[[Any], object], context: click.Context, option: click.Parameter, given: object
) -> object:
    context.meta.setdefault(AS_GIVEN, {})[option.name] = given
    return None if given is None else reads(given)


class Option:
    """An option, which is added to a verb by a call."""

    def __init__(self, name: str, add: Callable[[Any], Any]) -> None:
        self.name, self._add = name, add  # the name of the verb's argument

    def __call__(self, verb: F) -> F:
        added: F = self._add(verb)
        return added


def add_option(
    words: str,
    purpose: str,
    name: str = "",
    *,
    reads: Callable[[Any], object] | None = None,
    **how: Any,
) -> Option:
    """Return an option of these words, and its help; one that takes no value is a flag.

    Args:
        words: the option, and what the help calls its value.
        name: the verb's argument, if it is not called as the option.
        reads: makes the argument from what was given; not called without the option.
        how: as for `click.option`. A default that is a member of an enum allows its words.
    """
    declared, _, value = words.partition(" ")
    default = how.get("default")
    if isinstance(default, enum.StrEnum):
        how |= {"type": _Members(type(default)), "default": default.value}
    if not value and not how.keys() & {"type", "default", "flag_value"}:
        how["is_flag"] = True
    if reads is not None:
        how["callback"] = partial(_read, reads)
    name = name or declared.partition("/")[0].strip("-").replace("-", "_")
    return Option(name, click.option(declared, name, metavar=value or None, help=purpose, **how))


def all_of(*options: Callable[[Verb[Any]], Verb[Any]]) -> Callable[[F], F]:
    """Return what adds options to a verb, in this order."""

    def add(verb: F) -> F:
        for option in reversed(options):
            verb = option(verb)
        return verb

    return add


class Grouped:
    """Options, also groups of them, that a verb gets as one argument: `make(**options)`."""

    def __init__(
        self, argument: str, make: Callable[..., object], *options: Option | Grouped
    ) -> None:
        self.name, self._make, self._options = argument, make, options

    def __call__(self, verb: Verb[R]) -> Verb[R]:

        @wraps(verb)
        def with_argument(**values: Any) -> R:
            given = {option.name: values.pop(option.name) for option in self._options}
            return verb(**values, **{self.name: self._make(**given)})

        return all_of(*self._options)(with_argument)

    def without(self, *names: str) -> Grouped:
        """Return the group but for options of these names, also in the groups within it."""
        left = (
            option.without(*names) if isinstance(option, Grouped) else option
            for option in self._options
            if option.name not in names
        )
        return Grouped(self.name, self._make, *left)

    @property
    def names(self) -> frozenset[str]:
        """The names of its options in click, those of groups within it too."""
        each = (
            option.names if isinstance(option, Grouped) else {option.name}
            for option in self._options
        )
        return frozenset().union(*each)


FIRST = "Options that matter first"
WHAT = "What to do"
LIMITS = "How much at once"
CONNECTION = "Connection and state"
GROUPS = {
    FIRST: """--bootstrap-server --context --name --throttle --slo --pace --replicas --partitions
        --until --dry-run""",
    WHAT: "",
    LIMITS: "",
    "When": "--start-at --window --while --by --within --rate",
    "Throttle": """--budget --canary --sli-command --sli-prometheus --on-foreign-throttle
        --throttle-leaders --allow-slow""",
    "In trouble": """--on-stall --stall-timeout --on-foreign-change --stop-on-failure
        --urgent-first --most-under-min-isr --most-offline""",
    "Output, records and notices": "--on-event --metrics-file --record --poll --headless --json -o",
    CONNECTION: """--command-config --concurrent --take-over --no-ownership --yes --state-dir
        --help""",
}
"""The options under each heading, in the order of the help: under LIMITS each limit that is not
named, and under WHAT all others."""


@cache
def _places() -> dict[str, tuple[str, int]]:
    from ktui.pacing.limits import CHOICES, NUMBERS  # noqa: PLC0415 - few verbs have limits

    limits = (f"--{option}" for option in (*NUMBERS, *CHOICES))
    named = {
        option: (heading, place)
        for heading, options in GROUPS.items()
        for place, option in enumerate(options.split())
    }
    return {option: (LIMITS, place) for place, option in enumerate(limits)} | named


class GroupedCommand(click.Command):
    """A command with more options than one reads: its help has them in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[int, tuple[str, str]]]] = {each: [] for each in GROUPS}
        for option in self.get_params(ctx):
            if isinstance(option, click.Option) and (record := option.get_help_record(ctx)):
                places = (_places()[each] for each in option.opts if each in _places())
                heading, place = min(places, default=(WHAT, 0))
                groups[heading].append((place, record))
        for heading, records in groups.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl([each for _, each in sorted(records, key=lambda of: of[0])])


_COMMAND_LINE = click.core.ParameterSource.COMMANDLINE


def refuse_options_before_verb(context: click.Context) -> None:
    """Refuse options of a group that were given together with one of its verbs."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is _COMMAND_LINE:
            option, verb = parameter.opts[0], context.invoked_subcommand
            fix = f"ktui {context.info_name} {verb} ... {option}"
            raise click.UsageError(f"Put {option} after the verb: {fix}")


class LazyGroup(click.Group):
    """A group in which no command pays for the imports of another.

    Args:
        verbs: the place of each command, as "module:name", in the order of the help.
        hidden: the verbs that the help leaves out.
        options: arguments of `click.Group`.
    """

    def __init__(
        self, *, verbs: Mapping[str, str], hidden: Collection[str] = (), **options: Any
    ) -> None:
        super().__init__(**options)
        self._verbs = verbs
        self._hidden = hidden

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [name for name in self._verbs if name not in self._hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in self._verbs:
            return None
        module, _, name = self._verbs[cmd_name].partition(":")
        command: click.Command = getattr(sys.modules.get(module) or import_to_stay(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; the error about an unknown one suggests that with the nearest name."""
        verb = args[0]
        if ctx.resilient_parsing or verb.startswith("-") or self.get_command(ctx, verb):
            return super().resolve_command(ctx, args)
        near = closest_names(verb, self.list_commands(ctx))
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise click.UsageError(f"No such command {verb!r}.{hint}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the verbs and options that begin so, without the import of any verb."""
        verbs = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*map(CompletionItem, verbs), *options]
