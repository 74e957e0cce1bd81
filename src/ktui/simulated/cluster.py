"""Apply each kind of outside event to a simulated cluster."""

from __future__ import annotations

from ktui.cluster.errors import KafkaError, Refused, Unreachable
from ktui.cluster.ownership import GroupDescription, GroupMembership, HeartbeatAnswer, Member
from ktui.cluster.ports import ClusterReader, ClusterWriter
from ktui.simulated import layout
from ktui.simulated.clock import ScheduledCall
from ktui.simulated.core import Calls, SimulatedCore, attempted
from ktui.simulated.groups import LONGEST_SESSION_S, SHORTEST_SESSION_S
from ktui.simulated.layout import OutsideEvent, Power, ScheduledEvent
from ktui.simulated.reader import SimulatedReader
from ktui.simulated.writer import SimulatedWriter

_ELECTION_S = 1.0

_NEEDS_CONTROLLER = (
    layout.Alter
    | layout.ElectLeaders
    | layout.AlterConfigs
    | layout.CreateTopic
    | layout.DeleteTopic
    | layout.Shutdown
    | layout.FailLogDir
)


def apply_event(cluster: SimulatedCore, act: OutsideEvent) -> None:  # noqa: C901, PLR0912 - one line an event
    """Apply an event now; if it needs a controller, as soon as there is one."""
    if isinstance(act, _NEEDS_CONTROLLER) and cluster.now_s < cluster.controller_from_s:
        cluster.at(cluster.controller_from_s, lambda: apply_event(cluster, act))
        return
    match act:
        case layout.Kill(broker):
            _fall_silent(cluster, broker, Power.DEAD)
        case layout.Hang(broker):
            _fall_silent(cluster, broker, Power.HANGING)
        case layout.Shutdown(broker):
            _shut_down(cluster, broker)
        case layout.Start(broker):
            _start(cluster, broker)
        case layout.Resume(broker):
            _resume(cluster, broker)
        case layout.Slow(broker, share):
            cluster.replication.slow(broker, share)
        case layout.FillDisk(broker, leave):
            cluster.replication.fill_disk(broker, leave)
        case layout.FailLogDir(broker, path):
            _fail_log_dir(cluster, broker, path)
        case layout.ChangeController():
            cluster.controller_from_s = cluster.now_s + _ELECTION_S
        case layout.SetInbound(topic, inbound):
            cluster.replication.set_inbound(topic, inbound)
        case layout.Append(tp, messages):
            cluster.replication.append(tp, messages)
        case layout.CreateTopic(topic_spec):
            cluster.create_topic(topic_spec)
        case layout.DeleteTopic(topic):
            cluster.controller.delete_topic(topic)
        case layout.Alter(targets):
            cluster.controller.alter(targets, allow_replication_factor_change=True)
        case layout.ElectLeaders(partitions):
            cluster.controller.elect(partitions)
        case layout.AlterConfigs(changes):
            cluster.configure(changes)
        case layout.LoseRequest() | layout.LoseAnswer() | layout.DelayRequest():
            cluster.mishaps.append(act)
        case layout.Deny(call):
            cluster.denied.add(call)
        case layout.Allow(call):
            cluster.denied.discard(call)


def _fail_log_dir(cluster: SimulatedCore, broker: int, path: str) -> None:
    if cluster.machines.power(broker) is not Power.UP:
        return
    if path == cluster.replication.log_dirs(broker).paths[0]:
        _fall_silent(cluster, broker, Power.DEAD)
    else:
        lost = cluster.replication.fail_log_dir(broker, path)
        cluster.controller.lose_log_dir(broker, path, lost)


def _fall_silent(cluster: SimulatedCore, broker: int, power: Power) -> None:
    """Stop a broker without a shutdown; the controller notices when the session times out."""
    machines = cluster.machines
    before = machines.power(broker)
    running = (Power.UP,) if power is Power.HANGING else (Power.UP, Power.HANGING, Power.STARTING)
    if before not in running:
        return
    if before is Power.UP:
        machines.silent_from_s[broker] = cluster.now_s
    spell = machines.turn(broker, power)
    cluster.replication.broker_down(broker)
    _after_session(cluster, broker, spell, lambda: cluster.controller.fence(broker))


