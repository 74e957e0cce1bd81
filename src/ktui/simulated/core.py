"""The core of a simulated cluster: controller, logs, machines, time; and what delays its calls."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ktui.cluster.clock import Clock
from ktui.cluster.errors import KafkaError, NotAuthorized, TimedOut, Unreachable, Unsupported
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigResource, ConfigScope, Verdict, WriteResult
from ktui.cluster.settings import FOLLOWER_REPLICAS, LEADER_REPLICAS, broker_resource
from ktui.simulated import layout
from ktui.simulated.clock import CallSchedule, ScheduledCall
from ktui.simulated.controller.controller import ELECTIONS, Controller
from ktui.simulated.controller.records import RecordChange, Registration
from ktui.simulated.data.flows import EVERYWHERE, ThrottledReplicas
from ktui.simulated.data.replication import CaughtUp, DiskFull, FellBehind, Replication
from ktui.simulated.groups import Groups
from ktui.simulated.layout import ClusterSpec, Machines, OutsideEvent, Power, TopicSpec

KnownRecord = tuple[str, Registration]  # a topic id and a partition's record


class _Members(NamedTuple):
    from_s: float
    registered: frozenset[int]
    fenced: frozenset[int]


class Metadata:
    """The brokers' view of the cluster, `lag_s` behind; it costs only what has changed since."""

    def __init__(self, controller: Controller, lag_s: float) -> None:
        self._controller = controller
        self.lag_s = lag_s
        self._unseen: deque[tuple[float, TopicPartition]] = deque()
        self._before: dict[str, dict[int, deque[KnownRecord | None]]] = {}
        self._versions: Counter[str] = Counter()
        self._members = deque([_Members(0.0, controller.registered, controller.fenced)])

    def changed(self, change: RecordChange, now_s: float) -> None:
        self._versions[change.tp.topic] += 1
        if self.lag_s <= 0:
            return
        tp, before = change.tp, change.before
        partitions = self._before.setdefault(tp.topic, {})
        known = None if before is None else (change.topic_id, before)
        partitions.setdefault(tp.partition, deque()).append(known)
        self._unseen.append((now_s + self.lag_s, tp))

    def note_members(self, now_s: float) -> None:
        last, controller = self._members[-1], self._controller
        now = _Members(now_s + self.lag_s, controller.registered, controller.fenced)
        if now[1:] != last[1:]:
            self._members.append(now)

    @property
    def complete_from_s(self) -> float:
        unseen_s = self._unseen[-1][0] if self._unseen else 0.0
        return max(unseen_s, self._members[-1].from_s)

    @property
    def fenced(self) -> frozenset[int]:
        """The brokers that are fenced or not registered, as brokers know them."""
        return self._members[0].fenced

    @property
    def registered(self) -> frozenset[int]:
        return self._members[0].registered

    def learn(self, now_s: float) -> None:
        while self._unseen and self._unseen[0][0] <= now_s:
            _, tp = self._unseen.popleft()
            self._versions[tp.topic] += 1
            partitions = self._before[tp.topic]
            partitions[tp.partition].popleft()
            if not partitions[tp.partition]:
                del partitions[tp.partition]
            if not partitions:
                del self._before[tp.topic]
        while len(self._members) > 1 and self._members[1].from_s <= now_s:
            self._members.popleft()

    def topics(self) -> list[str]:
        settled = self._controller.topics.keys() - self._before.keys()
        return sorted({*settled, *(name for name in self._before if self.topic(name))})

    def version(self, name: str) -> int:
        """Return a number for what brokers know of a topic: with the same one, that is the same."""
        return self._versions[name]

    def topic(self, name: str) -> dict[TopicPartition, KnownRecord]:
        topic = self._controller.topics.get(name)
        if topic is not None and name not in self._before:
            settled = enumerate(topic.partitions)
            return {TopicPartition(name, n): (topic.id, known) for n, known in settled}
        found = {}
        for number in sorted(self._numbers(name)):
            tp = TopicPartition(name, number)
            known = self.partition(tp)
            if known is not None:
                found[tp] = known
        return found

    def partition(self, tp: TopicPartition) -> KnownRecord | None:
        unseen = self._before.get(tp.topic, {}).get(tp.partition)
        if unseen:
            return unseen[0]
        known = self._controller.get(tp)
        return None if known is None else (self._controller.topics[tp.topic].id, known)

    def _numbers(self, name: str) -> Iterable[int]:
        topic = self._controller.topics.get(name)
        current = set(range(len(topic.partitions))) if topic else set()
        return current | self._before.get(name, {}).keys()


