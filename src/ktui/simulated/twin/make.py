"""Make the twin of a cluster of which everything, or a plan's part, has been read: pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.coordination import INTERNAL_TOPICS
from ktui.cluster.errors import Failure, NotAuthorized
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader
from ktui.cluster.text import SIMULATED
from ktui.planning.check.snapshot import Placement, PlacementAnswer, read_with_log_dirs
from ktui.planning.plan import Plan, join_some
from ktui.quantities import as_count
from ktui.simulated.controller import schema
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from ktui.simulated.scenario.file import SnapshotInfo, SnapshotRates
from ktui.simulated.scenario.world import MOST_BROKERS, MOST_PARTITIONS, MOST_REPLICAS
from ktui.simulated.twin.brokers import (
    SESSION_TIMEOUT,
    TwinSettings,
    broker_spec,
    loads_of,
    read_settings,
)
from ktui.simulated.twin.topics import (
    Moment,
    TopicRead,
    inbound,
    led_by_nobody,
    message_size,
    moves_nothing,
    read_moment,
    topic_spec,
)


class CannotSnapshot(Exception):
    """No twin can be made of a cluster; the message says why, and what to do."""


class Scope(msgspec.Struct, frozen=True):
    """The topics and the brokers of a snapshot."""

    topics: Mapping[str, tuple[PartitionState, ...]]
    brokers: tuple[int, ...]
    incomplete: tuple[str, ...] = ()


def scope_of(placement: Placement, plan: Plan | None) -> Scope:
    """Return what a snapshot has: topics are whole."""
    by_topic: dict[str, list[PartitionState]] = {}
    for tp in sorted(placement.partitions):
        by_topic.setdefault(tp.topic, []).append(placement.partitions[tp])
    brokers = set(placement.brokers)
    if plan is not None:
        _check_topics(plan, by_topic)
        touched = _touched(plan, placement.partitions)
        by_topic = {
            topic: states
            for topic, states in by_topic.items()
            if any(not touched.isdisjoint(state.replicas) for state in states)
        }
        theirs = {b for states in by_topic.values() for state in states for b in state.replicas}
        brokers = touched & placement.brokers | theirs
    incomplete = tuple(topic for topic, states in by_topic.items() if not _whole(states))
    whole = {topic: tuple(s) for topic, s in by_topic.items() if topic not in incomplete}
    scope = Scope(whole, tuple(sorted(brokers)), incomplete)
    _check_room(scope)
    return scope


def _check_topics(plan: Plan, known: Mapping[str, object]) -> None:
    missing = dict.fromkeys(each.topic for each in plan.partitions if each.topic not in known)
    if missing:
        raise CannotSnapshot(
            f"the cluster does not show topics of the plan: {join_some([*missing], most=10)}. They "
            "do not exist, or Describe on them is not granted. See: ktui plan check PLAN"
        )


def _touched(plan: Plan, known: Mapping[TopicPartition, PartitionState]) -> set[int]:
    touched: set[int] = set()
    for target in plan.partitions:
        state = known.get(target.tp)
        touched.update(target.replicas, () if state is None else state.replicas)
    return touched


def _whole(states: list[PartitionState]) -> bool:
    numbers = [state.tp.partition for state in states]
    return numbers[0] == 0 and all(b == a + 1 for a, b in pairwise(numbers))


def _check_room(scope: Scope) -> None:
    states = [state for states in scope.topics.values() for state in states]
    for count, most, noun in (
        (len(scope.brokers), MOST_BROKERS, "brokers"),
        (len(states), MOST_PARTITIONS, "partitions"),
        (sum(len(state.replicas) for state in states), MOST_REPLICAS, "replicas"),
    ):
        if count > most:
            raise CannotSnapshot(
                f"that would be {count:,} {noun}, and a snapshot may have {most:,}. Name a plan: "
                "the snapshot then has only what shares the plan's brokers"
            )


_MOST_NAMED = 5

Hide = Callable[[str, str], str]  # kind (`topic`, `rack`, `cluster`) and name to another


def keep(_kind: str, name: str) -> str:
    """Return the name itself: nothing is hidden."""
    return name


class ClusterTwin(msgspec.Struct, frozen=True, kw_only=True):
    """A real cluster as a simulated one can begin with it."""

    spec: ClusterSpec
    info: SnapshotInfo
    notes: tuple[str, ...] = ()  # what is assumed or left out, a sentence each; with real names


class ClusterRead(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a cluster at one moment."""

    cluster: ClusterDescription
    answer: PlacementAnswer
    scope: Scope
    written: Mapping[str, Sequence[float | None]]  # bytes a second
    measured: bool
    message_sizes: Mapping[str, int | None]
    settings: TwinSettings


