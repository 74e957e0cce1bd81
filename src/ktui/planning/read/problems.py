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
        problems: the problems, at most `MOST_TOLD`.
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


class Problems:
    """Collects the problems of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: list[tuple[int, Problem]] = []
        self._more = 0
        self._at = 0
        self._line = 1

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, at: int, steps: list[str | int] | ValuePath, sentence: str) -> None:
        """Add a problem at an offset of the text."""
        if len(self._found) < MOST_TOLD:
            self._found.append((at, Problem(self.place(at, steps), sentence)))
        else:
            self._more += 1

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
        ordered = sorted(self._found, key=lambda found: found[0])
        return BadPlan(tuple(problem for _, problem in ordered), self._more)


def json_path(steps: list[str | int] | ValuePath) -> str:
    """Format a path: `partitions[3].replicas[1]`, with unusual keys in quotes."""
    words = (_format_step(step) for step in steps)
    return "".join(words).removeprefix(".")


def _format_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_KEY.fullmatch(step) else f'["{shortened(step)}"]'
