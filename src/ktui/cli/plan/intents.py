"""`ktui plan drain` and its like: a command for each intent of the registry."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cli.options.plan import below_min_isr_option
from ktui.cli.plan.check_options import CheckOptions
from ktui.cli.plan.make import make_plan
from ktui.cli.plan.make_options import (
    MakeOptions,
    make_options,
    make_options_without_topics,
    parse_brokers,
    parse_patterns,
    share_of,
    size_of,
)
from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.intents.registry import (
    BROKER,
    BROKERS,
    COMMON,
    COUNT,
    FIELDS,
    INTENTS,
    TOPICS,
    Amount,
    Field,
    Intent,
    Kind,
)

TOPIC = "TOPIC"
_ENDING = (
    "The plan goes to standard output or {file}, its summary to standard error. Nothing is sent.\n"
    "Exit code 0, 3 if something is left undone, 2 if there is nothing to do or an error."
)
_OWN: Mapping[Kind, dict[str, Any]] = {
    BROKER: {"type": click.IntRange(0)},
    BROKERS: {"callback": parse_brokers},
    COUNT: {"type": click.IntRange(1)},
    TOPICS: {"callback": parse_patterns},
}
"""The kinds of which click or a list with commas has words of its own for what is wrong."""
_AMOUNTS: Mapping[str, tuple[str, Callable[[str, str], Amount]]] = {
    "--within": ("SHARE", lambda option, text: Amount(text, share=share_of(option, text))),
    "--below": ("SHARE", lambda option, text: Amount(text, share=share_of(option, text))),
    "--free": ("SIZE", lambda option, text: Amount(text, bytes=size_of(option, text))),
}
"""The options for a quantity: its metavar, and how it is read."""

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def _argument(field: Field) -> Decorator:
    def read(_context: click.Context, _argument: click.Parameter, given: Any) -> Any:
        try:
            return field.kind.read(field, " ".join(given) if field.kind.many else given)
        except CannotMake as problem:
            raise BadInput(str(problem)) from None

    own = _OWN.get(field.kind, {"callback": read})
    many: dict[str, Any] = {"nargs": -1, "required": True} if field.kind.many else {}
    return click.argument(field.name, metavar=field.metavar, **many, **own)


def _options(field: Field) -> Iterable[Decorator]:
    shown: dict[str, Any] = (
        {"default": field.default, "show_default": not field.choices} if field.default else {}
    )
    for option, words in field.options.items():
        if field.choices:
            kind: dict[str, Any] = {"type": click.Choice([*field.choices])}
        elif option in _AMOUNTS:
            kind = {"metavar": _AMOUNTS[option][0]}
        else:
            kind = {"metavar": field.metavar, **_OWN[field.kind]}
        name = field.name if len(field.options) == 1 else option.strip("-")
        yield click.option(option, name, help=words, **shown, **kind)


def _value(field: Field, given: dict[str, Any]) -> Any:
    """Return the value of a field that options give.

    Raises:
        BadInput: a quantity is none, or not just one of several options was given.
    """
    if field.options.keys().isdisjoint(_AMOUNTS):
        return given[field.name]
    one = len(field.options) == 1
    texts = {each: given[field.name if one else each.strip("-")] for each in field.options}
    found = [(option, text) for option, text in texts.items() if text is not None]
    if len(found) != 1:
        ways = [f"{option} {_AMOUNTS[option][0]}" for option in field.options]
        raise BadInput(f"give one of {' and '.join(ways)}")
    option, text = found[0]
    return _AMOUNTS[option][1](option, text)


def _command(intent: Intent) -> click.Command:
    own = (*intent.may_have, *intent.needs)
    fields = [FIELDS[name] for name in own if name not in COMMON]
    names_topics = TOPICS in {field.kind for field in fields}
    may_lack_isr = intent.allowed.replication_factor_change

    def verb(*, wanted: MakeOptions, how: CheckOptions, **given: Any) -> None:
        values = {
            each.name: _value(each, given) if each.options else given[each.name] for each in fields
        }
        allowed = intent.allowed
        if may_lack_isr:
            allowed = msgspec.structs.replace(allowed, below_min_isr=given["below_min_isr"])
        if names_topics:
            wanted = msgspec.structs.replace(wanted, topics=values["topics"])
        topics_by = TOPIC if names_topics else "--topics"
        make_plan(intent, values, wanted, how, allowed=allowed, topics_by=topics_by)

    has_file = any(field.metavar == "FILE" for field in fields)
    ending = _ENDING.format(file="to the file of -o" if has_file else "FILE")
    decorators: list[Decorator] = [_argument(each) for each in fields if not each.options]
    decorators += [option for each in fields for option in _options(each)]
    decorators += [below_min_isr_option] if may_lack_isr else []
    decorated: Callable[..., None] = (
        make_options_without_topics if names_topics else make_options
    )(verb)
    for decorate in reversed(decorators):
        decorated = decorate(decorated)
    words = f"{inspect.cleandoc(intent.help)}\n\n{ending}"
    return click.command(intent.name, help=words)(decorated)


COMMANDS = tuple(map(_command, INTENTS.values()))
