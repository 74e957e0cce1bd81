"""Take a snapshot: read a cluster, and make its twin. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.errors import Failure, NotAuthorized
from ktui.cluster.internal_topics import INTERNAL_TOPICS
from ktui.cluster.partition import PartitionState
from ktui.cluster.ports import ClusterDescription, ClusterReader
from ktui.planning.check.placement import PlacementAnswer, read_with_log_dirs
from ktui.planning.names import join_some
from ktui.planning.plan import Plan
from ktui.quantities import as_count
from ktui.simulated.controller import schema
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from ktui.simulated.scenario.record import SnapshotInfo, SnapshotRates
from ktui.simulated.twin.brokers import broker_spec, loads_of
from ktui.simulated.twin.scope import Scope, scope_of
from ktui.simulated.twin.settings import SESSION_TIMEOUT, TwinSettings, read_settings
from ktui.simulated.twin.topics import (
    Replicas,
    TopicRead,
    led_by_nobody,
    moves_nothing,
    topic_spec,
)
from ktui.simulated.twin.traffic import Moment, inbound, message_size, read_moment

SIMULATED = "simulated"
"""The first word of a twin's cluster id, so that no twin passes for the real cluster."""
_MOST_NAMED = 5
_Inbound = Mapping[str, Sequence[float | None]]
"""Bytes a second to each partition, by topic; None where not known."""

Hide = Callable[[str, str], str]
"""Returns what stands for a name of some kind: of a `topic`, a `rack` or the `cluster`."""


def keep(_kind: str, name: str) -> str:
    """Return the name itself: nothing is hidden."""
    return name


class ClusterTwin(msgspec.Struct, frozen=True, kw_only=True):
    """A real cluster as a simulated one can begin with it."""

    spec: ClusterSpec
    info: SnapshotInfo
    notes: tuple[str, ...] = ()
    """What is assumed, and what is left out, a sentence each; with the real names."""


class _Reading(msgspec.Struct, frozen=True, kw_only=True):
    """All that has been read of a cluster."""

    cluster: ClusterDescription
    answer: PlacementAnswer
    scope: Scope
    first: Moment | None
    """None without a measurement."""
    last: Moment
    compacted: frozenset[str]
    settings: TwinSettings


async def take_twin(
    reader: ClusterReader,
    clock: Clock,
    *,
    rates: Callable[[str], SnapshotRates],
    plan: Plan | None = None,
    measure_s: float = 60.0,
    version: str | None = None,
    hide: Hide = keep,
) -> ClusterTwin:
    """Read a cluster, or the part that shares the brokers of a plan, and make its twin.

    The state is that of the end of the measurement.

    Args:
        reader: the cluster.
        clock: the clock of the measurement, and of the snapshot's time.
        rates: returns how fast brokers take copies in, for the id of the cluster.
        plan: the plan; None for the whole cluster.
        measure_s: how long inbound rates are measured; 0 for not at all.
        version: the cluster's Kafka version, if that is known; else what it supports tells it.
        hide: hides names.

    Raises:
        CannotSnapshot: there is no twin of this cluster.
        ClusterError: the cluster cannot be read, or sizes may not be.
    """
    read = await _read(reader, clock, plan, measure_s)
    info = SnapshotInfo(
        cluster=hide("cluster", read.cluster.cluster_id),
        taken=clock.now(),
        rates=rates(read.cluster.cluster_id),
    )
    written = {topic: _inbound(read, topic, of) for topic, of in read.scope.topics.items()}
    topics = tuple(sorted(_topics(read, written, hide), key=lambda topic: topic.name))
    online, shared = read.answer.placement.pool.online, read.settings.all_brokers
    down = frozenset(read.scope.brokers) - online
    spec = ClusterSpec(
        brokers=tuple(_brokers(read, topics, down, info.rates, hide)),
        topics=topics,
        version=version or _version(read.cluster),
        name=f"{SIMULATED}-{info.cluster}",
        session_timeout_s=float(shared.get(SESSION_TIMEOUT, 9_000)) / 1_000,
        copy_start_s=_COPY_START_S,
        lag_time_max_s=float(shared.get(schema.LAG_TIME, 30_000)) / 1_000,
        auto_leader_rebalance=shared.get(schema.REBALANCE, "true") == "true",
        rebalance_interval_s=max(1.0, float(shared.get(schema.REBALANCE_INTERVAL, 300))),
        broker_configs={key: value for key, value in shared.items() if key not in _OWN_FIELDS},
    )
    return ClusterTwin(spec=spec, info=info, notes=tuple(_notes(read, written)))


_COPY_START_S = 0.35
"""A follower learns of a replica in a tenth of a second. A fetch that waits for data takes up to
0.5 s (replica.fetch.wait.max.ms), in the mean a half of that."""
_OWN_FIELDS = (SESSION_TIMEOUT, schema.LAG_TIME, schema.REBALANCE, schema.REBALANCE_INTERVAL)


