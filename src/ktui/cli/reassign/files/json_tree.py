"""A JSON file as kafka-reassign-partitions reads it, with that tool's messages.

Unlike a plan for `ktui start`, a file may have unknown keys, repeated keys (the last one counts)
and more text after its first value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ktui.cli.reassign.errors import ReassignProblem
from ktui.cluster.text import clean
from ktui.planning.plan import LARGEST

_SPACE = " \t\r\n"
_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity', re.DOTALL)
_UNTERMINATED = "Unterminated string"
_TOO_DEEP = "The JSON is nested too deep"


class JsonSyntaxProblem(ReassignProblem):
    """A text is not JSON."""


class _NotANumber(Exception):
    """NaN or an infinity, which Python reads and JSON does not have."""


def _refuse_constant(name: str) -> NoReturn:
    raise _NotANumber(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def parse_object(data: bytes) -> Mapping[str, Any]:
    """Parse the first JSON value of a file, which has to be an object.

    Raises:
        JsonSyntaxProblem: that value is not JSON, or there is no text at all.
        ReassignProblem: the value is not an object.
    """
    text = data.decode(errors="replace")
    if not text:
        raise JsonSyntaxProblem(
            "The input string shouldn't be empty\n at [Source: UNKNOWN; byte offset: #UNKNOWN]"
        )
    start = len(text) - len(text.lstrip(_SPACE))
    if start == len(text):
        raise ReassignProblem("Expected JSON object, received ")
    return as_object(_first_value(text, start))


def as_object(value: object) -> Mapping[str, Any]:
    """Return a value that has to be an object."""
    if not isinstance(value, dict):
        raise ReassignProblem(f"Expected JSON object, received {_as_json(value)}")
    return value


def as_array(value: object) -> list[Any]:
    """Return a value that has to be an array of objects."""
    if not isinstance(value, list):
        raise ReassignProblem(f"Expected JSON array, received {_as_json(value)}")
    return value


def as_string(value: object) -> str:
    """Return a value that has to be a string."""
    if not isinstance(value, str):
        raise _unexpected("String", value)
    return value


def as_integer(value: object) -> int:
    """Return a value that has to be an integer of 32 bits."""
    if type(value) is not int or not -LARGEST - 1 <= value <= LARGEST:
        raise _unexpected("Integer", value)
    return value


def as_integers(value: object) -> tuple[int, ...]:
    """Return a value that has to be an array of integers."""
    return tuple(map(as_integer, _as_values(value)))


def as_strings(value: object) -> tuple[str, ...]:
    """Return a value that has to be an array of strings."""
    return tuple(map(as_string, _as_values(value)))


def needed(fields: Mapping[str, Any], name: str) -> object:
    """Return the value of a key that an object has to have."""
    if name not in fields:
        raise ReassignProblem(f"No such field exists: `{name}`")
    return fields[name]


def _as_values(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise _unexpected("JSON array", value)
    return value


def _unexpected(expected: str, value: object) -> ReassignProblem:
    return ReassignProblem(f"Expected `{expected}` value, received {_as_json(value)}")


def _as_json(value: object) -> str:
    try:
        return clean(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    except RecursionError:
        raise JsonSyntaxProblem(_TOO_DEEP) from None


def _first_value(text: str, start: int) -> object:
    try:
        value, _ = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if error.msg.startswith(_UNTERMINATED) or not text[error.pos :].strip(_SPACE):
            raise _cut_off(text) from None
        why = error.msg[0].lower() + error.msg[1:].removesuffix(" at")
        raise _bad_character(text, error.pos, why) from None
    except _NotANumber as name:
        at = next(m.start() for m in _STRING_OR_CONSTANT.finditer(text) if m[0] == str(name))
        raise _bad_character(text, at, f"JSON has no {name}") from None
    except RecursionError:
        raise JsonSyntaxProblem(_TOO_DEEP) from None
    except ValueError:
        raise JsonSyntaxProblem("The JSON has a number of too many digits") from None
    return value


def _cut_off(text: str) -> JsonSyntaxProblem:
    place = _place(text, len(text))
    return JsonSyntaxProblem(f"Unexpected end-of-input at {place}: the JSON is not complete")


def _bad_character(text: str, at: int, why: str) -> JsonSyntaxProblem:
    return JsonSyntaxProblem(
        f"Unexpected character ({_described(text[at])}) at {_place(text, at)}: {why}"
    )


def _described(character: str) -> str:
    """Describe a character in Jackson's notation."""
    code = ord(character)
    if code < ord(" "):
        return f"(CTRL-CHAR, code {code})"
    wide = f" / 0x{code:x}" if code > 0xFF else ""  # noqa: PLR2004 - the end of Latin-1
    return f"'{clean(character)}' (code {code}{wide})"


def _place(text: str, at: int) -> str:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"line {line}, column {column}"
