"""The error for connection settings that cannot be used."""

from __future__ import annotations


class ConnectionProblem(Exception):
    """Connection settings that a person wrote cannot be used; nothing was sent.

    Attributes:
        where: the file with its line, the context, or the option that says it.
        key: the setting, under the name that the person used; empty if it is about them all.
        problem: what is wrong with it.
        fix: what to write instead.
    """

    def __init__(self, where: str, key: str, problem: str, fix: str = "") -> None:
        self.where = where
        self.key = key
        self.problem = problem
        self.fix = fix
        super().__init__(where, key, problem, fix)

    def __str__(self) -> str:
        """One line: where, which setting, what is wrong, and the fix."""
        named = ": ".join(part for part in (self.where, self.key, self.problem) if part)
        return f"{named}. {self.fix}" if self.fix else named
