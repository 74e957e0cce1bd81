"""YAML files that people write: read with the line of every value, for errors that name it."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from ktui.fileproblem import FileProblem, unknown_key
from ktui.inputfile import Unreadable, read_input

T = TypeVar("T")
KeyPath = tuple[str | int, ...]

DEEPEST = 32
_WHOLE = "tag:yaml.org,2002:int"
_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}
"""What people call msgspec's types."""
_FOR_TEXT = re.compile(r"Expected `str(?: \| null)?`, got `(?:int|float|bool)`")
_LONGEST_NUMBER = 40
MOST = 200_000
"""Values in a file: anchors and aliases can write any number of them in a few lines."""


class YamlFile:
    """A parsed file: `data` as plain values, and the line on which each stands."""

    def __init__(self, path: Path, data: Any, lines: Mapping[KeyPath, int]) -> None:
        self.path = path
        self.data = data
        self._lines = lines

    def problem(self, keys: KeyPath, problem: str) -> FileProblem:
        """Make the error for the value at `keys`, or for its nearest parent that has a line."""
        while keys and keys not in self._lines:
            keys = keys[:-1]
        return FileProblem(self.path, self._lines.get(keys, 1), problem)

    def convert(
        self,
        keys: KeyPath,
        value: Any,
        to: type[T],
        *,
        hook: Callable[[type, Any], Any] | None = None,
    ) -> T:
        """Check `value`, found at `keys`, against a msgspec type; `hook` reads types of our own.

        Raises:
            FileProblem: with the line, the offending key and a near match for a misspelt one.
        """
        try:
            return msgspec.convert(value, to, dec_hook=hook)
        except msgspec.ValidationError as error:
            message, inner = _split(str(error))
            unknown = re.search(r"unknown field `(.+)`", message)
            if unknown is None:
                where = ".".join(str(key) for key in (*keys, *inner)) or "the file"
                raise self.problem((*keys, *inner), f"{where}: {_reworded(message)}") from None
            known = [f.encode_name for f in _fields_at(to, inner)]
            raise self.problem(
                (*keys, *inner, unknown[1]), unknown_key(unknown[1], known)
            ) from None


def read_yaml(path: Path) -> YamlFile:
    """Read one document.

    Raises:
        FileProblem: unreadable, larger than 1 MiB, not YAML, or a key given twice; with the line.
    """
    try:
        text = read_input(path).decode()
    except (Unreadable, UnicodeDecodeError) as error:
        reason = error if isinstance(error, Unreadable) else "it is not UTF-8 text"
        raise FileProblem(path, None, f"cannot be read: {reason}") from None
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        words = f"not valid YAML: the character U+{ord(text[error.position]):04X} is not allowed"
        raise FileProblem(path, text.count("\n", 0, error.position) + 1, words) from None
    try:
        node = loader.get_single_node()
        lines: dict[KeyPath, int] = {}
        if node is not None:
            _note_lines(path, node, (), lines)
        data = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise FileProblem(path, line, f"not valid YAML: {_unquoted(error)}") from None
    except yaml.YAMLError as error:
        raise FileProblem(path, None, f"not valid YAML: {error}") from None
    except (ValueError, KeyError, AttributeError):
        # PyYAML lets them through: a text that looks like a date and is none, or is tagged as one
        hint = "a value looks like a date or a number and is none; put it in quotes"
        raise FileProblem(path, None, f"not valid YAML: {hint}") from None
    except RecursionError:
        raise FileProblem(path, None, f"nested more than {DEEPEST} deep") from None
    finally:
        loader.dispose()
    return YamlFile(path, data, lines)


def _unquoted(error: yaml.MarkedYAMLError) -> str:
    """Give PyYAML's words without what it read as a tag or an alias: that may be a password."""
    words = str(error.problem)
    shown = re.sub(r"\b(tag|tag handle|alias|anchor) '.*", r"\1", words, flags=re.DOTALL)
    hint = "; put a text that begins with ! * or & in quotes" if shown != words else ""
    return f"{shown}{hint}"


def _note_lines(path: Path, node: yaml.Node, keys: KeyPath, lines: dict[KeyPath, int]) -> None:
    line = node.start_mark.line + 1
    if len(keys) > DEEPEST:
        raise FileProblem(path, line, f"nested more than {DEEPEST} deep, or an alias to itself")
    if len(lines) > MOST:
        raise FileProblem(path, line, f"more than {MOST:,} values, counting aliases as written out")
    lines.setdefault(keys, line)
    _refuse_odd_number(path, node)
    if isinstance(node, yaml.MappingNode):
        for key_node, value in node.value:
            _refuse_odd_number(path, key_node)
            key = (*keys, _plain(key_node))
            line = key_node.start_mark.line + 1
            if key in lines:
                raise FileProblem(path, line, f"{key[-1]!r} is given twice")
            lines[key] = line
            _note_lines(path, value, key, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _note_lines(path, value, (*keys, index), lines)


def _refuse_odd_number(path: Path, node: yaml.Node) -> None:
    """Refuse 010, which YAML takes for 8, and numbers that no computer counts with."""
    if node.tag != _WHOLE:
        return
    if re.match(r"[-+]?0_*\d", node.value):
        hint = "a number may not begin with 0; if it is text, put it in quotes"
        raise FileProblem(path, node.start_mark.line + 1, hint)
    if len(node.value) > _LONGEST_NUMBER:
        hint = f"a number of more than {_LONGEST_NUMBER} digits; if it is text, put it in quotes"
        raise FileProblem(path, node.start_mark.line + 1, hint)


def _plain(node: yaml.Node) -> str:
    value: Hashable = node.value if isinstance(node, yaml.ScalarNode) else "?"
    return str(value)


def _split(message: str) -> tuple[str, KeyPath]:
    """Take apart msgspec's "Expected `float`, got `str` - at `$.a.b[0]`"."""
    text, _, path = message.partition(" - at `$")
    steps = re.findall(r"\.([^.\[`]+)|\[(\d+)\]", path)
    return text, tuple(name or int(index) for name, index in steps)


def _fields_at(to: Any, inner: KeyPath) -> tuple[msgspec.structs.FieldInfo, ...]:
    fields: tuple[msgspec.structs.FieldInfo, ...] = msgspec.structs.fields(to)
    for key in inner:
        found = next((f for f in fields if f.encode_name == key), None)
        if found is None or not isinstance(found.type, type):
            return ()
        fields = msgspec.structs.fields(found.type)
    return fields


def _reworded(message: str) -> str:
    """Say in plain words what msgspec says in those of a programmer."""

    def types(match: re.Match[str]) -> str:
        return " or ".join(_WORDS.get(name, name) for name in match[1].split(" | "))

    words = (
        re.sub(r"`([a-z]+(?: \| [a-z]+)*)`", types, message)
        if message.startswith("Expected ")
        else message
    )
    hint = "; put it in quotes" if _FOR_TEXT.fullmatch(message) else ""
    return f"{words[:1].lower()}{words[1:]}{hint}"
