"""Brokers that went offline a moment ago: a restart is not a death."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

RESTARTS_S = 60.0
"""How long a broker that was online counts as one that restarts."""


class AbsentBrokers:
    """Knows which brokers went offline lately.

    One that was offline at the first look counts as dead: nobody saw it go.
    """

    def __init__(self) -> None:
        self._online: AbstractSet[int] = frozenset()
        self._since_s: dict[int, float] = {}

    def look(self, online: AbstractSet[int], now_s: float) -> None:
        """Compare who is online with the last look."""
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
