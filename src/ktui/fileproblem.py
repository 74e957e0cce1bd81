"""Problems in files that people write, each with its place."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class FileProblem(Exception):
    """A file that a person wrote cannot be used; the message names the place and the fix."""

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        self.path = path
        self.line = line
        self.problem = problem
        place = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{place}: {problem}")


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Describe an unknown key: with the closest known key, else with all known keys."""
    import difflib  # noqa: PLC0415 - slow to import, and only a mistake needs it

    known = sorted(known)
    closest = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {closest[0]!r}?" if closest else f"known keys: {', '.join(known)}"
    return f"unknown key {key!r}; {hint}"