def make_twin(
    read: ClusterRead,
    *,
    taken: datetime,
    rates: SnapshotRates,
    version: str | None = None,
    hide: Hide = keep,
) -> ClusterTwin:
    """Make the twin of a cluster; from 4.3 on its rules decide, not the `version` of brokers."""
    info = SnapshotInfo(cluster=hide("cluster", read.cluster.cluster_id), taken=taken, rates=rates)
    topics = tuple(sorted(_topics(read, hide), key=lambda topic: topic.name))
    online, shared = read.answer.online, read.settings.all_brokers
    down = frozenset(read.scope.brokers) - online
    spec = ClusterSpec(
        brokers=tuple(_brokers(read, topics, down, info.rates, hide)),
        topics=topics,
        version=_version(read.cluster, version),
        name=f"{SIMULATED}-{info.cluster}",
        session_timeout_s=float(shared.get(SESSION_TIMEOUT, 9_000)) / 1_000,
        copy_start_s=_COPY_START_S,
        lag_time_max_s=float(shared.get(schema.LAG_TIME, 30_000)) / 1_000,
        auto_leader_rebalance=shared.get(schema.REBALANCE, "true") == "true",
        rebalance_interval_s=max(1.0, float(shared.get(schema.REBALANCE_INTERVAL, 300))),
        broker_configs={key: value for key, value in shared.items() if key not in _OWN_FIELDS},
    )
    return ClusterTwin(spec=spec, info=info, notes=tuple(_notes(read)))


_COPY_START_S = 0.35
"""A follower learns of a replica in a tenth of a second. A fetch that waits for data takes up to
0.5 s (replica.fetch.wait.max.ms), in the mean a half of that."""
_OWN_FIELDS = (SESSION_TIMEOUT, schema.LAG_TIME, schema.REBALANCE, schema.REBALANCE_INTERVAL)


def _topics(read: ClusterRead, hide: Hide) -> Iterator[TopicSpec]:
    for name, states in read.scope.topics.items():
        known = TopicRead(
            name=name if name in INTERNAL_TOPICS else hide("topic", name),
            states=states,
            message_size=read.message_sizes.get(name),
            inbound=read.written[name],
            configs=read.settings.topics.get(name, {}),
        )
        yield topic_spec(known, read.answer)


def _brokers(
    read: ClusterRead,
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


def _version(cluster: ClusterDescription, of_brokers: str | None) -> str:
    """Return the version that behaves as the cluster does: the newest, unless brokers tell it."""
    if cluster.refuses_cordoned:
        return "4.4"
    if not cluster.waits_for_kept:
        return "4.3"
    if of_brokers is None or of_brokers in ("4.3", "4.4"):
        return "4.2" if cluster.reports_fenced else "4.0"
    return of_brokers


def _notes(read: ClusterRead) -> Iterator[str]:
    online = read.answer.online
    states = [state for states in read.scope.topics.values() for state in states]
    yield from (failure.sentence for failure in read.answer.failures)
    yield from read.settings.notes
    if read.scope.incomplete:
        names = join_some(read.scope.incomplete, most=_MOST_NAMED)
        yield f"left out, for not all of their partitions are shown: {names}"
    unsized = [state for state in states if read.answer.leading_size(state) is None]
    if unsized:
        yield f"{_partitions(unsized)}: no broker reports the size, and 1 GiB is assumed"
    if not read.measured:
        yield "inbound rates are not measured, so nothing is written to the twin's partitions"
    else:
        unmeasured = [
            state
            for topic, of in read.scope.topics.items()
            for state, rate in zip(of, read.written[topic], strict=True)
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

    The state is of the end of `measure_s`. Raises CannotSnapshot or ClusterError.
    """
    read = await _read(reader, clock, plan, measure_s)
    return make_twin(
        read, taken=clock.now(), rates=rates(read.cluster.cluster_id), version=version, hide=hide
    )


async def _read(
    reader: ClusterReader, clock: Clock, plan: Plan | None, measure_s: float
) -> ClusterRead:
    first = None
    if measure_s > 0:
        *_, first = await _look(reader, clock, plan)
        await clock.sleep(measure_s)
    answer, scope, last = await _look(reader, clock, plan)
    cluster = await reader.describe_cluster()
    configs = (await reader.topic_configs(scope.topics)).configs
    compacted = frozenset(name for name, each in configs.items() if each.compacted)
    online = answer.online
    up = [broker for broker in scope.brokers if broker in online]
    dirs = {b: answer.log_dirs[b].log_dirs if b in answer.log_dirs else () for b in up}
    return ClusterRead(
        cluster=cluster,
        answer=answer,
        scope=scope,
        written={
            topic: _written(states, first, last, compacted=topic in compacted)
            for topic, states in scope.topics.items()
        },
        measured=first is not None,
        message_sizes={
            topic: None if topic in compacted else message_size(states, last)
            for topic, states in scope.topics.items()
        },
        settings=await read_settings(reader, scope.topics, up, dirs),
    )


def _written(
    states: Sequence[PartitionState], first: Moment | None, last: Moment, *, compacted: bool
) -> Sequence[float | None]:
    if first is None:
        return [0.0] * len(states)
    return [*inbound(states, first, last, compacted=compacted)]


async def _look(
    reader: ClusterReader, clock: Clock, plan: Plan | None
) -> tuple[PlacementAnswer, Scope, Moment]:
    answer = await read_with_log_dirs(reader, None)
    _check_permitted(answer.failures)
    scope = scope_of(answer.placement, plan)
    states = [state for states in scope.topics.values() for state in states]
    sizes = {state.tp: size for state in states if (size := answer.leading_size(state)) is not None}
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
