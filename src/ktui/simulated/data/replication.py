"""The data of a simulated cluster: logs that producers write and followers copy."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import repeat

import msgspec

from ktui.cluster.broker import FutureReplica, ReplicaDir
from ktui.cluster.errors import KafkaError
from ktui.cluster.partition import TopicPartition
from ktui.simulated.controller.records import RecordChange
from ktui.simulated.data.flows import Log, ThrottledReplicas, TideFactors, TopicLogs, TrafficMoment
from ktui.simulated.data.followers import Followers, Sharing
from ktui.simulated.data.hosts import STORAGE_ERROR, Disks, Host, LogDirs
from ktui.simulated.layout import ClusterSpec, TopicSpec


class CaughtUp(msgspec.Struct, frozen=True):
    """A follower caught up: reported each second until the controller adds it to the ISR."""

    tp: TopicPartition
    broker: int


class FellBehind(msgspec.Struct, frozen=True):
    """A follower in the ISR lagged too long: reported again if the controller leaves it in."""

    tp: TopicPartition
    broker: int


class DiskFull(msgspec.Struct, frozen=True):
    """A broker's one log dir is full and fails. Reported once each time the broker comes up."""

    broker: int


FlowEvent = CaughtUp | FellBehind | DiskFull
SharingFactory = Callable[[dict[int, Host], Followers, TrafficMoment, TideFactors], Sharing]

_RETRY_S = 1.0
_USED_UP = 0.99  # the part of a throttle's rate from which on it holds back what it binds


