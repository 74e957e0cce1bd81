"""Make the twin of a cluster of which everything has been read: a pure function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from ktui.cluster.coordination import INTERNAL_TOPICS
from ktui.cluster.partition import PartitionState
from ktui.cluster.ports import ClusterDescription
from ktui.cluster.simulated_id import SIMULATED
from ktui.planning.check.placement import PlacementAnswer
from ktui.planning.names import join_some
from ktui.quantities import as_count
from ktui.simulated.controller import schema
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from ktui.simulated.scenario.record import SnapshotInfo, SnapshotRates
from ktui.simulated.twin.brokers import SESSION_TIMEOUT, TwinSettings, broker_spec, loads_of
from ktui.simulated.twin.scope import Scope
from ktui.simulated.twin.topics import (
    Replicas,
    TopicRead,
    led_by_nobody,
    moves_nothing,
    topic_spec,
)

_MOST_NAMED = 5

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


class ClusterRead(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a cluster at one moment."""

    cluster: ClusterDescription
    answer: PlacementAnswer
    scope: Scope
    written: Mapping[str, Sequence[float | None]]
    """Bytes a second to each partition of a topic; None where not known."""
    measured: bool
    """Whether anybody measured what producers write."""
    message_sizes: Mapping[str, int | None]
    """The average bytes of a topic's messages; None where nothing tells."""
    settings: TwinSettings


def make_twin(
    read: ClusterRead,
    *,
    taken: datetime,
    rates: SnapshotRates,
    version: str | None = None,
    hide: Hide = keep,
) -> ClusterTwin:
    """Make the twin of a cluster.

    Args:
        taken: when it was read; aware.
        version: the Kafka version of its brokers, if known. From 4.3 on the rules in force decide:
            an upgraded cluster keeps the old ones until its metadata.version is raised.
    """
    info = SnapshotInfo(cluster=hide("cluster", read.cluster.cluster_id), taken=taken, rates=rates)
    topics = tuple(sorted(_topics(read, hide), key=lambda topic: topic.name))
    online, shared = read.answer.placement.pool.online, read.settings.all_brokers
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
    replicas = Replicas(read.answer.placement.pool.online, read.answer.log_dirs)
    for name, states in read.scope.topics.items():
        known = TopicRead(
            name=name if name in INTERNAL_TOPICS else hide("topic", name),
            states=states,
            message_size=read.message_sizes.get(name),
            inbound=read.written[name],
            configs=read.settings.topics.get(name, {}),
        )
        yield topic_spec(known, replicas)


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