_UNCLEAN_ELECTIONS_S = 300.0  # unclean.leader.election.interval.ms, which is internal to Kafka

RequestFault = layout.LoseRequest | layout.LoseAnswer | layout.DelayRequest


class _DescribedTopic(NamedTuple):
    version: int
    fenced: frozenset[int]
    states: Mapping[TopicPartition, PartitionState]


class _KnownState(NamedTuple):
    """The last state made of a partition's record, which most calls ask for again."""

    known: Registration
    fenced: frozenset[int]
    state: PartitionState


class SimulatedCore(ABC):
    """The state that ports and outside events work on. `SimulatedCluster` adds both."""

    def __init__(self, spec: ClusterSpec, clock: Clock, *, seed: int = 0) -> None:
        self.spec = spec
        self.clock = clock
        self.now_s = 0.0  # seconds since the first moment, up to which everything has happened
        self.began_s = clock.monotonic()
        self._due = CallSchedule()
        self._random = random.Random(seed)  # noqa: S311 - a simulation's dice
        self._listeners: list[Callable[[RecordChange], None]] = []
        self._states: dict[TopicPartition, _KnownState] = {}
        self._described: dict[str, _DescribedTopic] = {}
        stopped = [broker.id for broker in spec.brokers if broker.down]
        self.machines = Machines((broker.id for broker in spec.brokers), stopped)
        self.replication = Replication(spec, seed=seed)
        self.controller = Controller(spec, self._spread_decision, seed=seed)
        self.metadata = Metadata(self.controller, lag_s=0.0)
        self.groups = Groups(self.machines)
        self.share_groups = dict(spec.share_groups)
        self.transactional_ids = set(spec.transactional_ids)
        for broker in self.machines:
            self._apply_settings(broker_resource(broker))
        for topic in spec.topics:
            if (made := self._create(topic, was_there=True)).verdict is not Verdict.ACCEPTED:
                raise ValueError(f"topic {topic.name}: {made.message}")
        self.metadata.lag_s = spec.metadata_lag_s
        self.mishaps: deque[RequestFault] = deque()
        self.denied: set[str] = set()
        self.controller_from_s = 0.0  # in the future while one controller takes over from another
        self._repeat(_UNCLEAN_ELECTIONS_S, self._elect_unclean)
        if spec.auto_leader_rebalance:
            self._repeat(spec.rebalance_interval_s, self._rebalance)

    @abstractmethod
    def perform(self, act: OutsideEvent) -> None:
        """Apply an event now; if it needs a controller, as soon as there is one."""

    def at(self, at_s: float, action: ScheduledCall) -> None:
        self._due.enter(max(self.now_s, at_s), action)

    def listen(self, listener: Callable[[RecordChange], None]) -> None:
        self._listeners.append(listener)

    def create_topic(self, spec: TopicSpec) -> WriteResult:
        return self._create(spec, was_there=False)

    def _create(self, spec: TopicSpec, *, was_there: bool) -> WriteResult:
        self.replication.prepare(spec)
        result = self.controller.create_topic(spec, was_there=was_there)
        if result.verdict is Verdict.ACCEPTED:
            self._apply_topic_settings(spec.name)
        return result

    def configure(self, changes: Sequence[ConfigChange]) -> dict[ConfigResource, WriteResult]:
        results = self.controller.alter_configs(changes)
        for resource, result in results.items():
            if result.verdict is Verdict.ACCEPTED:
                self._apply_settings(resource)
        return results

    def unregister(self, broker: int) -> WriteResult:
        result = self.controller.unregister(broker)
        self.note_members()
        return result

    def _apply_settings(self, resource: ConfigResource) -> None:
        if resource.scope is ConfigScope.TOPIC:
            self._apply_topic_settings(resource.name)
        else:
            concerned = [int(resource.name)] if resource.name else self.machines
            if not resource.name:
                for topic in self.controller.topics:
                    self._apply_topic_settings(topic)
            for broker in concerned:
                self._apply_cordons(broker)
                config = self.controller.configs.broker_config(broker)
                self.replication.set_throttle_rates(
                    broker,
                    follower=config.follower_throttle_rate,
                    leader=config.leader_throttle_rate,
                    log_dir=config.log_dir_throttle_rate,
                )

    def _apply_cordons(self, broker: int) -> None:
        cordoned = self.controller.configs.cordoned(broker)
        self.replication.log_dirs(broker).cordoned = cordoned

    def _apply_topic_settings(self, name: str) -> None:
        self.replication.set_retention(name, self.controller.configs.retention_bytes(name))
        self.replication.set_throttled_replicas(
            name,
            followers=self._throttled_replicas(name, FOLLOWER_REPLICAS),
            leaders=self._throttled_replicas(name, LEADER_REPLICAS),
        )

    def _throttled_replicas(self, topic: str, key: str) -> ThrottledReplicas:
        found = self.controller.configs.throttled(topic, key)
        return EVERYWHERE if isinstance(found, str) else ThrottledReplicas(found)

    def any_live_broker(self) -> int | None:
        """Return the broker reported as the controller: any live one, which forwards; else None."""
        live = [b for b in self.machines if b not in self.metadata.fenced]
        return self._random.choice(live) if live else None

    def session_end_s(self, broker: int) -> float:
        """Return when a silent broker's session ends; a new controller restarts every session."""
        heard_s = self.machines.silent_from_s[broker]
        if not self.controller.is_fenced(broker):
            heard_s = max(heard_s, self.controller_from_s)
        return heard_s + self.spec.session_timeout_s

    @property
    def next_event_s(self) -> float:
        return min(self._due.next_s, self.replication.next_event_s())

    def catch_up(self) -> None:
        until_s = self.clock.monotonic() - self.began_s
        while (next_s := self.next_event_s) <= until_s:
            self._flow_to(next_s)
            while self._due.next_s <= self.now_s:
                self._due.pop_next()()
            self.note_members()
        self._flow_to(until_s)
        self.metadata.learn(self.now_s)

    def note_members(self) -> None:
        self.metadata.note_members(self.now_s)
        self.groups.catch_up(self.now_s, self.controller.fenced)

    def _flow_to(self, at_s: float) -> None:
        self.now_s = max(self.now_s, at_s)
        for event in self.replication.advance(self.now_s):
            self._handle(event)

    def _handle(self, event: CaughtUp | FellBehind | DiskFull) -> None:
        match event:
            case DiskFull(broker):
                self.perform(layout.Kill(broker))
            case CaughtUp(tp, broker):
                self._alter_isr(tp, broker, join=True)
            case FellBehind(tp, broker):
                self._alter_isr(tp, broker, join=False)

    def _alter_isr(self, tp: TopicPartition, broker: int, *, join: bool) -> None:
        known = self.controller.get(tp)
        if self.now_s < self.controller_from_s or known is None:
            return  # a change that is not made is reported again
        if known.leader is None or self.machines.power(known.leader) is not Power.UP:
            return
        others = tuple(member for member in known.isr if member != broker)
        isr = (*others, broker) if join else others
        if broker in known.replicas and set(isr) != set(known.isr):
            self.controller.alter_isr(tp, isr, known.leader)

    def _spread_decision(self, change: RecordChange) -> None:
        self.replication.changed(change)
        self.metadata.changed(change, self.now_s)
        for listener in self._listeners:
            listener(change)

    def described(self, name: str) -> Mapping[TopicPartition, PartitionState]:
        """Return a topic's partitions as brokers' metadata shows them, without reassignments."""
        version, fenced = self.metadata.version(name), self.metadata.fenced
        last = self._described.get(name)
        if last is not None and last.version == version and last.fenced is fenced:
            return last.states
        found = self.metadata.topic(name)
        states = {tp: self._state(tp, topic_id, known) for tp, (topic_id, known) in found.items()}
        self._described[name] = _DescribedTopic(version, fenced, states)
        return states

    def _state(self, tp: TopicPartition, topic_id: str, known: Registration) -> PartitionState:
        fenced = self.metadata.fenced
        last = self._states.get(tp)
        if last is not None and last.known is known and last.fenced is fenced:
            return last.state
        offline = tuple(b for b in known.replicas if b in fenced or b in known.offline)
        state = PartitionState(
            tp=tp,
            topic_id=topic_id,
            replicas=known.replicas,
            isr=known.isr,
            leader=known.leader,
            leader_epoch=known.leader_epoch,
            offline=offline,
            elr=known.elr,
        )
        self._states[tp] = _KnownState(known, fenced, state)
        return state

    def _repeat(self, seconds: float, action: ScheduledCall) -> None:
        def again() -> None:
            if self.now_s >= self.controller_from_s:
                action()
            self._repeat(seconds, action)

        self.at(self.now_s + seconds, again)

    def _rebalance(self) -> None:
        while self.controller.rebalance_leaders() >= ELECTIONS:
            pass

    def _elect_unclean(self) -> None:
        while self.controller.elect_unclean_leaders() >= ELECTIONS:
            pass


