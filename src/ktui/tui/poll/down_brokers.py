"""Since when brokers are down, from poll to poll."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class DownBrokers:
    """Tracks for each broker that is down since when; unknown for those down at the first poll."""

    def __init__(self) -> None:
        self._polled = False
        self._since_s: dict[int, float | None] = {}

    @property
    def since_s(self) -> Mapping[int, float | None]:
        """The brokers that are down, each with the monotonic second of the first poll without it.

        None for a broker that was down when polling began.
        """
        return self._since_s

    def note(self, down: Iterable[int], at_s: float) -> None:
        """Update from a poll at a monotonic second."""
        first = at_s if self._polled else None
        self._since_s = {broker: self._since_s.get(broker, first) for broker in down}
        self._polled = True
