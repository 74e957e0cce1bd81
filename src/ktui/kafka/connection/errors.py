"""The error for connection settings that cannot be used."""

from __future__ import annotations


class ConnectionProblem(Exception):
    """Connection settings cannot be used; nothing was sent.

    Attributes:
        where: the file with its line, the context, or the option with the setting.
        key: the setting, under the name that its author used; empty if the error concerns them all.
        problem: the mistake.
        fix: the correction.
    """

    def __init__(self, where: str, key: str, problem: str, fix: str = "") -> None:
        self.where = where
        self.key = key
        self.problem = problem
        self.fix = fix
        super().__init__(where, key, problem, fix)

    def __str__(self) -> str:
        """Return one line: the place, the setting, the problem and the fix."""
        named = ": ".join(part for part in (self.where, self.key, self.problem) if part)
        return f"{named}. {self.fix}" if self.fix else named
