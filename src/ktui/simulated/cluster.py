"""A cluster in memory, with the ports to it and what can happen to it from outside."""

from __future__ import annotations

from ktui.cluster.membership import GroupMembership
from ktui.cluster.ports import ClusterReader, ClusterWriter
from ktui.simulated.apply_event import perform
from ktui.simulated.core import SimulatedCore
from ktui.simulated.events import OutsideEvent, ScheduledEvent
from ktui.simulated.membership import SimulatedGroups
from ktui.simulated.reader import SimulatedReader
from ktui.simulated.writer import SimulatedWriter


class SimulatedCluster(SimulatedCore):
    """A cluster that keeps KRaft's rules in a time of its own.

    It stands still until it is looked at or changed: each call through its reader or writer first
    lets happen what was due by the clock. One spec, one seed and the same calls at the same times
    always give the same history.
    """

    def reader(self) -> ClusterReader:
        """Return a reading port; closing it leaves the cluster running."""
        return SimulatedReader(self)

    def writer(self) -> ClusterWriter:
        """Return a writing port; closing it leaves the cluster running."""
        return SimulatedWriter(self)

    def memberships(self) -> GroupMembership:
        """Return a port to its consumer groups; closing it leaves them as they are."""
        return SimulatedGroups(self)

    def schedule(self, due: ScheduledEvent) -> None:
        """Apply an act at its second; at once if that has passed."""
        self.at(due.at_s, lambda: self.perform(due.act))

    def do(self, act: OutsideEvent) -> None:
        """Apply an act now."""
        self.catch_up()
        self.perform(act)
        self.note_fenced()

    def perform(self, act: OutsideEvent) -> None:
        """Apply an act at the present moment, or once there is a controller if it takes one."""
        perform(self, act)
