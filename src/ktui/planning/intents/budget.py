"""What a plan may use up at most: moves, bytes, and changes of the preferred leader."""

from __future__ import annotations

from copy import copy

from ktui.planning.intents.made_plan import Why
from ktui.planning.intents.wishes import Wishes


class Budget:
    """What has been used up, and what may be.

    Args:
        max_moves: replicas copied at most; None for no bound.
        max_bytes: bytes copied at most.
        max_leader_changes: changes of a preferred leader at most.
    """

    def __init__(
        self, max_moves: int | None, max_bytes: int | None, max_leader_changes: int | None
    ) -> None:
        self.max_moves = max_moves
        self.max_bytes = max_bytes
        self.max_leader_changes = max_leader_changes
        self.moves = 0
        self.bytes = 0
        self.leader_changes = 0

    @classmethod
    def of(cls, wishes: Wishes) -> Budget:
        """Return the budget of an operator's wishes, unused."""
        return cls(wishes.max_moves, wishes.max_bytes, wishes.max_leader_changes)

    def trial(self) -> Budget:
        """Return a copy, to see how far it goes."""
        return copy(self)

    @property
    def bytes_left(self) -> int | None:
        """The bytes that may still be copied; None for no bound."""
        return None if self.max_bytes is None else self.max_bytes - self.bytes

    def lacks(self, size: int, *, leader: bool = False) -> Why | None:
        """Return what one more move would exceed; None if it may be made."""
        if self.max_moves is not None and self.moves >= self.max_moves:
            return Why.MAX_MOVES
        if self.max_bytes is not None and self.bytes + size > self.max_bytes:
            return Why.MAX_BYTES
        return self.lacks_leader_change() if leader else None

    def lacks_leader_change(self) -> Why | None:
        """Return whether one more preferred leader would be too many."""
        if self.max_leader_changes is not None and self.leader_changes >= self.max_leader_changes:
            return Why.MAX_LEADER_CHANGES
        return None

    def take(self, size: int, *, leader: bool = False) -> None:
        """Use up one move."""
        self.moves += 1
        self.bytes += size
        self.leader_changes += leader

    def give_back(self, size: int) -> None:
        """Take back a move: another one replaces it."""
        self.moves -= 1
        self.bytes -= size
