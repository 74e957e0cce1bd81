"""The use of the limits by steps in flight."""

from __future__ import annotations

from collections import Counter

import msgspec

from ktui.pacing.decision import Move
from ktui.pacing.queue import moves_coordinator


class Usage(msgspec.Struct):
    """How much of each limit is in use, by all partitions or by the urgent ones alone."""

    places: int = 0
    """Partitions that hold a place under P."""
    steps_in_places: int = 0
    """Steps in flight that hold a place."""
    leaders_moving: int = 0
    coordinators_moving: int = 0
    """Steps in flight that move the leader of an internal partition."""
    steps_adding: int = 0
    alone: int = 0
    """Steps in flight that no other step may join."""
    replicas_adding: int = 0
    adding: Counter[int] = msgspec.field(default_factory=Counter)
    """Replicas being added, by broker."""
    sending: Counter[int] = msgspec.field(default_factory=Counter)
    """Replicas being added, by the leader that they are copied from."""
    bytes_adding: int = 0
    """Bytes of the replicas being added."""
    bytes_at: Counter[int] = msgspec.field(default_factory=Counter)
    """The same by broker: copied to it, and copied from it where it leads."""

    def count(self, move: Move, weight: int, sign: int = 1) -> None:
        """Count a step in flight, but not at the leader that it copies from.

        Args:
            move: the step.
            weight: the bytes that each replica counts.
            sign: 1 for a step that begins, -1 for one that is over.
        """
        step = move.step
        self.steps_in_places += sign * move.holds_place
        self.leaders_moving += sign * step.moves_leader
        self.coordinators_moving += sign * moves_coordinator(move.tp, step)
        self.steps_adding += sign * bool(step.adds)
        self.alone += sign * move.alone
        self.replicas_adding += sign * len(step.adds)
        self.bytes_adding += sign * len(step.adds) * weight
        for broker in step.adds:
            self.adding[broker] += sign
            self.bytes_at[broker] += sign * weight

    def count_at_leader(self, leader: int, replicas: int, weight: int) -> None:
        """Count replicas that are copied from a leader; a negative number ends them."""
        self.sending[leader] += replicas
        self.bytes_at[leader] += replicas * weight
