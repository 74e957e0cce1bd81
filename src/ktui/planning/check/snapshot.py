"""A snapshot of the parts of a cluster that a plan concerns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ktui.cluster.clock import Clock
from ktui.cluster.coordination import CoordinatedIds, CoordinatorKind
from ktui.cluster.errors import Failure, Operation, TimedOut, Unsupported
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.polled import topic_names
from ktui.cluster.ports import ClusterReader, TopicsAnswer
from ktui.planning.check.coordinators import internal_leader_moves
from ktui.planning.check.disks import call_each_broker
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.measure_growth import measure_inbound
from ktui.planning.plan import Plan


async def take_snapshot(
    reader: ClusterReader, plan: Plan, measuring: Clock | None = None
) -> ClusterSnapshot:
    """Read brokers, ongoing reassignments, and the partitions and settings of the plan's topics.

    Brokers that have, gain or lose replicas are also asked for log dirs and settings. Leaders
    report the sizes of their partitions in the plan, and what they coordinate where leaders of
    internal topics move. A broker that does not answer is a failure of
    the snapshot.

    Args:
        reader: the cluster.
        plan: the plan to check.
        measuring: a clock for also measuring inbound rates, to judge a throttle; see
            `measure_inbound`.

    Raises:
        ClusterError: brokers, reassignments, partitions or topic settings cannot be read at all.
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
        failures=(
            *topics.failures,
            *configs.failures,
            *dirs_failed,
            *settings_failed,
            *unlisted,
        ),
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
    """Read what the leaders of internal partitions coordinate that get another leader.

    A share group's coordinator knows what the group has state of, wherever that is kept.
    """
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
    """For every broker that the plan concerns, the plan's partitions that the broker leads."""
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
    """For every broker, its present replicas for which the plan names a log dir."""
    named: dict[int, set[TopicPartition]] = {}
    for target in plan.partitions:
        state = known.get(target.tp)
        for broker, _ in target.named_log_dirs if state is not None else ():
            if state is not None and broker in state.replicas:
                named.setdefault(broker, set()).add(target.tp)
    return named
