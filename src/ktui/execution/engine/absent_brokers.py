"""Brokers that went offline a moment ago: a restart is not a death."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from ktui.execution.engine.observed import Observed

LEAVING_S = 5.0
"""Seconds for which a broker is suspected. Longer than the time from leaving its last ISR to its
fencing."""


class SuspectedBrokers:
    """Suspects brokers that have just left every ISR in which they were seen."""

    def __init__(self) -> None:
        self._in_sync: frozenset[int] = frozenset()
        self._until_s: dict[int, float] = {}

    def look(self, observed: Observed) -> None:
        """Compare the brokers in sync with those of the last poll."""
        states = [state for state in observed.seen.partitions.values() if state.described]
        in_sync = frozenset(broker for state in states for broker in state.isr)
        there = {broker for state in states for broker in state.replicas}
        now_s = observed.seen.monotonic_s
        kept = {b: at_s for b, at_s in self._until_s.items() if at_s > now_s and b not in in_sync}
        left = (self._in_sync & there) - in_sync
        self._until_s = {**dict.fromkeys(left, now_s + LEAVING_S), **kept}
        self._in_sync = in_sync

    def any(self, brokers: Iterable[int]) -> bool:
        """Whether one of the brokers may be about to go offline.

        Nothing is added to such a broker until the suspicion has passed.
        """
        return any(broker in self._until_s for broker in brokers)


RESTARTS_S = 60.0
"""Seconds for which a broker that was online counts as restarting."""


class AbsentBrokers:
    """Knows which brokers went offline recently.

    A broker that was offline at the first poll counts as dead: nobody saw it go.
    """

    def __init__(self) -> None:
        self._online: AbstractSet[int] = frozenset()
        self._since_s: dict[int, float] = {}

    def look(self, online: AbstractSet[int], now_s: float) -> None:
        """Compare the online brokers with those of the last poll."""
        for broker in self._online - online:
            self._since_s.setdefault(broker, now_s)
        self._since_s = {
            broker: since_s
            for broker, since_s in self._since_s.items()
            if broker not in online and now_s - since_s < RESTARTS_S
        }
        self._online = online

    @property
    def restarting(self) -> frozenset[int]:
        """The brokers that may be back in a moment."""
        return frozenset(self._since_s)
