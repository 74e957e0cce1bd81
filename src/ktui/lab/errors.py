"""What can go wrong with a lab: what happened, and what to do about it."""

from __future__ import annotations


class LabError(Exception):
    """A lab could not do what was asked.

    Attributes:
        what: what happened, with the name of the place.
        fix: what the person can do about it.
        words: lines quoted from whoever refused (Maven, a broker's log), oldest first.
    """

    def __init__(self, what: str, *, fix: str = "", words: tuple[str, ...] = ()) -> None:
        self.what = what
        self.fix = fix
        self.words = words
        super().__init__(what)

    def __str__(self) -> str:
        """What happened, the quoted lines below it, and the fix last."""
        quoted = "".join(f"\n  | {line}" for line in self.words)
        if not self.fix:
            return f"{self.what}{quoted}"
        return f"{self.what}{quoted}\n{self.fix}" if quoted else f"{self.what}. {self.fix}"


class WrongInput(LabError):
    """What was asked for does not exist or cannot be; nothing was done."""
