"""Which brokers belong to a cluster, and which of them take part."""

from __future__ import annotations

from collections.abc import Iterable


class Membership:
    """The registered brokers, all of them up at first.

    A broker may be in ISRs and lead while it is active: neither fenced nor shutting down.
    """

    def __init__(self, brokers: Iterable[int]) -> None:
        self.registered = frozenset(brokers)
        self.active = set(self.registered)
        self.fenced: set[int] = set()
        self._stopping: set[int] = set()

    def may_lead(self, broker: int) -> bool:
        """Whether a broker is active."""
        return broker in self.active

    def stopping(self, broker: int) -> bool:
        """Whether a broker has begun to shut down properly, and has not registered since."""
        return broker in self._stopping

    def fence(self, broker: int) -> None:
        """A broker is down, or does not answer."""
        self.fenced.add(broker)
        self.active.discard(broker)

    def unfence(self, broker: int) -> None:
        """A broker is up; one that is shutting down stays so until it registers again."""
        self.fenced.discard(broker)
        if broker not in self._stopping:
            self.active.add(broker)

    def stop(self, broker: int) -> None:
        """A broker begins to shut down properly."""
        self._stopping.add(broker)
        self.active.discard(broker)

    def register(self, broker: int) -> None:
        """A broker has started anew; it is fenced until it has caught up with the metadata."""
        self._stopping.discard(broker)
        self.fence(broker)
