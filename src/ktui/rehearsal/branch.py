"""The twin of a moment of a recording: what was polled, and what the runs knew of the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ktui.cluster.broker import BrokerConfig, ReplicaDir, TopicConfig
from ktui.cluster.observation import Observation
from ktui.cluster.partition import Brokers, PartitionState, Replica, TopicPartition
from ktui.cluster.ports import ClusterDescription, ConfigScope, LogDirsAnswer
from ktui.cluster.settings import (
    CORDONED,
    EVERY,
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
    RATE_FIELDS,
)
from ktui.execution.run.run import Run
from ktui.planning.check.snapshot import Placement
from ktui.planning.replication_factor import BrokerPool
from ktui.progress.timeline import Progress
from ktui.quantities import as_count
from ktui.rehearsal.compare import BranchPoint, left_out
from ktui.simulated.controller import schema
from ktui.simulated.scenario.file import RatesFrom, SnapshotRates
from ktui.simulated.twin import ClusterRead, ClusterTwin, make_twin, scope_of
from ktui.simulated.twin_parts import TwinSettings, rates_of


def settings_at(seen: Observation, runs: Iterable[Run]) -> TwinSettings:
    """Return the settings that were polled, and those that the runs have set elsewhere."""
    topics = {name: dict(_of_topic(config)) for name, config in sorted(seen.topic_configs.items())}
    configs = sorted(seen.broker_configs.items())
    brokers = {id_: _settings(config, _OF_BROKER) for id_, config in configs}
    for id_ in sorted(seen.cordoned):
        brokers.setdefault(id_, {})[CORDONED] = EVERY
    for run in runs:
        for (resource, key), ours in run.throttled.changed.items():
            value = ",".join(sorted(ours.values))
            if not value:
                continue
            if resource.scope is ConfigScope.TOPIC and resource.name not in seen.topic_configs:
                topics.setdefault(resource.name, {})[key] = value
            elif resource.scope is ConfigScope.BROKER and len(ours.values) == 1:
                brokers.setdefault(int(resource.name), {}).setdefault(key, value)
    shared: dict[str, str] = {}
    for config in seen.broker_configs.values():
        found = _settings(config, _OF_ALL)
        shared |= {key: value for key, value in found.items() if key not in shared}
    if any(config.tiered for config in seen.topic_configs.values()):
        shared[schema.TIERING] = "true"
    return TwinSettings(topics=topics, brokers=brokers, all_brokers=shared, notes=())


def _of_topic(config: TopicConfig) -> Iterator[tuple[str, str]]:
    yield schema.MIN_ISR, str(config.min_insync_replicas)
    if config.compacted:
        yield schema.CLEANUP, "compact"
    if config.tiered:
        yield schema.TIERED, "true"
    if config.leader_throttled_replicas:
        yield LEADER_REPLICAS, config.leader_throttled_replicas
    if config.follower_throttled_replicas:
        yield FOLLOWER_REPLICAS, config.follower_throttled_replicas


_OF_BROKER = {**RATE_FIELDS, LOG_DIR_RATE: "log_dir_throttle_rate"}
_OF_ALL = {
    schema.REBALANCE: "auto_leader_rebalance",
    schema.UNCLEAN: "unclean_leader_election",
    schema.MIN_ISR: "min_insync_replicas",
    schema.REBALANCE_INTERVAL: "leader_imbalance_check_interval_s",
    schema.FETCH_BACKOFF: "fetch_backoff_ms",
    schema.LAG_TIME: "replica_lag_time_max_ms",
}
"""The fields of `BrokerConfig` by the names of settings: of one broker, and the same on all."""


def _settings(config: BrokerConfig, fields: Mapping[str, str]) -> dict[str, str]:
    values = {key: getattr(config, field) for key, field in fields.items()}
    return {key: str(value).lower() for key, value in values.items() if value is not None}


_States = Mapping[TopicPartition, PartitionState]


def twin_at(point: BranchPoint, otherwise: SnapshotRates) -> ClusterTwin:
    """Make the twin of a moment of a recording, with `otherwise` where it shows no rates.

    Partitions that were not polled then are as their run knew them. Topics keep their ids. Raises
    CannotSnapshot: too much for a simulated cluster; ValueError: nothing was polled before.
    """
    seen = point.progress.last
    if seen is None:
        raise ValueError("nothing was polled before that moment")
    runs = [each.until(point.at) for each in point.runs]
    known = _known_states(point.progress, runs, seen)
    unseen = _unseen(known, seen)
    read = _read(point.progress, runs, seen, known | unseen, frozenset(unseen))
    rates = _rates(point, otherwise)
    twin = make_twin(read, taken=point.at, rates=rates)
    ids = {tp.topic: state.topic_id for tp, state in known.items()}
    topics = tuple(msgspec.structs.replace(t, id=ids[t.name]) for t in twin.spec.topics)
    spec = msgspec.structs.replace(twin.spec, topics=topics)
    notes = (*twin.notes, *_notes(point, unseen), *left_out(point.runs, point.at))
    return msgspec.structs.replace(twin, spec=spec, notes=notes)


def _rates(point: BranchPoint, otherwise: SnapshotRates) -> SnapshotRates:
    if point.prior is None:
        return otherwise
    shown = rates_of(point.prior)
    throttled = otherwise.throttled if point.prior.throttle is None else shown.throttled
    known = shown if shown.source is RatesFrom.RECORDED else otherwise
    return msgspec.structs.replace(known, throttled=throttled)


# ------------------------------------------------------------------- the partitions


def _known_states(
    progress: Progress, runs: Iterable[Run], seen: Observation
) -> dict[TopicPartition, PartitionState]:
    """The last state of each: as polled last, or as its run left it."""
    known = {
        tp: _settled(tp, track.planned.topic_id, track.replicas, track.planned.leader, seen)
        for run in runs
        for tp, track in run.tracks.items()
    }
    for tp, timeline in progress.timelines.items():
        if tp not in known or not timeline.phase.ended:
            known[tp] = timeline.state
    known |= seen.partitions
    return {tp: _described(state, seen) for tp, state in known.items() if tp not in seen.absent}


def _settled(
    tp: TopicPartition,
    topic_id: str | None,
    replicas: Brokers,
    leader: int | None,
    seen: Observation,
) -> PartitionState:
    up = tuple(broker for broker in replicas if broker in seen.online)
    first = up[0] if up else None
    return PartitionState(
        tp=tp,
        topic_id=topic_id,
        replicas=replicas,
        isr=up or replicas,
        leader=leader if leader in up else first,
    )


def _described(state: PartitionState, seen: Observation) -> PartitionState:
    """With a known ISR; where metadata could not be read, all are in it."""
    if state.described:
        return state
    settled = _settled(state.tp, state.topic_id, state.original, None, seen)
    return msgspec.structs.replace(state, isr=settled.isr, leader=settled.leader, described=True)


def _unseen(known: _States, seen: Observation) -> dict[TopicPartition, PartitionState]:
    """What the topics must have too: empty ones, on one broker."""
    last = Counter[str]()
    for tp in known:
        last[tp.topic] = max(last[tp.topic], tp.partition)
    broker = min(seen.online, default=min(seen.brokers, default=0))
    missing = (
        TopicPartition(topic, number)
        for topic in last
        for number in range(last[topic])
        if TopicPartition(topic, number) not in known
    )
    return {tp: _settled(tp, None, (broker,), broker, seen) for tp in missing}


# ----------------------------------------------------------- all that a twin is made of


def _read(
    progress: Progress,
    runs: Sequence[Run],
    seen: Observation,
    states: _States,
    empty: frozenset[TopicPartition],
) -> ClusterRead:
    replicas = Counter(broker for state in states.values() for broker in state.replicas)
    pool = BrokerPool(
        online=seen.online,
        cordoned=seen.cordoned,
        refuses_cordoned=bool(seen.refuses_cordoned),
        racks={broker.id: broker.rack for broker in seen.brokers.values()},
        replicas=replicas,
    )
    sizes = _sizes(states, runs, seen, empty)
    log_dirs = {
        broker: LogDirsAnswer(seen.log_dirs.get(broker, ()), sizes.get(broker, {}))
        for broker in seen.online
    }
    known = frozenset(seen.brokers) | replicas.keys()
    placement = Placement(partitions=states, pool=pool, known=known, log_dirs=log_dirs)
    scope = scope_of(placement, None)
    return ClusterRead(
        cluster=ClusterDescription(
            seen.cluster_id,
            seen.controller,
            seen.brokers,
            seen.waits_for_kept,
            refuses_cordoned=seen.refuses_cordoned,
        ),
        placement=placement,
        scope=scope,
        written={topic: _written(progress, of, empty) for topic, of in scope.topics.items()},
        measured=True,
        message_sizes={topic: _message_size(seen, of) for topic, of in scope.topics.items()},
        settings=settings_at(seen, runs),
    )


def _sizes(
    states: _States, runs: Sequence[Run], seen: Observation, empty: frozenset[TopicPartition]
) -> dict[int, dict[TopicPartition, ReplicaDir]]:
    """Of each replica, by broker, as far as they are known."""
    planned = {
        tp: track.planned.size
        for run in runs
        for tp, track in run.tracks.items()
        if track.planned.sized
    }
    held: dict[int, dict[TopicPartition, ReplicaDir]] = {}
    for tp, state in states.items():
        whole = 0 if tp in empty else _whole(state, seen, planned.get(tp))
        if whole is None:
            continue
        for broker in state.replicas:
            size = whole if broker in state.isr else _copied(state, broker, whole, seen)
            held.setdefault(broker, {})[tp] = ReplicaDir("", size)
    return held


def _whole(state: PartitionState, seen: Observation, planned: int | None) -> int | None:
    leading = None if state.leader is None else seen.sizes.get(Replica(state.tp, state.leader))
    return planned if leading is None else leading.value


def _copied(state: PartitionState, broker: int, whole: int, seen: Observation) -> int:
    """Of a replica out of sync: by offsets, or bytes."""
    end = seen.ends.get(Replica(state.tp, broker))
    leading = None if state.leader is None else seen.ends.get(Replica(state.tp, state.leader))
    start = seen.starts.get(state.tp)
    if end is not None and leading is not None and start is not None:
        messages = leading.value - start.value
        share = (end.value - start.value) / messages if messages > 0 else 1.0
        return round(whole * min(1.0, max(0.0, share)))
    size = seen.sizes.get(Replica(state.tp, broker))
    return 0 if size is None else min(whole, size.value)


def _written(
    progress: Progress, states: Sequence[PartitionState], empty: frozenset[TopicPartition]
) -> Sequence[float | None]:
    """Written to each partition; others of a topic have the mean of those."""
    rates = [
        None if (line := progress.timelines.get(state.tp)) is None else line.inbound_bytes_s
        for state in states
    ]
    known = [rate for rate in rates if rate is not None]
    mean = sum(known) / len(known) if known else None
    return [
        0.0 if state.tp in empty else mean if rate is None else rate
        for state, rate in zip(states, rates, strict=True)
    ]


def _message_size(seen: Observation, states: Sequence[PartitionState]) -> int | None:
    sizes = messages = 0
    for state in states:
        leader = None if state.leader is None else Replica(state.tp, state.leader)
        if leader is None or seen.topic_configs.get(state.tp.topic, TopicConfig()).compacted:
            continue
        size, end, start = seen.sizes.get(leader), seen.ends.get(leader), seen.starts.get(state.tp)
        if size is not None and end is not None and start is not None and end.value > start.value:
            sizes += size.value
            messages += end.value - start.value
    return max(1, round(sizes / messages)) if messages else None


def _notes(point: BranchPoint, unseen: Mapping[TopicPartition, PartitionState]) -> Iterator[str]:
    if point.prior is not None and point.prior.throttle is not None:
        yield f"copies get {point.prior.curve.throttled:.0%} of a throttle, as in the recording"
    yield "only the topics of the recording are in the twin, without any other load of its brokers"
    if unseen:
        yield (
            f"{as_count(len(unseen), 'partition')} of these topics were not recorded: they are "
            "empty here"
        )
