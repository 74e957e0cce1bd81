"""A slow JSON parser that knows the position of every value, for files with a problem."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ktui.planning.names import shortened
from ktui.planning.read.problems import Problems

DEEPEST = 32
NOT_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
"""Words that Python and JavaScript write for numbers that JSON does not have."""

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
    """A cursor over a JSON text. `path` is the cursor's position in the document.

    Callers that iterate over `members` or `elements` must read or skip each value before the next.
    Mistakes that do not prevent further parsing go to `problems`.

    Raises:
        NotJson: from every method, where further parsing makes no sense.
    """

    def __init__(self, text: str, problems: Problems, at: int = 0) -> None:
        self.text = text
        self.problems = problems
        self.at = at
        self.path: list[str | int] = []

    def complain(self, at: int, sentence: str) -> None:
        """Add a problem with the value at the cursor."""
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
        """Read a string, a number or a word, and return its source text."""
        mark = self.peek()
        if mark == '"':
            return self._string()
        found = _NUMBER.match(self.text, self.at) or _WORD.match(self.text, self.at)
        if found is None:
            raise NotJson(self.at, f"not JSON: a value belongs here, not {self._token()}")
        self.at = found.end()
        return found[0]

    def skip(self) -> None:
        """Skip over a value."""
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
        """Check that only space is left."""
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
