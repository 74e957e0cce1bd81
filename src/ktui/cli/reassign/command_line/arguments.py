"""The words of a command line, read as kafka-reassign-partitions.sh reads them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec

from ktui.cli.reassign.command_line.options import DEFAULTS, OPTIONS, Action, Option

LONG = range(-(2**63), 2**63)
"""The numbers that the tool reads."""
_NUMBER = re.compile(r"[+-]?\d{1,100}")

T = TypeVar("T")


class BadArguments(Exception):
    """Arguments that are refused; the message is the tool's, where it has one."""


class GivenOption(NamedTuple):
    """An option as it stands on the command line."""

    name: str
    value: str | None
    """None for a flag, and for an optional argument that is left out."""


class Arguments(msgspec.Struct, frozen=True):
    """The options of a command line."""

    given: tuple[GivenOption, ...]
    """In the order of the command line, with repeats."""

    def has(self, name: str) -> bool:
        """Return whether an option was given."""
        return any(option.name == name for option in self.given)

    def text(self, name: str) -> str | None:
        """Return the value of an option; None if it was not given.

        Raises:
            BadArguments: it was given without its value, or with several.
        """
        if not self.has(name):
            return None
        return _only(name, self._values(name))

    def number(self, name: str) -> int:
        """Return the value of an option that is a number; its default if it was not given.

        Raises:
            BadArguments: a value is not a number of 64 bits, or there are several.
        """
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
    """Read a command line.

    Words that are neither an option nor its argument are ignored, as the tool ignores them. So are
    all words after `--`.

    Raises:
        BadArguments: an option is unknown, or has no argument and needs one.
    """
    rest = deque(words)
    given: list[GivenOption] = []
    while rest and (word := rest.popleft()) != "--":
        if _looks_like_option(word):
            option, value = _split(word)
            if option.metavar and value is None:
                value = _next_argument(option, rest)
            given.append(GivenOption(option.name, value if option.metavar else None))
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
    """Return the one value of an option that was given."""
    if not values:
        raise _lacks_argument(name)
    if len(values) > 1:
        raise BadArguments(
            f"Found multiple arguments for option {name}, but you asked for only one"
        )
    return values[0]


def _lacks_argument(name: str) -> BadArguments:
    return BadArguments(f"Option {name} requires an argument")