TIMEOUT_S = 10.0  # timeout of a call, in the cluster's time
_ANSWERED_WITHIN_S = 0.5  # longest time until a resumed broker answers the calls still waiting
_FRESH_WITHIN_S = 5.0  # longest time for brokers to catch up with the controller
_MIN_SLEEP_S = 0.001  # larger than any rounding error of a clock's figures
PORT = 9092
DENIED = KafkaError.CLUSTER_AUTHORIZATION_FAILED
_NO_TOPIC = KafkaError.TOPIC_AUTHORIZATION_FAILED
_NO_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED


def host(broker: int) -> str:
    """Return the host name of a broker."""
    return f"broker-{broker}.simulated"


class Calls:
    """The calls of one client. Each first lets the cluster catch up, then meets its faults."""

    def __init__(self, cluster: SimulatedCore) -> None:
        self._cluster = cluster
        self.closed = False

    async def any_broker(self, call: str) -> None:
        """Raise unless some healthy broker can answer."""
        self._arrive(call)
        machines = self._cluster.machines
        if not await self._wait_while(lambda: not machines.up() and bool(machines.hanging())):
            raise TimedOut(attempted(call), fix="The brokers may be overloaded or hanging")
        if not machines.up():
            where = f"{host(min(machines))}:{PORT}"  # as a client does that knows only this broker
            raise Unreachable(attempted(call), where=where, answer="no broker answered")
        self._permit(call)

    async def broker(self, broker: int, call: str) -> None:
        """Raise unless this broker can answer."""
        self._arrive(call)
        machines, where = self._cluster.machines, f"broker {broker}"
        if broker not in machines or self._cluster.controller.is_fenced(broker):
            answer = "the cluster's metadata has no such live broker"
            raise Unreachable(attempted(call), where=where, answer=answer)
        if not await self._wait_while(lambda: machines.power(broker) is Power.HANGING):
            raise TimedOut(
                attempted(call), where=where, fix="The broker may be overloaded or hanging"
            )
        if machines.power(broker) is not Power.UP:
            raise Unreachable(attempted(call), where=where, answer="connection refused")
        self._permit(call, where)

    async def _wait_while(self, hanging: Callable[[], bool]) -> bool:
        clock = self._cluster.clock
        until_s = clock.monotonic() + TIMEOUT_S
        while hanging():
            if clock.monotonic() >= until_s:
                return False
            await clock.sleep(_ANSWERED_WITHIN_S)
            self._cluster.catch_up()
        return True

    async def controller(self) -> None:
        cluster = self._cluster
        while cluster.now_s < cluster.controller_from_s:
            await cluster.clock.sleep(cluster.controller_from_s - cluster.now_s)
            cluster.catch_up()

    async def fresh_metadata(self) -> None:
        """Wait until brokers know everything decided so far; TimedOut after 5 s."""
        call = "describe_quorum"
        try:
            await self.any_broker(call)
        except NotAuthorized as denied:
            raise Unsupported(attempted(call), answer=denied.answer, fix=denied.fix) from denied
        await self.controller()
        cluster = self._cluster
        from_s, until_s = cluster.metadata.complete_from_s, cluster.now_s + _FRESH_WITHIN_S
        while cluster.now_s < min(from_s, until_s):
            left_s = min(from_s, until_s) - cluster.now_s
            await cluster.clock.sleep(max(left_s, _MIN_SLEEP_S))
            cluster.catch_up()
        if cluster.now_s < from_s:
            raise TimedOut("waiting for fresh metadata", answer="no broker has caught up")

    def _arrive(self, call: str) -> None:
        if self.closed:
            raise Unreachable(attempted(call), answer="the connection was closed by ktui")
        self._cluster.catch_up()

    def _permit(self, call: str, where: str = "") -> None:
        if call in self._cluster.denied:
            needs = _CALLS[call].needs
            fix = f"Grant {needs} to this principal; `ktui doctor` shows all that is missing"
            denial = _CALLS[call].denial
            raise NotAuthorized(attempted(call), where=where, answer=denial, fix=fix, needs=needs)


