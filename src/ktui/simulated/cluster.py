"""The in-memory cluster: its ports, and the outside events that can hit it."""

from __future__ import annotations

from ktui.cluster.errors import Refused, Unreachable
from ktui.cluster.kafka_error import KafkaError
from ktui.cluster.ownership import GroupDescription, GroupMembership, HeartbeatAnswer, Member
from ktui.cluster.ports import ClusterReader, ClusterWriter
from ktui.simulated.apply_event import apply_event
from ktui.simulated.calls import Calls, attempted
from ktui.simulated.core import SimulatedCore
from ktui.simulated.events import OutsideEvent, ScheduledEvent
from ktui.simulated.groups import LONGEST_SESSION_S, SHORTEST_SESSION_S
from ktui.simulated.reader import SimulatedReader
from ktui.simulated.writer import SimulatedWriter


class SimulatedGroups:
    """A `GroupMembership` on a simulated cluster."""

    def __init__(self, cluster: SimulatedCore) -> None:
        self._cluster = cluster
        self._calls = Calls(cluster)

    async def describe(self, group: str) -> GroupDescription:
        await self._coordinator(group, "describe_group")
        cluster = self._cluster
        seen = cluster.groups.describe(group, cluster.now_s)
        permitted = "join_group" not in cluster.denied if cluster.groups.stored else None
        return GroupDescription(seen.kind, seen.settled, seen.members, permitted)

    async def join(
        self, group: str, metadata: bytes, session_s: float, member_id: str = ""
    ) -> Member | None:
        call = "join_group"
        await self._coordinator(group, call)
        if not SHORTEST_SESSION_S <= session_s <= LONGEST_SESSION_S:
            code = KafkaError.INVALID_SESSION_TIMEOUT
            raise Refused(attempted(call), code=code, answer=code)
        cluster = self._cluster
        return cluster.groups.join(group, metadata, session_s, member_id, cluster.now_s)

    async def heartbeat(self, group: str, member: Member) -> HeartbeatAnswer:
        await self._coordinator(group, "join_group")
        return self._cluster.groups.heartbeat(group, member, self._cluster.now_s)

    async def is_current(self, group: str, description: GroupDescription) -> bool:
        await self._coordinator(group, "join_group")
        newest = self._cluster.groups.describe(group, self._cluster.now_s)
        return newest.members == description.members

    async def leave(self, group: str, member: Member) -> None:
        await self._coordinator(group, "join_group")
        self._cluster.groups.leave(group, member, self._cluster.now_s)

    async def stores_groups(self) -> bool | None:
        await self._calls.any_broker("describe_cluster")
        return self._cluster.groups.stored

    async def aclose(self) -> None:
        self._calls.closed = True

    async def _coordinator(self, group: str, call: str) -> None:
        self._cluster.catch_up()
        coordinator = self._cluster.groups.coordinator(group)
        if coordinator is None:
            raise Unreachable(attempted(call), answer="no broker answered")
        await self._calls.broker(coordinator, call)


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
        self.catch_up()
        self.perform(act)
        self.note_members()

    def perform(self, act: OutsideEvent) -> None:
        apply_event(self, act)