async def _read(
    reader: ClusterReader, clock: Clock, plan: Plan | None, measure_s: float
) -> _Reading:
    first = None
    if measure_s > 0:
        *_, first = await _look(reader, clock, plan)
        await clock.sleep(measure_s)
    answer, scope, last = await _look(reader, clock, plan)
    cluster = await reader.describe_cluster()
    configs = await reader.topic_configs(scope.topics)
    online = answer.placement.pool.online
    up = [broker for broker in scope.brokers if broker in online]
    dirs = {b: answer.log_dirs[b].log_dirs if b in answer.log_dirs else () for b in up}
    return _Reading(
        cluster=cluster,
        answer=answer,
        scope=scope,
        first=first,
        last=last,
        compacted=frozenset(n for n, each in configs.configs.items() if each.compacted),
        settings=await read_settings(reader, scope.topics, up, dirs),
    )


async def _look(
    reader: ClusterReader, clock: Clock, plan: Plan | None
) -> tuple[PlacementAnswer, Scope, Moment]:
    """Read the state of the cluster, and the ends of its logs."""
    answer = await read_with_log_dirs(reader, None)
    _check_permitted(answer.failures)
    scope = scope_of(answer.placement, plan)
    replicas = Replicas(answer.placement.pool.online, answer.log_dirs)
    states = [state for states in scope.topics.values() for state in states]
    sizes = {
        state.tp: size for state in states if (size := replicas.leading_size(state)) is not None
    }
    return answer, scope, await read_moment(reader, states, sizes, clock)


def _check_permitted(failures: Sequence[Failure]) -> None:
    denied = [failure for failure in failures if failure.denied]
    if denied:
        operation, resource = denied[0].operation.needs
        raise NotAuthorized(
            "reading how large partitions are",
            where=f"broker {denied[0].broker}",
            fix=f"A twin needs the sizes. Grant {operation} on the {resource.lower()}",
            needs=f"{operation} on the {resource.lower()}",
        )


def _topics(read: _Reading, written: _Inbound, hide: Hide) -> Iterator[TopicSpec]:
    replicas = Replicas(read.answer.placement.pool.online, read.answer.log_dirs)
    for name, states in read.scope.topics.items():
        compacted = name in read.compacted
        known = TopicRead(
            name=name if name in INTERNAL_TOPICS else hide("topic", name),
            states=states,
            message_size=None if compacted else message_size(states, read.last),
            inbound=written[name],
            configs=read.settings.topics.get(name, {}),
        )
        yield topic_spec(known, replicas)


def _inbound(
    read: _Reading, topic: str, states: Sequence[PartitionState]
) -> Sequence[float | None]:
    if read.first is None:
        return [0.0] * len(states)
    return [*inbound(states, read.first, read.last, compacted=topic in read.compacted)]


def _brokers(
    read: _Reading,
    topics: Sequence[TopicSpec],
    down: frozenset[int],
    rates: SnapshotRates,
    hide: Hide,
) -> Iterator[BrokerSpec]:
    loads, racks = loads_of(topics, down), read.answer.placement.pool.racks
    for broker in read.scope.brokers:
        rack, answer = racks.get(broker), read.answer.log_dirs.get(broker)
        spec = broker_spec(
            broker,
            rack=None if rack is None else hide("rack", rack),
            log_dirs=None if answer is None else answer.log_dirs,
            configs=read.settings.brokers.get(broker, {}),
            loads=loads,
            rates=rates,
        )
        yield msgspec.structs.replace(spec, down=broker in down)


def _version(cluster: ClusterDescription) -> str:
    """Return the newest version that behaves as the cluster does."""
    if not cluster.waits_for_kept:
        return "4.3"
    return "4.2" if cluster.reports_fenced else "4.0"


def _notes(read: _Reading, written: _Inbound) -> Iterator[str]:
    online = read.answer.placement.pool.online
    states = [state for states in read.scope.topics.values() for state in states]
    replicas = Replicas(online, read.answer.log_dirs)
    yield from (failure.sentence for failure in read.answer.failures)
    yield from read.settings.notes
    if read.scope.incomplete:
        names = join_some(read.scope.incomplete, most=_MOST_NAMED)
        yield f"left out, for not all of their partitions are shown: {names}"
    unsized = [state for state in states if replicas.leading_size(state) is None]
    if unsized:
        yield f"{_partitions(unsized)}: no broker reports the size, and 1 GiB is assumed"
    if read.first is None:
        yield "inbound rates are not measured, so nothing is written to the twin's partitions"
    else:
        unmeasured = [
            state
            for topic, of in read.scope.topics.items()
            for state, rate in zip(of, written[topic], strict=True)
            if rate is None
        ]
        if unmeasured:
            yield f"{_partitions(unmeasured)}: the inbound rate is not known, and 0 is assumed"
    if hanging := [state for state in states if moves_nothing(state)]:
        yield f"{_partitions(hanging)}: a reassignment that changes nothing is left out"
    if leaderless := [state for state in states if led_by_nobody(state, online)]:
        yield f"{_partitions(leaderless)}: no leader, though brokers are up; the twin has one"


def _partitions(states: Sequence[PartitionState]) -> str:
    names = join_some([str(state.tp) for state in states], most=_MOST_NAMED)
    return f"{as_count(len(states), 'partition')} ({names})"