def attempted(call: str) -> str:
    """Return the phrase for a call in error messages, such as "describing log dirs"."""
    return _CALLS[call].attempted


class _Call(NamedTuple):
    attempted: str
    needs: str
    denial: str = DENIED


_CALLS = {
    "describe_cluster": _Call("describing the cluster", "Describe on the cluster"),
    "list_reassignments": _Call("listing reassignments", "Describe on the cluster"),
    "describe_quorum": _Call("asking how far the controllers' log is", "Describe on the cluster"),
    "describe_topics": _Call("describing topics", "Describe on the topics"),
    "scan_topics": _Call("describing topics", "Describe on the topics"),
    "log_offsets": _Call("reading log offsets", "Describe on the topics"),
    "log_dirs": _Call("describing log dirs", "Describe on the cluster"),
    "topic_configs": _Call("reading topic settings", "DescribeConfigs on the topics"),
    "broker_config": _Call("reading broker settings", "DescribeConfigs on the cluster"),
    "coordinated_ids": _Call("listing groups", "Describe on the cluster"),
    "alter_reassignments": _Call("altering reassignments", "Alter on the cluster"),
    "elect_preferred_leaders": _Call("electing preferred leaders", "Alter on the cluster"),
    "alter_log_dirs": _Call("moving replicas between log dirs", "Alter on the cluster"),
    "create_partitions": _Call("adding partitions", "Alter on the topic", _NO_TOPIC),
    "unregister_broker": _Call("unregistering a broker", "Alter on the cluster"),
    "delete_broker_settings": _Call(
        "deleting settings through a controller", "AlterConfigs on the cluster"
    ),
    "alter_configs": _Call("altering settings", "AlterConfigs on the topics or the cluster"),
    "describe_group": _Call("asking who owns the cluster", "Describe on the group", _NO_GROUP),
    "join_group": _Call("owning the cluster", "Read on the group", _NO_GROUP),
}
