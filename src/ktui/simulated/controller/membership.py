"""The registered brokers of a cluster, and whether each is active, fenced or stopping."""

from __future__ import annotations

from collections.abc import Collection, Iterable


class Membership:
    """The registered brokers, all of them up at first but those that are down.

    Only an active broker may lead and be in ISRs: one that is neither fenced nor shutting down.
    """

    def __init__(self, brokers: Iterable[int], down: Collection[int] = ()) -> None:
        self.registered = set(brokers)
        self.active = self.registered - set(down)
        self.fenced = set(down)
        """The brokers that are down or not yet up, and the unregistered ones."""
        self._stopping: set[int] = set()

    def may_lead(self, broker: int) -> bool:
        """Return whether a broker is active."""
        return broker in self.active

    def stopping(self, broker: int) -> bool:
        """Return whether a broker has begun a proper shutdown and has not registered since."""
        return broker in self._stopping

    def fence(self, broker: int) -> None:
        """Mark a broker as fenced: down, or not answering."""
        self.fenced.add(broker)
        self.active.discard(broker)

    def unfence(self, broker: int) -> None:
        """Mark a broker as up; one that is shutting down stays inactive until it registers.

        Does nothing for an unregistered broker: the controller takes no heartbeat from it.
        """
        if broker not in self.registered:
            return
        self.fenced.discard(broker)
        if broker not in self._stopping:
            self.active.add(broker)

    def stop(self, broker: int) -> None:
        """Mark the beginning of a broker's proper shutdown."""
        self._stopping.add(broker)
        self.active.discard(broker)

    def register(self, broker: int) -> None:
        """Register a started broker; it is fenced until it has caught up with the metadata."""
        self._stopping.discard(broker)
        self.registered.add(broker)
        self.fence(broker)

    def unregister(self, broker: int) -> None:
        """Remove a broker's registration; it counts as fenced until it registers again."""
        self.registered.discard(broker)
        self.fence(broker)
