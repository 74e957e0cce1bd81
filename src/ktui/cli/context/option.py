"""Options as verbs declare them: by the words that the help shows, such as `--by TIME`."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


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


def add_option(
    words: str,
    purpose: str,
    name: str = "",
    *,
    reads: Callable[[Any], object] | None = None,
    **how: Any,
) -> Callable[[F], F]:
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
    names = (declared, name) if name else (declared,)
    return click.option(*names, metavar=value or None, help=purpose, **how)