class Replication:
    """The data plane: a fluid model that steps from event to event, with constant rates between."""

    def __init__(self, spec: ClusterSpec, *, seed: int) -> None:
        self._tides = TideFactors(spec.tide, seed=seed)
        self._moment = TrafficMoment(self._tides)
        self._hosts = {broker.id: Host(broker, n) for n, broker in enumerate(spec.brokers)}
        self._followers = Followers(
            self._hosts, self._moment, spec.lag_time_max_s, spec.copy_start_s
        )
        self._channels, self._ledger = self._followers.channels, self._followers.ledger
        self._disks = Disks(self._hosts, self._ledger, self._channels, self._moment)
        self._sharing = Sharing(self._hosts, self._followers, self._moment, self._tides)
        self.copied_into: dict[int, float] = defaultdict(float)
        """The bytes that have been copied into each broker, without traffic in sync."""
        self._topics: dict[str, TopicLogs] = {}
        self._specs = {topic.name: topic for topic in spec.topics}
        self._on: dict[int, list[TopicPartition]] | None = None
        """The partitions on each broker; None until they are asked for after a change."""
        self._retry_s = math.inf
        self._next_s: float | None = None

    @property
    def now_s(self) -> float:
        return self._moment.now_s

    def share_by(self, make: SharingFactory) -> None:
        """Let flows share the machines in another way from now on: `bench` compares such ways."""
        self._next_s = None
        self._sharing = make(self._hosts, self._followers, self._moment, self._tides)

    def prepare(self, topic: TopicSpec) -> None:
        self._specs[topic.name] = topic

    def changed(self, change: RecordChange) -> None:
        self._next_s = self._on = None
        name, number = change.tp.topic, change.tp.partition
        topic = self._topics.get(name)
        if change.after is None:
            if topic is not None:
                self._followers.delete(topic.logs.pop(number))
            return
        if topic is None or topic.id != change.topic_id:
            topic = self._topics[name] = TopicLogs(self._specs[name], change.topic_id)
            self._disks.look_again(*self._hosts)
        log = topic.logs.get(number)
        if log is not None:
            self._followers.change(log, change.after)
        else:
            self._followers.create(topic.add(number, change.after))

    def broker_down(self, broker: int) -> None:
        self._turn(broker, up=False)

    def broker_up(self, broker: int) -> None:
        self._turn(broker, up=True)
        self._disks.look_again(broker)

    def slow(self, broker: int, share: float) -> None:
        self._next_s = None
        self._hosts[broker].share = share
        self._disks.look_again(broker)

    def fill_disk(self, broker: int, leave: int) -> None:
        self._next_s = None
        self._disks.leave(broker, leave)

    def append(self, tp: TopicPartition, messages: int) -> None:
        """Write some messages at once; nothing if there is no such partition or no live leader."""
        log = self._log(tp)
        if log is not None and log.writing:
            self._adjust([log], lambda: log.append(messages * log.topic.spec.message_bytes))
            self._disks.look_again(*log.record.replicas)

    def set_inbound(self, topic: str, rate: float) -> None:
        found = self._topics.get(topic)
        if found is not None:
            self._adjust(found.logs.values(), lambda: found.set_inbound(rate))
            self._disks.look_again(*self._hosts)

    def set_retention(self, topic: str, keep: int | None) -> None:
        found = self._topics.get(topic)
        if found is not None and found.retention != keep:
            self._adjust(found.logs.values(), lambda: found.set_retention(keep))

    def set_throttle_rates(
        self,
        broker: int,
        *,
        follower: float | None,
        leader: float | None,
        log_dir: float | None = None,
    ) -> None:
        """Set throttles in bytes a second; None lifts one. A lowered one opens after its window."""
        self._next_s = None
        flowing = self._sharing.throttled(broker)
        throttles = zip(
            self._hosts[broker].throttles, (follower, leader, log_dir), flowing, strict=True
        )
        for throttle, rate, flow in throttles:
            throttle.set_rate(rate, flow, self.now_s)

    def set_throttled_replicas(
        self, topic: str, *, followers: ThrottledReplicas, leaders: ThrottledReplicas
    ) -> None:
        found = self._topics.get(topic)
        if found is None:
            return
        before = found.followers_listed, found.leaders_listed
        numbers = _differing(found, before[0], followers) | _differing(found, before[1], leaders)
        logs = [found.logs[number] for number in sorted(numbers) if number in found.logs]
        self._adjust(logs, lambda: found.list_throttled(followers, leaders))

    def log_dirs(self, broker: int) -> LogDirs:
        return self._hosts[broker].log_dirs

    def alter_log_dir(self, tp: TopicPartition, broker: int, path: str) -> str | None:
        """Begin to move a replica to a log dir of its broker; return Kafka's error name or None."""
        log_dirs, log = self._hosts[broker].log_dirs, self._log(tp)
        if path not in log_dirs.paths:
            return KafkaError.LOG_DIR_NOT_FOUND
        if path in log_dirs.failed or log in log_dirs.lost:
            return STORAGE_ERROR
        if log is None or broker not in log.record.replicas:
            log_dirs.remember(tp, path)
            return (
                KafkaError.UNKNOWN_TOPIC_OR_PARTITION
                if log is None
                else KafkaError.REPLICA_NOT_AVAILABLE
            )
        if path in log_dirs.cordoned and path != log_dirs.path_of(log):
            return KafkaError.INVALID_REPLICA_ASSIGNMENT
        self._next_s = None
        self._followers.move(log, broker, path)
        self._disks.look_again(broker)
        return None

    def fail_log_dir(self, broker: int, path: str) -> list[TopicPartition]:
        self._next_s = None
        return [log.tp for log in self._followers.lose(broker, path)]

    def replicas_on(self, broker: int) -> Sequence[TopicPartition]:
        """Return the partitions that are assigned to a broker, also those whose log dir is lost."""
        if self._on is None:
            self._on = {each: [] for each in self._hosts}
            for topic in self._topics.values():
                for log in topic.logs.values():
                    for each, tp in zip(log.record.replicas, repeat(log.tp)):
                        self._on[each].append(tp)
        return self._on[broker]

    def replica_dir(self, tp: TopicPartition, broker: int) -> ReplicaDir | None:
        log = self._held(tp, broker)
        if log is None:
            return None
        flow, future = (log.futures or {}).get(broker), None
        if flow is not None and flow.path is not None:
            tide_s, each = self._moment.tide_s, log.topic.spec.message_bytes
            copied = int(flow.end_at(self.now_s, tide_s) / each)
            lag = int(self._position(log, broker) / each) - copied
            future = FutureReplica(flow.path, round(flow.size_at(self.now_s, tide_s)), max(0, lag))
        path = self._hosts[broker].log_dirs.path_of(log)
        return ReplicaDir(path, self.size(tp, broker), future)

    def end(self, tp: TopicPartition, broker: int) -> int | None:
        log = self._held(tp, broker)
        if log is None:
            return None
        return int(self._position(log, broker) / log.topic.spec.message_bytes)

    def start(self, tp: TopicPartition) -> int:
        log = self._topics[tp.topic].logs[tp.partition]
        return int(log.start_at(self._moment.tide_s) / log.topic.spec.message_bytes)

    def size(self, tp: TopicPartition, broker: int) -> int:
        log = self._held(tp, broker)
        if log is None:
            return 0
        held = self._position(log, broker) - log.start_at(self._moment.tide_s)
        return max(0, round(held))

    def capacity(self, broker: int) -> float:
        return self._hosts[broker].share

    def used(self, broker: int) -> int:
        return round(self._disks.used(broker))

    def rate(self, tp: TopicPartition, broker: int) -> float:
        """Return the write rate of a replica, in bytes per second; 0 if there is no replica."""
        self.next_event_s()
        log = self._held(tp, broker)
        if log is None:
            return 0.0
        flow = (log.apart or {}).get(broker)
        if flow is None:
            return log.inbound * self._moment.factor
        return flow.channel.rate if flow.channel else 0.0

    def copied(self) -> dict[int, float]:
        """Return the bytes a second that are copied into each broker, without traffic in sync."""
        self.next_event_s()
        return self._sharing.copied()

    def busy(self) -> dict[int, float]:
        self.next_event_s()
        return self._sharing.busy()

    def written(self) -> Iterator[Log]:
        for topic in self._topics.values():
            yield from (log for log in topic.logs.values() if log.inbound)

    def holds_back(self, tp: TopicPartition, broker: int) -> bool:
        """Return whether a follower is on the throttled list of a broker whose rate is used up."""
        log = self._log(tp)
        if log is None or (tp.partition, broker) not in log.topic.followers_listed:
            return False
        self.next_event_s()
        rate = self._hosts[broker].follower_throttle.rate
        return self._sharing.throttled(broker)[0] >= _USED_UP * rate

    def next_event_s(self) -> float:
        if self._next_s is None:
            self._sharing.share(self._topics.values())
            self._next_s = self._find_next_s()
        return self._next_s

    def advance(self, to_s: float) -> list[FlowEvent]:
        """Let time pass until `to_s`, at most until the next event, and return what happened."""
        next_s = self.next_event_s()
        if not self.now_s <= to_s <= next_s:
            raise ValueError(f"{to_s} is not between {self.now_s} and the next event, {next_s}")
        passed_s = to_s - self.now_s
        for broker, into in self._sharing.copied().items() if passed_s else ():
            self.copied_into[broker] += into * passed_s
        self._moment.move_to(to_s)
        if to_s < next_s:
            return []
        self._next_s = None
        self._followers.start_due()
        return [
            *self._caught_up(),
            *[FellBehind(f.log.tp, f.broker) for f in self._followers.lagging()],
            *map(DiskFull, self._disks.full()),
        ]

    def _turn(self, broker: int, *, up: bool) -> None:
        host = self._hosts[broker]
        if host.up is up:
            return
        self._next_s = None
        host.up = up
        for topic in self._topics.values():
            for log in topic.logs.values():
                if broker in log.record.replicas:
                    self._followers.rearrange(log)

    def _adjust(self, logs: Collection[Log], alter: Callable[[], None]) -> None:
        self._next_s = None
        for log in logs:
            self._followers.pause(log)
        alter()
        for log in logs:
            self._followers.resume(log)

    def _log(self, tp: TopicPartition) -> Log | None:
        topic = self._topics.get(tp.topic)
        return None if topic is None else topic.logs.get(tp.partition)

    def _held(self, tp: TopicPartition, broker: int) -> Log | None:
        log = self._log(tp)
        if log is None or broker not in log.record.replicas:
            return None
        return None if log in self._hosts[broker].log_dirs.lost else log

    def _position(self, log: Log, broker: int) -> float:
        flow, tide_s = (log.apart or {}).get(broker), self._moment.tide_s
        if flow is None:
            return log.end_at(tide_s)
        return flow.end_at(self.now_s, tide_s)

    def _find_next_s(self) -> float:
        outside = self._followers.outside
        if not outside:
            self._retry_s = math.inf
        elif self._retry_s <= self.now_s or self._retry_s == math.inf:
            self._retry_s = self.now_s + _RETRY_S
        disks_s = self._disks.next_look_s()
        turns_matter = self._disks.close or self._sharing.sensitive
        return min(
            disks_s,
            self._retry_s,
            self._followers.next_watched_s(),
            self._followers.next_start_s(),
            self._sharing.next_s(),
            self._tides.next_turn_s(self.now_s) if turns_matter else math.inf,
        )

    def _caught_up(self) -> list[CaughtUp]:
        caught_up = []
        if self._retry_s <= self.now_s:
            waiting = self._followers.outside.items()
            caught_up = [CaughtUp(tp, broker) for (tp, broker), log in waiting if log.writing]
        due = [channel for channel in self._channels if channel.finish_s <= self.now_s]
        finished = [flow for channel in due for flow in channel.finished(self._moment)]
        for flow in finished:
            if flow.path is not None:
                self._followers.finish_move(flow, flow.path)
            elif self._followers.catch_up(flow):
                caught_up.append(CaughtUp(flow.log.tp, flow.broker))
        return caught_up


def _differing(topic: TopicLogs, before: ThrottledReplicas, after: ThrottledReplicas) -> set[int]:
    if before.everywhere and after.everywhere:
        return set()
    if before.everywhere or after.everywhere:
        return set(topic.logs)
    return {number for number, _ in before ^ after}
