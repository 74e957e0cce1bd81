"""Brokers that are shutting down: for some seconds they lead nothing, and still count as alive."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.execution.look import Look

LEAVING_S = 5.0
"""Longer than a broker is seen so before it is fenced."""


class Leaving:
    """Suspects brokers that have just left every ISR in which they were seen."""

    def __init__(self) -> None:
        self._in_sync: frozenset[int] = frozenset()
        self._until_s: dict[int, float] = {}

    def look(self, look: Look) -> None:
        """Compare who is in sync with the last look."""
        states = [state for state in look.seen.partitions.values() if state.described]
        in_sync = frozenset(broker for state in states for broker in state.isr)
        there = {broker for state in states for broker in state.replicas}
        now_s = look.seen.monotonic_s
        kept = {b: at_s for b, at_s in self._until_s.items() if at_s > now_s and b not in in_sync}
        left = (self._in_sync & there) - in_sync
        self._until_s = {**dict.fromkeys(left, now_s + LEAVING_S), **kept}
        self._in_sync = in_sync

    def any(self, brokers: Iterable[int]) -> bool:
        """Whether one of the brokers may be about to go: nothing is added to it for a moment."""
        return any(broker in self._until_s for broker in brokers)
