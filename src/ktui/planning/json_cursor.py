"""A slow JSON parser that knows the position of every value, for messages about a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from ktui.cluster.text import clean
from ktui.planning.plan import shortened

MOST_TOLD = 100
ValuePath = tuple[str | int, ...]
"""Keys and indexes from the top of the file: ("partitions", 3, "replicas", 1)."""

_MOST_ALIKE = 3  # the most problems that are all shown although they are alike
_VALUE = re.compile(r'not (?:the text )?(?:"[^"]*"|-?[0-9.]+)')
"""The value in a sentence that names what stands in the place of another."""
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{,59}")


class FilePosition(msgspec.Struct, frozen=True):
    """A position in a file: line and column from 1, the column in characters."""

    line: int
    column: int
    path: str  # the JSON path, `partitions[3].replicas[1]`; empty for the file as a whole


class Problem(msgspec.Struct, frozen=True):
    """A problem to fix in a plan's file; `place` is None where nothing could be read."""

    place: FilePosition | None
    sentence: str

    def __str__(self) -> str:
        if self.place is None:
            return self.sentence
        path = f"{self.place.path}: " if self.place.path else ""
        return f"{self.place.line}:{self.place.column}: {path}{self.sentence}"


class BadPlan(Exception):
    """A plan's file cannot be used, with at most `MOST_TOLD` problems in the file's order.

    Many alike are one that counts the others; `more` is the number of further problems. `path` is
    None if the plan was read from bytes.
    """

    def __init__(
        self, problems: tuple[Problem, ...], more: int = 0, path: Path | None = None
    ) -> None:
        self.problems = problems
        self.more = more
        self.path = path
        super().__init__(f"{len(problems) + more} problems")

    def __str__(self) -> str:
        lines = [self._line(problem) for problem in self.problems]
        return "\n".join([*lines, f"and {self.more:,} more"] if self.more else lines)

    def _line(self, problem: Problem) -> str:
        if self.path is None:
            return str(problem)
        gap = ": " if problem.place is None else ":"
        return f"{clean(str(self.path))}{gap}{problem}"


class _Alike:
    def __init__(self) -> None:
        self.count = 0
        self.first: list[tuple[int, Problem]] = []

    def shown(self) -> list[tuple[int, Problem]]:
        if self.count <= _MOST_ALIKE:
            return self.first
        at, first = self.first[0]
        sentence = f"{first.sentence}; and {self.count - 1:,} more like it"
        return [(at, Problem(first.place, sentence))]