def _after_session(cluster: SimulatedCore, broker: int, spell: int, action: ScheduledCall) -> None:
    if not cluster.machines.still(broker, spell):
        return
    end_s = cluster.session_end_s(broker)
    if cluster.now_s < end_s:
        cluster.at(end_s, lambda: _after_session(cluster, broker, spell, action))
    else:
        action()


def _shut_down(cluster: SimulatedCore, broker: int) -> None:
    """Move leadership off a broker and out of its ISRs, then stop it `shutdown_s` later."""
    machines, controller = cluster.machines, cluster.controller
    if machines.power(broker) is not Power.UP or controller.is_stopping(broker):
        return
    controller.controlled_shutdown(broker)
    spell = machines.turn(broker, Power.UP)
    if cluster.spec.shutdown_s > 0:
        cluster.at(cluster.now_s + cluster.spec.shutdown_s, lambda: _stop(cluster, broker, spell))
    else:
        _stop(cluster, broker, spell)


def _stop(cluster: SimulatedCore, broker: int, spell: int) -> None:
    if not cluster.machines.still(broker, spell):
        return
    if cluster.now_s < cluster.controller_from_s:
        cluster.at(cluster.controller_from_s, lambda: _stop(cluster, broker, spell))
        return
    cluster.machines.silent_from_s[broker] = cluster.now_s
    cluster.machines.turn(broker, Power.STOPPED)
    cluster.replication.broker_down(broker)
    cluster.controller.fence(broker)


def _start(cluster: SimulatedCore, broker: int) -> None:
    """Start a broker once its session has ended: before, it is refused as a duplicate."""
    before = cluster.machines.power(broker)
    if before is Power.UP and cluster.controller.is_stopping(broker):
        gone_s = max(cluster.now_s + cluster.spec.shutdown_s, cluster.controller_from_s)
        cluster.at(gone_s, lambda: _start(cluster, broker))
    if before not in (Power.STOPPED, Power.DEAD):
        return
    spell = cluster.machines.turn(broker, Power.STARTING)
    cluster.replication.log_dirs(broker).forget()
    ready_s = cluster.now_s + cluster.spec.startup_s

    def ready() -> None:
        if cluster.machines.still(broker, spell):
            _come_up(cluster, broker)

    def register() -> None:
        _register(cluster, broker, properly_stopped=before is Power.STOPPED)
        cluster.at(ready_s, ready)

    _after_session(cluster, broker, spell, register)


def _register(cluster: SimulatedCore, broker: int, *, properly_stopped: bool) -> None:
    """Register a broker, as an unclean start if it had not shut down properly (KIP-966)."""
    if properly_stopped:
        cluster.controller.clean_start(broker)
        return
    cluster.controller.fence(broker)
    cluster.controller.unclean_start(broker)


def _resume(cluster: SimulatedCore, broker: int) -> None:
    if cluster.machines.power(broker) is not Power.HANGING:
        return
    if cluster.controller.is_stopping(broker):
        _stop(cluster, broker, cluster.machines.turn(broker, Power.UP))
    else:
        _come_up(cluster, broker)


def _come_up(cluster: SimulatedCore, broker: int) -> None:
    spell = cluster.machines.turn(broker, Power.UP)
    cluster.replication.broker_up(broker)
    _unfence(cluster, broker, spell)


def _unfence(cluster: SimulatedCore, broker: int, spell: int) -> None:
    if not cluster.machines.still(broker, spell):
        return
    if cluster.now_s < cluster.controller_from_s:
        cluster.at(cluster.controller_from_s, lambda: _unfence(cluster, broker, spell))
    else:
        cluster.controller.unfence(broker)


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
    """An in-memory cluster by KRaft's rules. It stands still between calls, which catch up.

    One spec, one seed and the same calls at the same times always give the same history.
    """

    def reader(self) -> ClusterReader:
        return SimulatedReader(self)

    def writer(self) -> ClusterWriter:
        return SimulatedWriter(self)

    def memberships(self) -> GroupMembership:
        return SimulatedGroups(self)

    def schedule(self, due: ScheduledEvent) -> None:
        self.at(due.at_s, lambda: self.perform(due.act))

    def do(self, act: OutsideEvent) -> None:
        self.catch_up()
        self.perform(act)
        self.note_members()

    def perform(self, act: OutsideEvent) -> None:
        apply_event(self, act)
