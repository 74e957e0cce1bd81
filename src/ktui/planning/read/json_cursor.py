"""JSON read with the place of every value: the slow way, for a file that has a problem."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ktui.planning.names import shown
from ktui.planning.read.problems import Problems

DEEPEST = 32
NOT_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
"""What Python and JavaScript write for numbers that JSON does not have."""

_INK = re.compile(r"[^ \t\n\r]")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"(?:true|false|null|NaN|-?Infinity)\b")
_TEXT_START = re.compile(r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*')
_SEEN = re.compile(r"[\w.-]{1,80}|.", re.DOTALL)
_ENDS_EARLY = "not JSON: the file ends here, before the plan does; was it cut off?"


class NotJson(Exception):
    """The text cannot be read beyond this offset."""

    def __init__(self, at: int, problem: str) -> None:
        self.at = at
        self.problem = problem
        super().__init__(problem)


class JsonText:
    """A cursor over a text. `path` says where in the document it is.

    Whoever goes through `members` or `elements` reads or skips each value before asking for the
    next. What is wrong and does not hinder reading on goes to `problems`.

    Raises:
        NotJson: from every method, where reading on makes no sense.
    """

    def __init__(self, text: str, problems: Problems, at: int = 0) -> None:
        self.text = text
        self.problems = problems
        self.at = at
        self.path: list[str | int] = []

    def complain(self, at: int, sentence: str) -> None:
        """Note a problem of the value that the cursor is in."""
        self.problems.add(at, self.path, sentence)

    def peek(self) -> str:
        """Move to the next character that is no space, and give it."""
        found = _INK.search(self.text, self.at)
        if found is None:
            raise NotJson(len(self.text), _ENDS_EARLY)
        self.at = found.start()
        return found[0]

    def members(self) -> Iterator[tuple[str, int]]:
        """Go through an object: each key and its offset, the cursor being before its value."""
        for at in self._items("}"):
            if self.text[at] != '"':
                raise NotJson(
                    at, f"not JSON: a key in double quotes belongs here, not {self._seen()}"
                )
            key = decoded(self.scalar())
            self.path.append(key)
            if self.peek() != ":":
                raise NotJson(self.at, f'not JSON: a ":" belongs after a key, not {self._seen()}')
            self.at += 1
            yield key, at
            self.path.pop()

    def elements(self) -> Iterator[int]:
        """Go through a list: the offset of each element, the cursor being at it."""
        for index, at in enumerate(self._items("]")):
            self.path.append(index)
            yield at
            self.path.pop()

    def scalar(self) -> str:
        """Read a text, a number or a word, as it is written."""
        mark = self.peek()
        if mark == '"':
            return self._text()
        found = _NUMBER.match(self.text, self.at) or _WORD.match(self.text, self.at)
        if found is None:
            raise NotJson(self.at, f"not JSON: a value belongs here, not {self._seen()}")
        self.at = found.end()
        return found[0]

    def skip(self) -> None:
        """Read a value that nobody asked for."""
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
        """See that nothing but space is left."""
        found = _INK.search(self.text, self.at)
        if found is not None:
            self.at = found.start()
            raise NotJson(
                self.at,
                f"not JSON: the plan ended before this; remove {self._seen()} and all behind it",
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
                    self.at, f'not JSON: "," or "{close}" belongs here, not {self._seen()}'
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

    def _text(self) -> str:
        found = _TEXT_START.match(self.text, self.at)
        end = self.at if found is None else found.end()
        stop = self.text[end : end + 1]
        if stop != '"':
            raise NotJson(end if stop else self.at, _broken_text(stop))
        raw = self.text[self.at : end + 1]
        self.at = end + 1
        return raw

    def _seen(self) -> str:
        found = _SEEN.match(self.text, self.at)
        return "the end" if found is None else f"`{shown(found[0])}`"


def decoded(raw: str) -> str:
    """Give the text that a JSON text, read with its quotes, stands for."""
    return str(json.loads(raw)) if "\\" in raw else raw[1:-1]


def _broken_text(stop: str) -> str:
    if not stop:
        return 'not JSON: this text is never closed: a " is missing'
    if stop == "\\":
        return "not JSON: it has no such escape; write \\\\ for a backslash"
    return 'not JSON: a line break or control character in a text; is a " missing before it?'
