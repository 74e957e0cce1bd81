"""A snapshot of the parts of a cluster that a plan concerns."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from ktui.cluster.asking import read_cluster_and_reassignments, with_reassignments
from ktui.cluster.broker import CoordinatedIds, CoordinatorKind, TopicConfig, cordoned_brokers
from ktui.cluster.clock import Clock
from ktui.cluster.errors import Failure, Operation, TimedOut, Unsupported
from ktui.cluster.figures import topic_names
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.ports import (
    ClusterDescription,
    ClusterReader,
    LogDirsAnswer,
    OffsetsAnswer,
    Setting,
    TopicsAnswer,
)
from ktui.cluster.settings import RATES, broker_resource
from ktui.planning.check.check import internal_leader_moves
from ktui.planning.check.findings import ClusterSnapshot, call_each_broker
from ktui.planning.check.rules import PlanRules
from ktui.planning.plan import Plan
from ktui.planning.replication_factor import BrokerPool

MEASURED_S = 2.0  # seconds between the two reads of the log ends

_ANY_TOPIC = TopicConfig()


class LogEnds(msgspec.Struct, frozen=True):
    """The log offsets of partitions that a broker leads, and the second of the answer."""

    offsets: OffsetsAnswer
    at_s: float


async def read_log_ends(
    reader: ClusterReader,
    led: Mapping[int, Collection[TopicPartition]],
    clock: Clock,
    *,
    starts: bool = True,
) -> tuple[Mapping[int, LogEnds], Sequence[Failure]]:
    """Read log offsets from leaders, all at once: the ends, and the `starts`."""

    async def read(broker: int) -> LogEnds:
        tps = led[broker]
        answer = await reader.log_offsets(broker, ends=tps, starts=tps if starts else ())
        return LogEnds(answer, clock.monotonic())

    calls = {broker: read(broker) for broker in sorted(led)}
    return await call_each_broker(Operation.LOG_ENDS, calls)


async def measure_inbound(
    reader: ClusterReader, plan: Plan, seen: ClusterSnapshot, clock: Clock
) -> ClusterSnapshot:
    """Measure the inbound rate of each partition that gains a replica, and read throttle rates.

    The rate is what the leader's log end grows within `MEASURED_S`, times the bytes of a message on
    its disk. It stays unknown for compacted topics, partitions of unknown size, and leaders that do
    not answer. Each leader gets two requests, each broker concerned one more.
    """
    growing = list(_growing(plan, seen))
    led: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for state in growing:
        if state.leader is not None and state.described:
            led[state.leader].append(state.tp)

    alive = seen.online
    begun, failed = await read_log_ends(reader, {b: led[b] for b in led if b in alive}, clock)
    if any(answer.offsets.ends for answer in begun.values()):
        await clock.sleep(MEASURED_S)
    again = {broker: led[broker] for broker in begun}
    ended, failed_later = await read_log_ends(reader, again, clock, starts=False)
    rates = {
        tp: rate
        for broker in ended
        for tp in led[broker]
        if (rate := _rate(tp, begun[broker], ended[broker], seen)) is not None
    }
    return msgspec.structs.replace(
        seen,
        inbound=rates,
        rates=await _rates(reader, alive & seen.broker_configs.keys()),
        failures=(*seen.failures, *failed, *failed_later),
    )


def _growing(plan: Plan, seen: ClusterSnapshot) -> Iterator[PartitionState]:
    rules = PlanRules(seen)
    for target in plan.partitions:
        state = rules.state(target.tp)
        if state is not None and not set(target.replicas) <= set(state.original):
            yield state


def _rate(tp: TopicPartition, first: LogEnds, last: LogEnds, seen: ClusterSnapshot) -> int | None:
    """The inbound bytes a second, rounded up; None where not known."""
    before, after = first.offsets.ends.get(tp), last.offsets.ends.get(tp)
    passed_s = last.at_s - first.at_s
    if before is None or after is None or after < before or passed_s <= 0.0:
        return None
    if after == before:
        return 0
    size, start = seen.size(tp), first.offsets.starts.get(tp)
    if not seen.configs.get(tp.topic, _ANY_TOPIC).offsets_measure_size:
        return None
    if not size or start is None or before <= start:
        return None
    return math.ceil((after - before) / passed_s * size / (before - start))


async def _rates(
    reader: ClusterReader, brokers: frozenset[int]
) -> Mapping[int, Mapping[str, Setting]]:
    resources = [broker_resource(broker) for broker in sorted(brokers)]
    answer = await reader.settings(resources, RATES)
    return {int(resource.name): settings for resource, settings in answer.settings.items()}


async def take_snapshot(
    reader: ClusterReader, plan: Plan, measuring: Clock | None = None
) -> ClusterSnapshot:
    """Read brokers, ongoing reassignments, and the partitions and settings of the plan's topics.

    Brokers concerned are asked for log dirs and settings, leaders for sizes and what they
    coordinate; one that does not answer is a failure of the snapshot. With `measuring`, inbound
    rates are measured too. Raises ClusterError where topics, brokers or reassignments cannot be
    read.
    """
    cluster = await reader.describe_cluster()
    listed = await reader.list_reassignments()
    topics = await _described(reader, {target.topic for target in plan.partitions})
    configs = await reader.topic_configs({tp.topic for tp in topics.partitions})
    led = _led(plan, topics.partitions)
    asked = {broker: led[broker] for broker in sorted(led.keys() & cluster.online)}
    named = _named_dirs(plan, topics.partitions)
    dirs, dirs_failed = await call_each_broker(
        Operation.LOG_DIRS,
        {b: reader.log_dirs(b, tps | named.get(b, set())) for b, tps in asked.items()},
    )
    settings, settings_failed = await call_each_broker(
        Operation.BROKER_CONFIGS, {broker: reader.broker_config(broker) for broker in asked}
    )
    coordinated, unlisted = await _coordinated(reader, plan, topics.partitions, cluster.online)
    seen = ClusterSnapshot(
        partitions=topics.partitions,
        brokers=cluster.brokers,
        cluster_id=cluster.cluster_id,
        unregistered=cluster.unregistered(
            broker for state in topics.partitions.values() for broker in state.replicas
        ),
        refuses_cordoned=cluster.refuses_cordoned,
        configs=configs.configs,
        listed=listed,
        topics=await topic_names(reader) if topics.absent else (),
        failures=(*topics.failures, *configs.failures, *dirs_failed, *settings_failed, *unlisted),
        denied_by_brokers=frozenset(configs.absent),
        sizes={
            Replica(tp, broker): size
            for broker, answer in dirs.items()
            for tp, size in answer.sizes.items()
        },
        held_in={
            Replica(tp, broker): dirs[broker].replicas[tp].path
            for broker, tps in named.items()
            if broker in dirs
            for tp in tps & dirs[broker].replicas.keys()
        },
        log_dirs={broker: answer.log_dirs for broker, answer in dirs.items()},
        broker_configs=settings,
        coordinated=coordinated,
    )
    return seen if measuring is None else await measure_inbound(reader, plan, seen, measuring)


async def _coordinated(
    reader: ClusterReader,
    plan: Plan,
    known: Mapping[TopicPartition, PartitionState],
    online: Collection[int],
) -> tuple[Mapping[CoordinatorKind, CoordinatedIds], Sequence[Failure]]:
    """Read what internal partitions coordinate whose leader moves."""
    moving = internal_leader_moves(plan, known)
    found: dict[CoordinatorKind, CoordinatedIds] = {}
    failures: list[Failure] = []
    for kind in CoordinatorKind:
        leaders = sorted({known[tp].leader or 0 for tp in moving if tp.topic == kind.topic})
        if not leaders:
            continue
        asked = sorted(online) if kind is CoordinatorKind.SHARE_GROUP else leaders
        calls = {b: reader.coordinated_ids(b, kind) for b in asked if b in online}
        answers, failed = await call_each_broker(kind.operation, calls)
        failures += failed
        if answers.keys() >= set(asked):
            ids = (one for broker in asked for one in answers[broker].ids)
            lacks = max(answer.lacks for answer in answers.values())
            found[kind] = CoordinatedIds(tuple(ids), lacks)
    return found, failures


async def _described(reader: ClusterReader, names: Collection[str]) -> TopicsAnswer:
    """Read partitions from metadata that is no older than the list, where possible."""
    try:
        return await reader.describe_topics(names, fresh=True)
    except (Unsupported, TimedOut):
        return await reader.describe_topics(names)


def _led(
    plan: Plan, known: Mapping[TopicPartition, PartitionState]
) -> Mapping[int, set[TopicPartition]]:
    led: dict[int, set[TopicPartition]] = {}
    for target in plan.partitions:
        state = known.get(target.tp)
        if state is None:
            continue
        for broker in (*state.replicas, *target.replicas):
            led.setdefault(broker, set())
        if state.leader is not None:
            led.setdefault(state.leader, set()).add(state.tp)
    return led


def _named_dirs(
    plan: Plan, known: Mapping[TopicPartition, PartitionState]
) -> Mapping[int, set[TopicPartition]]:
    named: dict[int, set[TopicPartition]] = {}
    for target in plan.partitions:
        state = known.get(target.tp)
        for broker, _ in target.named_log_dirs if state is not None else ():
            if state is not None and broker in state.replicas:
                named.setdefault(broker, set()).add(target.tp)
    return named


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Every partition that may be described, and the brokers, with what they tell of log dirs."""

    partitions: Mapping[TopicPartition, PartitionState]  # each with its reassignment
    pool: BrokerPool
    known: frozenset[int]  # every broker that is registered or has a replica, up or down
    unregistered: frozenset[int] = frozenset()  # of these, those Kafka refuses in targets
    log_dirs: Mapping[int, LogDirsAnswer] = {}
    failures: tuple[Failure, ...] = ()  # of brokers that do not tell of their log dirs

    @property
    def online(self) -> frozenset[int]:
        return self.pool.online

    def size_on(self, tp: TopicPartition, broker: int) -> int | None:
        answer = self.log_dirs.get(broker)
        held = None if answer is None else answer.replicas.get(tp)
        return None if held is None else held.size

    def leading_size(self, state: PartitionState) -> int | None:
        """Return the size of a partition at its leader, else the largest that is reported."""
        led = None if state.leader is None else self.size_on(state.tp, state.leader)
        sizes = (self.size_on(state.tp, broker) for broker in state.replicas)
        return max((s for s in sizes if s is not None), default=None) if led is None else led


