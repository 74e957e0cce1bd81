"""The in-memory cluster, its ports, and the outside events that can hit it."""

from __future__ import annotations

from ktui.cluster.membership import GroupMembership
from ktui.cluster.ports import ClusterReader, ClusterWriter
from ktui.simulated.apply_event import apply_event
from ktui.simulated.core import SimulatedCore
from ktui.simulated.events import OutsideEvent, ScheduledEvent
from ktui.simulated.membership import SimulatedGroups
from ktui.simulated.reader import SimulatedReader
from ktui.simulated.writer import SimulatedWriter


class SimulatedCluster(SimulatedCore):
    """An in-memory cluster that follows KRaft's rules on its own clock.

    The cluster stands still between calls. Each call through its reader or writer first runs
    everything due by the clock. One spec, one seed and the same calls at the same times always
    produce the same history.
    """

    def reader(self) -> ClusterReader:
        """Return a reading port; closing it leaves the cluster running."""
        return SimulatedReader(self)

    def writer(self) -> ClusterWriter:
        """Return a writing port; closing it leaves the cluster running."""
        return SimulatedWriter(self)

    def memberships(self) -> GroupMembership:
        """Return a port to the consumer groups; closing the port leaves the groups as they are."""
        return SimulatedGroups(self)

    def schedule(self, due: ScheduledEvent) -> None:
        """Apply an event at its time, or at once if that time has passed."""
        self.at(due.at_s, lambda: self.perform(due.act))

    def do(self, act: OutsideEvent) -> None:
        """Apply an event now."""
        self.catch_up()
        self.perform(act)
        self.note_members()

    def perform(self, act: OutsideEvent) -> None:
        """Apply an event now; if it needs a controller, as soon as there is one."""
        apply_event(self, act)