class Problems:
    """Collects the problems of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: dict[tuple[str, ValuePath], _Alike] = {}
        self._more = 0
        self._at = 0
        self._line = 1

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, at: int, steps: list[str | int] | ValuePath, sentence: str) -> None:
        kind = (_VALUE.sub("not …", sentence), tuple(s if isinstance(s, str) else 0 for s in steps))
        alike = self._found.get(kind)
        if alike is None:
            if len(self._found) == MOST_TOLD:
                self._more += 1
                return
            alike = self._found[kind] = _Alike()
        alike.count += 1
        if len(alike.first) < _MOST_ALIKE:
            alike.first.append((at, Problem(self.place(at, steps), sentence)))

    def line(self, at: int) -> int:
        """Return the line of an offset; cheap near the last offset requested."""
        if at >= self._at:
            self._line += self._text.count("\n", self._at, at)
        else:
            self._line -= self._text.count("\n", at, self._at)
        self._at = at
        return self._line

    def place(self, at: int, steps: list[str | int] | ValuePath) -> FilePosition:
        column = at - self._text.rfind("\n", 0, at)
        return FilePosition(self.line(at), column, json_path(steps))

    def error(self) -> BadPlan:
        found = (problem for alike in self._found.values() for problem in alike.shown())
        ordered = [problem for _, problem in sorted(found, key=lambda each: each[0])]
        more = self._more + len(ordered[MOST_TOLD:])
        return BadPlan(tuple(ordered[:MOST_TOLD]), more)


def json_path(steps: list[str | int] | ValuePath) -> str:
    """Format a path: `partitions[3].replicas[1]`, with unusual keys in quotes."""
    words = (_format_step(step) for step in steps)
    return "".join(words).removeprefix(".")


def _format_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_KEY.fullmatch(step) else f'["{shortened(step)}"]'


DEEPEST = 32
NOT_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
_NON_SPACE = re.compile(r"[^ \t\n\r]")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"(?:true|false|null|NaN|-?Infinity)\b")
_STRING_START = re.compile(
    r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*'
)
_TOKEN = re.compile(r"[\w.-]{1,80}|.", re.DOTALL)
_ENDS_EARLY = "not JSON: the file ends here, before the plan does; was it cut off?"


class NotJson(Exception):
    """The text cannot be parsed beyond this offset."""

    def __init__(self, at: int, problem: str) -> None:
        self.at = at
        self.problem = problem
        super().__init__(problem)


class JsonText:
    """A cursor over a JSON text, at `path` of the document.

    Each of `members` or `elements` must be read or skipped before the next. Mistakes that do not
    prevent further parsing go to `problems`; NotJson is raised where it makes no sense.
    """

    def __init__(self, text: str, problems: Problems, at: int = 0) -> None:
        self.text = text
        self.problems = problems
        self.at = at
        self.path: list[str | int] = []

    def complain(self, at: int, sentence: str) -> None:
        self.problems.add(at, self.path, sentence)

    def peek(self) -> str:
        """Move to the next character that is not a space, and return that character."""
        found = _NON_SPACE.search(self.text, self.at)
        if found is None:
            raise NotJson(len(self.text), _ENDS_EARLY)
        self.at = found.start()
        return found[0]

    def members(self) -> Iterator[tuple[str, int]]:
        """Iterate over an object: each key and its offset, with the cursor before the value."""
        for at in self._items("}"):
            if self.text[at] != '"':
                raise NotJson(
                    at, f"not JSON: a key in double quotes belongs here, not {self._token()}"
                )
            key = decoded(self.scalar())
            self.path.append(key)
            if self.peek() != ":":
                raise NotJson(self.at, f'not JSON: a ":" belongs after a key, not {self._token()}')
            self.at += 1
            yield key, at
            self.path.pop()

    def elements(self) -> Iterator[int]:
        """Iterate over a list: the offset of each element, with the cursor at the element."""
        for index, at in enumerate(self._items("]")):
            self.path.append(index)
            yield at
            self.path.pop()

    def scalar(self) -> str:
        mark = self.peek()
        if mark == '"':
            return self._string()
        found = _NUMBER.match(self.text, self.at) or _WORD.match(self.text, self.at)
        if found is None:
            raise NotJson(self.at, f"not JSON: a value belongs here, not {self._token()}")
        self.at = found.end()
        return found[0]

    def skip(self) -> None:
        mark = self.peek()
        if mark in "{[":
            for _ in self.members() if mark == "{" else self.elements():
                self.skip()
            return
        at = self.at
        raw = self.scalar()
        if raw in NOT_NUMBERS:
            self.complain(at, f"not JSON: it has no {raw}; leave it out")

    def end(self) -> None:
        found = _NON_SPACE.search(self.text, self.at)
        if found is not None:
            self.at = found.start()
            raise NotJson(
                self.at,
                f"not JSON: the plan ended before this; remove {self._token()} and all after it",
            )

    def _items(self, close: str) -> Iterator[int]:
        if len(self.path) >= DEEPEST:
            raise NotJson(self.at, f"nested more than {DEEPEST} deep")
        self.at += 1
        mark = self.peek()
        while mark != close:
            yield self.at
            mark = self.peek()
            if mark not in {",", close}:
                raise NotJson(
                    self.at, f'not JSON: "," or "{close}" belongs here, not {self._token()}'
                )
            if mark == ",":
                mark = self._after_comma(close)
        self.at += 1

    def _after_comma(self, close: str) -> str:
        comma = self.at
        self.at += 1
        mark = self.peek()
        if mark == close:
            self.complain(comma, f'not JSON: remove the comma before "{close}"')
        return mark

    def _string(self) -> str:
        found = _STRING_START.match(self.text, self.at)
        end = self.at if found is None else found.end()
        stop = self.text[end : end + 1]
        if stop != '"':
            raise NotJson(end if stop else self.at, _broken_string(stop))
        raw = self.text[self.at : end + 1]
        self.at = end + 1
        return raw

    def _token(self) -> str:
        found = _TOKEN.match(self.text, self.at)
        return "the end" if found is None else f"`{shortened(found[0])}`"


def decoded(raw: str) -> str:
    """Decode a JSON string, given with its quotes."""
    return str(json.loads(raw)) if "\\" in raw else raw[1:-1]


def _broken_string(stop: str) -> str:
    if not stop:
        return 'not JSON: this text is never closed: a " is missing'
    if stop == "\\":
        return "not JSON: it has no such escape; write \\\\ for a backslash"
    return 'not JSON: a line break or control character in a text; is a " missing before it?'


def find_positions(text: bytes, wanted: Iterable[ValuePath]) -> dict[ValuePath, FilePosition]:
    """Find the positions of values by their paths: ("partitions", 3, "replicas", 1).

    `text` was read without a problem: it is ASCII, and each brace after the first opens a
    partition.
    """
    ordered = sorted(set(wanted), key=lambda steps: steps[1])
    decoded = text.decode("ascii")
    problems = Problems(decoded)
    openings = [found.start() for found in re.finditer(r"\{", decoded)]
    found = {}
    for steps in ordered:
        cursor = JsonText(decoded, problems, openings[int(steps[1]) + 1])
        found[steps] = problems.place(_offset(cursor, steps[2:]), steps)
    return found


def _offset(cursor: JsonText, steps: ValuePath) -> int:
    for step in steps:
        cursor.peek()
        items = cursor.members() if isinstance(step, str) else cursor.elements()
        for _ in items:
            if cursor.path[-1] == step:
                break
            cursor.skip()
    cursor.peek()
    return cursor.at