async def read_placement(reader: ClusterReader) -> Placement:
    """Read all partitions, and log dirs with all replicas; the silent are not cordoned."""
    cluster, listed = await read_cluster_and_reassignments(reader)
    (answers, failures), states = await asyncio.gather(
        _log_dirs(reader, cluster, None), _partitions(reader)
    )
    known = {tp: moving for tp, moving in listed.items() if tp in states}
    replicas = _count(states)
    return Placement(
        partitions=with_reassignments(states, known),
        pool=_pool(cluster, answers, replicas),
        known=frozenset(cluster.brokers) | replicas.keys(),
        unregistered=cluster.unregistered(replicas),
        log_dirs=answers,
        failures=tuple(failures),
    )


async def read_pool(reader: ClusterReader) -> BrokerPool:
    """Read which brokers may get replicas, and how many each has; the silent are not cordoned."""
    cluster = await reader.describe_cluster()
    (answers, _), replicas = await asyncio.gather(_log_dirs(reader, cluster, ()), _census(reader))
    return _pool(cluster, answers, replicas)


def _pool(
    cluster: ClusterDescription, answers: Mapping[int, LogDirsAnswer], replicas: Counter[int]
) -> BrokerPool:
    return BrokerPool(
        online=cluster.online,
        cordoned=cordoned_brokers({b: answer.log_dirs for b, answer in answers.items()}),
        refuses_cordoned=bool(cluster.refuses_cordoned),
        racks={broker.id: broker.rack for broker in cluster.brokers.values()},
        replicas=replicas,
    )


async def _log_dirs(
    reader: ClusterReader, cluster: ClusterDescription, sized: Collection[TopicPartition] | None
) -> tuple[Mapping[int, LogDirsAnswer], Sequence[Failure]]:
    return await call_each_broker(
        Operation.LOG_DIRS, {broker: reader.log_dirs(broker, sized) for broker in cluster.online}
    )


async def _census(reader: ClusterReader) -> Counter[int]:
    counts: Counter[int] = Counter()
    async for page in reader.scan_topics():
        counts += _count(page.partitions)
    return counts


async def _partitions(reader: ClusterReader) -> dict[TopicPartition, PartitionState]:
    states: dict[TopicPartition, PartitionState] = {}
    async for page in reader.scan_topics():
        states.update(page.partitions)
    return states


def _count(states: Mapping[TopicPartition, PartitionState]) -> Counter[int]:
    return Counter(broker for state in states.values() for broker in state.replicas)
