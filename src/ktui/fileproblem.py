"""What is wrong with a file that a person wrote, and where."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class FileProblem(Exception):
    """A file a person wrote cannot be used; says where and what to change."""

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        self.path = path
        self.line = line
        self.problem = problem
        place = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{place}: {problem}")


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Say that a key is not known, with the one that was probably meant."""
    import difflib  # noqa: PLC0415 - slow to import, and only a mistake needs it

    known = sorted(known)
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
    return f"unknown key {key!r}; {hint}"
