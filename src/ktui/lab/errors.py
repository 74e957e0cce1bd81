"""The errors of a lab, each with a problem and its fix."""

from __future__ import annotations


class LabError(Exception):
    """A lab operation failed.

    Attributes:
        what: the problem, with the place where it occurred.
        fix: the remedy, for the user.
        words: lines quoted from the source of the failure (Maven, a broker's log), oldest first.
    """

    def __init__(self, what: str, *, fix: str = "", words: tuple[str, ...] = ()) -> None:
        self.what = what
        self.fix = fix
        self.words = words
        super().__init__(what)

    def __str__(self) -> str:
        """Return the problem, the quoted lines below it, and the fix last."""
        quoted = "".join(f"\n  | {line}" for line in self.words)
        if not self.fix:
            return f"{self.what}{quoted}"
        return f"{self.what}{quoted}\n{self.fix}" if quoted else f"{self.what}. {self.fix}"


class WrongInput(LabError):
    """The request names something that does not exist or is impossible; nothing was done."""
