"""Make the twin of a cluster of which everything, or a part, has been read; as a file, too."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

import msgspec

from ktui.cluster.broker import INTERNAL_TOPICS
from ktui.cluster.clock import Clock
from ktui.cluster.errors import Failure, NotAuthorized
from ktui.cluster.partition import Brokers, PartitionState, Replica, TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader
from ktui.cluster.text import SIMULATED
from ktui.planning.check.snapshot import Placement, read_placement
from ktui.planning.plan import Plan, join_some
from ktui.quantities import as_count, as_size
from ktui.simulated.controller import schema
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from ktui.simulated.scenario.file import SnapshotInfo, SnapshotRates
from ktui.simulated.scenario.world import MOST_BROKERS, MOST_PARTITIONS, MOST_REPLICAS
from ktui.simulated.twin_parts import (
    SESSION_TIMEOUT,
    Moment,
    TwinSettings,
    broker_spec,
    inbound,
    led_by_nobody,
    loads_of,
    message_size,
    moves_nothing,
    read_moment,
    read_settings,
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
    brokers = set(placement.known)
    if plan is not None:
        _check_topics(plan, by_topic)
        touched = _touched(plan, placement.partitions)
        by_topic = {
            topic: states
            for topic, states in by_topic.items()
            if any(not touched.isdisjoint(state.replicas) for state in states)
        }
        theirs = {b for states in by_topic.values() for state in states for b in state.replicas}
        brokers = touched & placement.known | theirs
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
    placement: Placement
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
    online, shared = read.placement.online, read.settings.all_brokers
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
        yield topic_spec(
            name if name in INTERNAL_TOPICS else hide("topic", name),
            states,
            read.placement,
            message_size=read.message_sizes.get(name),
            inbound=read.written[name],
            configs=read.settings.topics.get(name, {}),
        )


def _brokers(
    read: ClusterRead,
    topics: Sequence[TopicSpec],
    down: frozenset[int],
    rates: SnapshotRates,
    hide: Hide,
) -> Iterator[BrokerSpec]:
    loads, racks = loads_of(topics, down), read.placement.pool.racks
    for broker in read.scope.brokers:
        rack, answer = racks.get(broker), read.placement.log_dirs.get(broker)
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
    online = read.placement.online
    states = [state for states in read.scope.topics.values() for state in states]
    yield from (failure.sentence for failure in read.placement.failures)
    yield from read.settings.notes
    if read.scope.incomplete:
        names = join_some(read.scope.incomplete, most=_MOST_NAMED)
        yield f"left out, for not all of their partitions are shown: {names}"
    unsized = [state for state in states if read.placement.leading_size(state) is None]
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
    placement, scope, last = await _look(reader, clock, plan)
    cluster = await reader.describe_cluster()
    configs = (await reader.topic_configs(scope.topics)).configs
    compacted = frozenset(name for name, each in configs.items() if each.compacted)
    up = [broker for broker in scope.brokers if broker in placement.online]
    dirs = {b: placement.log_dirs[b].log_dirs if b in placement.log_dirs else () for b in up}
    return ClusterRead(
        cluster=cluster,
        placement=placement,
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
) -> tuple[Placement, Scope, Moment]:
    placement = await read_placement(reader)
    _check_permitted(placement.failures)
    scope = scope_of(placement, plan)
    states = [state for states in scope.topics.values() for state in states]
    sizes = {
        state.tp: size for state in states if (size := placement.leading_size(state)) is not None
    }
    return placement, scope, await read_moment(reader, states, sizes, clock)


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


_WIDTH = 100
_HEAD = "# Taken by `ktui snapshot`. To play it: ktui demo FILE"


def twin_text(twin: ClusterTwin, title: str, about: str) -> str:
    """Return the text of a scenario file that has the twin as its cluster."""
    lines = [_HEAD, f"title: {_quoted(title)}", f"about: {_quoted(about)}"]
    lines += _snapshot(twin.info)
    lines += _cluster(twin.spec)
    lines.append("topics:" if twin.spec.topics else "topics: {}")
    down = frozenset(broker.id for broker in twin.spec.brokers if broker.down)
    for topic in twin.spec.topics:
        lines += _topic(topic, down)
    return "\n".join(lines) + "\n"


def _snapshot(info: SnapshotInfo) -> Iterator[str]:
    rates = info.rates
    taken = info.taken.astimezone(UTC).isoformat().replace("+00:00", "Z")
    yield "snapshot:"
    yield f"  cluster: {_quoted(info.cluster)}"
    yield f"  taken: {_quoted(taken)}"
    figures = [f"{name}: {_rate(getattr(rates, name))}" for name in ("slow", "usual", "fast")]
    if rates.half_at:
        figures.append(f"half-at: {_number(rates.half_at)}")
    if rates.most_at is not None:
        figures.append(f"most-at: {rates.most_at}")
    if rates.throttled != 1:
        figures.append(f"throttled: {_number(rates.throttled)}")
    yield f"  rates: {{{', '.join(figures)}, from: {rates.source.value}}}"


def _cluster(spec: ClusterSpec) -> Iterator[str]:
    yield "cluster:"
    yield f"  version: {_quoted(spec.version)}"
    yield f"  name: {_quoted(spec.name)}"
    yield f"  session-timeout: {_number(spec.session_timeout_s)}"
    if spec.copy_start_s:
        yield f"  copy-start: {_number(spec.copy_start_s)}"
    yield f"  replica-lag-time: {_number(spec.lag_time_max_s)}"
    yield f"  auto-leader-rebalance: {str(spec.auto_leader_rebalance).lower()}"
    yield f"  rebalance-interval: {_number(spec.rebalance_interval_s)}"
    yield f"  configs: {_map(spec.broker_configs)}"
    yield "  brokers:"
    for broker in spec.brokers:
        yield f"    - {{{', '.join(_broker(broker))}}}"


def _broker(spec: BrokerSpec) -> Iterator[str]:
    yield f"id: {spec.id}"
    if spec.rack is not None:
        yield f"rack: {_quoted(spec.rack)}"
    if spec.down:
        yield "down: true"
    yield f"network-in: {_rate(spec.net_in)}"
    yield f"network-out: {_rate(spec.net_out)}"
    yield f"disk-write: {_rate(spec.disk_write)}"
    yield f"copy-in: {_rate(spec.copy_in)}"
    if spec.copy_half_at:
        yield f"copy-half-at: {_number(spec.copy_half_at)}"
    if spec.copy_most_at < math.inf:
        yield f"copy-most-at: {_number(spec.copy_most_at)}"
    if spec.throttle_share != 1:
        yield f"throttle-share: {_number(spec.throttle_share)}"
    yield f"disk: {as_size(spec.disk_bytes)}"
    if spec.configs:
        yield f"configs: {_map(spec.configs)}"


def _topic(topic: TopicSpec, down: frozenset[int]) -> Iterator[str]:
    yield f"  {_quoted(topic.name)}:"
    yield from _words("replicas", (_listed(replicas) for replicas in topic.replicas))
    yield from _words("size", map(str, topic.sizes or (topic.bytes_each,)))
    rates = topic.inbounds or (topic.inbound,)
    yield from _words("inbound", (_number(rate) for rate in rates))
    yield f"    message-size: {topic.message_bytes}"
    if topic.configs:
        yield f"    configs: {_map(topic.configs)}"
    start = topic.start
    yield from _words("reassigning", _entries(start.reassigning))
    yield from _words("isr", _entries(start.isr))
    yield from _words("leaders", _entries({n: (b,) for n, b in start.leaders.items()}))
    yield from _words("held", _held(topic, down))


def _words(key: str, words: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a key whose value is a text of words; nothing without any."""
    line = f"    {key}:"
    for word in words:
        if len(line) + len(word) >= _WIDTH:
            yield line
            line = "     "
        line += f" {word}"
    if not line.endswith(":"):
        yield line


def _entries(of: Mapping[int, Brokers]) -> Iterator[str]:
    return (f"{number}={_listed(brokers)}" for number, brokers in sorted(of.items()))


def _held(topic: TopicSpec, down: frozenset[int]) -> Iterator[str]:
    """Yield what replicas out of sync hold, without those that a reader of the file knows of."""
    by_number: dict[int, dict[int, int]] = {}
    for replica, size in sorted(topic.start.held.items()):
        if not _known(topic, replica, size, down):
            by_number.setdefault(replica.tp.partition, {})[replica.broker] = size
    for number, sizes in by_number.items():
        yield f"{number}={','.join(f'{broker}:{size}' for broker, size in sizes.items())}"


def _known(topic: TopicSpec, replica: Replica, size: int, down: frozenset[int]) -> bool:
    number = replica.tp.partition
    had = replica.broker in down and replica.broker in topic.replicas[number]
    return had and size == topic.size(number)


def _listed(brokers: Brokers) -> str:
    return ",".join(map(str, brokers))


def _rate(bytes_s: float) -> str:
    return f"{as_size(round(bytes_s))}/s"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _map(values: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{_quoted(k)}: {_quoted(v)}' for k, v in values.items())}}}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
