"""YAML files that people write: parsed with the line of every value, so that errors name it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from ktui.inputfile import MOST_BYTES, FileProblem, Unreadable, read_input, unknown_key

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
    "date": "a date",
    "datetime": "a time",
}
_FIXES = {
    "character '\\t'": "indent with spaces",
    "another document": "write one document, without a second ---",
    "mapping values are not allowed": "put a text with a colon in quotes, or "
    "indent the line as its neighbours are",
    "unhashable key": "put a key that begins with [ or { in quotes",
    "for merging": "<< takes the alias of a mapping",
    "unexpected end of stream": "close the quotation",
    "<stream end>": "close the bracket or brace",
    "cannot start any token": "put a text that begins with % @ or ` in quotes",
    "alphabetic or numeric": "put a text that begins with * or & in quotes",
    "base64": "leave out !!binary, or write base64 behind it",
}
_OTHER_FIX = "check the indentation, the quotes and the brackets there"
_FOR_TEXT = re.compile(r"Expected `str(?: \| null)?`(?: as a key)?, got `(?:int|float|bool|date)`")
_LONGEST_NUMBER = 40
_LARGE = 100_000  # characters; a text of more is a large one
MOST = 200_000  # most values in a file: a few lines of anchors and aliases can expand to any number


class YamlFile:
    """A parsed file: `data` as plain values, and the line of each."""

    def __init__(self, path: Path, data: Any, lines: Mapping[KeyPath, int]) -> None:
        self.path = path
        self.data = data
        self._lines = lines

    def problem(self, keys: KeyPath, problem: str) -> FileProblem:
        """Make the error for the value at `keys`, or for its nearest parent with a known line."""
        return FileProblem(self.path, self.line(keys), problem)

    def line(self, keys: KeyPath) -> int:
        while keys and keys not in self._lines:
            keys = keys[:-1]
        return self._lines.get(keys, 1)

    def convert(
        self,
        keys: KeyPath,
        value: Any,
        to: type[T],
        *,
        hook: Callable[[type, Any], Any] | None = None,
    ) -> T:
        """Check `value`, at `keys`, against a type; FileProblem names the line and the key."""
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


def read_yaml(path: Path, most_bytes: int = MOST_BYTES) -> YamlFile:
    """Parse a file that holds one YAML document with no key twice; FileProblem names the line."""
    try:
        text = read_input(path, most_bytes).decode()
    except (Unreadable, UnicodeDecodeError) as error:
        reason = error if isinstance(error, Unreadable) else "it is not UTF-8 text"
        raise FileProblem(path, None, f"cannot be read: {reason}") from None
    try:
        loader = _loader(text)
    except yaml.reader.ReaderError as error:
        odd = f"U+{ord(text[error.position]):04X}"
        words = f"not valid YAML: the character {odd} is not allowed; remove it"
        raise FileProblem(path, text.count("\n", 0, error.position) + 1, words) from None
    try:
        node = loader.get_single_node()
        lines: dict[KeyPath, int] = {}
        if node is not None:
            _record_lines(path, node, (), lines)
        data = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise FileProblem(path, line, f"not valid YAML: {_in_plain_words(error)}") from None
    except yaml.YAMLError as error:
        raise FileProblem(path, None, f"not valid YAML: {error}") from None
    except (ValueError, KeyError, AttributeError):
        # PyYAML passes these on for text that looks like a date but is none, or is tagged as one
        hint = "a value looks like a date or a number but is not one; put it in quotes"
        line = None if node is None else _odd_line(node)
        raise FileProblem(path, line, f"not valid YAML: {hint}") from None
    except RecursionError:
        raise FileProblem(path, None, f"nested more than {DEEPEST} deep") from None
    finally:
        loader.dispose()
    return YamlFile(path, data, lines)


def _loader(text: str) -> yaml.SafeLoader | yaml.CSafeLoader:
    """Return libyaml for a large text, which is faster; `read_yaml` knows PyYAML's words only."""
    quick = len(text) > _LARGE and yaml.__with_libyaml__ and _is_shallow(text)
    return yaml.CSafeLoader(text) if quick else yaml.SafeLoader(text)


def _is_shallow(text: str) -> bool:
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > DEEPEST:
                    return False
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError:
        return False
    return True


def _odd_line(node: yaml.Node) -> int | None:
    """Return the line of the first value that cannot be read as what it looks like."""
    if isinstance(node, yaml.ScalarNode):
        try:
            yaml.SafeLoader("").construct_object(node)
        except (ValueError, KeyError, AttributeError):
            return int(node.start_mark.line) + 1
        return None
    inside = node.value if isinstance(node, yaml.SequenceNode) else itertools.chain(*node.value)
    return next((line for each in inside if (line := _odd_line(each)) is not None), None)


def _in_plain_words(error: yaml.MarkedYAMLError) -> str:
    """Return PyYAML's message with the fix, without what it quotes: it may be a password."""
    words = str(error.problem)
    shown = re.sub(r"\b(tag|tag handle|alias|anchor) '.*", r"\1", words, flags=re.DOTALL)
    if shown != words:
        return f"{shown}; put a text that begins with ! * or & in quotes"
    fix = next((fix for part, fix in _FIXES.items() if part in words), _OTHER_FIX)
    return f"{shown}; {fix}"


def _record_lines(path: Path, node: yaml.Node, keys: KeyPath, lines: dict[KeyPath, int]) -> None:
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
                raise FileProblem(path, line, f"{key[-1]!r} is given twice; remove one")
            lines[key] = line
            _record_lines(path, value, key, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _record_lines(path, value, (*keys, index), lines)


def _refuse_odd_number(path: Path, node: yaml.Node) -> None:
    """Refuse 010, which YAML reads as 8, and numbers too long for any computer."""
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
    """Split msgspec's "Expected `float`, got `str` - at `$.a.b[0]`" into message and keys."""
    text, at, path = message.partition(" - at `$")
    if not at:
        text, at, path = message.partition(" - at `key` in `$")
        text = text.replace(", got", " as a key, got") if at else text
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
    def types(match: re.Match[str]) -> str:
        return " or ".join(_WORDS.get(name, name) for name in match[1].split(" | "))

    words = (
        re.sub(r"`([a-z]+(?: \| [a-z]+)*)`", types, message)
        if message.startswith("Expected ")
        else message
    )
    hint = "; put it in quotes" if _FOR_TEXT.fullmatch(message) else ""
    if message.endswith("got `null`"):
        hint = "; give it a value, or remove the line"
    return f"{words[:1].lower()}{words[1:]}{hint}"
