"""The problems of a plan's file, each with its position."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ktui.cluster.text import clean
from ktui.planning.names import shortened

MOST_TOLD = 100
ValuePath = tuple[str | int, ...]
"""Keys and indexes from the top of the file: ("partitions", 3, "replicas", 1)."""

_MOST_ALIKE = 3
"""The most problems that are all shown although they are alike."""
_VALUE = re.compile(r'not (?:the text )?(?:"[^"]*"|-?[0-9.]+)')
"""The value in a sentence that names what stands in the place of another."""
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{,59}")


class FilePosition(msgspec.Struct, frozen=True):
    """A position in a file: line and column from 1, the column in characters."""

    line: int
    column: int
    path: str
    """The JSON path, `partitions[3].replicas[1]`; empty for the file as a whole."""


class Problem(msgspec.Struct, frozen=True):
    """A problem to fix in a plan's file; `place` is None where nothing could be read."""

    place: FilePosition | None
    sentence: str

    def __str__(self) -> str:
        """Return `12:34: partitions[3].replicas[1]: what to change`."""
        if self.place is None:
            return self.sentence
        path = f"{self.place.path}: " if self.place.path else ""
        return f"{self.place.line}:{self.place.column}: {path}{self.sentence}"


class BadPlan(Exception):
    """A plan's file cannot be used. Holds all problems in the file's order.

    Attributes:
        problems: the problems, at most `MOST_TOLD`; many alike are one that counts the others.
        more: the number of further problems found.
        path: the file; None if the plan was read from bytes.
    """

    def __init__(
        self, problems: tuple[Problem, ...], more: int = 0, path: Path | None = None
    ) -> None:
        self.problems = problems
        self.more = more
        self.path = path
        super().__init__(f"{len(problems) + more} problems")

    def __str__(self) -> str:
        """One line a problem: `plan.json:12:34: partitions[3].replicas[1]: what to change`."""
        lines = [self._line(problem) for problem in self.problems]
        return "\n".join([*lines, f"and {self.more:,} more"] if self.more else lines)

    def _line(self, problem: Problem) -> str:
        if self.path is None:
            return str(problem)
        gap = ": " if problem.place is None else ":"
        return f"{clean(str(self.path))}{gap}{problem}"


class _Alike:
    """The problems that are one mistake, made again and again."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[tuple[int, Problem]] = []

    def shown(self) -> list[tuple[int, Problem]]:
        """Return them all; of many the first, which counts the others."""
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
        """Add a problem at an offset of the text."""
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
        """Return the position of an offset."""
        column = at - self._text.rfind("\n", 0, at)
        return FilePosition(self.line(at), column, json_path(steps))

    def error(self) -> BadPlan:
        """Return the error with all problems."""
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
