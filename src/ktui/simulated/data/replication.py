"""The data of a simulated cluster: logs that producers write to and followers copy."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from ktui.cluster.partition import TopicPartition
from ktui.simulated.controller.registration import RecordChange
from ktui.simulated.data.disks import Disks
from ktui.simulated.data.events import CaughtUp, DiskFull, FellBehind, FlowEvent
from ktui.simulated.data.followers import Followers
from ktui.simulated.data.hosts import Host
from ktui.simulated.data.logs import Log, TopicLogs
from ktui.simulated.data.sharing import Sharing
from ktui.simulated.data.throttles import ThrottledReplicas
from ktui.simulated.data.traffic_cycle import Tides, TrafficMoment
from ktui.simulated.layout import ClusterSpec, TopicSpec

__all__ = ["CaughtUp", "DiskFull", "FellBehind", "FlowEvent", "Replication"]

_RETRY_S = 1.0


class Replication:
    """What the brokers' machines do with the controller's decisions.

    A fluid model that goes from event to event: between two, every rate is constant, and nothing
    is computed. Changes take effect at `now_s`; many at once cost little more than one.

    Args:
        spec: the cluster. Its topics come to be as the controller decides it.
        seed: of the tide's noise.
    """

    def __init__(self, spec: ClusterSpec, *, seed: int) -> None:
        self._tides = Tides(spec.tide, seed=seed)
        self._moment = TrafficMoment(self._tides)
        self._hosts = {broker.id: Host(broker, n) for n, broker in enumerate(spec.brokers)}
        self._followers = Followers(self._hosts, self._moment, spec.lag_time_max_s)
        self._channels, self._ledger = self._followers.channels, self._followers.ledger
        self._disks = Disks(self._hosts, self._ledger, self._channels, self._moment)
        self._sharing = Sharing(self._hosts, self._followers, self._moment, self._tides)
        self._topics: dict[str, TopicLogs] = {}
        self._specs = {topic.name: topic for topic in spec.topics}
        self._retry_s = math.inf
        self._next_s: float | None = None
        """The next event; None while something has changed since it was known."""

    @property
    def now_s(self) -> float:
        """Seconds since the first moment."""
        return self._moment.now_s

    def prepare(self, topic: TopicSpec) -> None:
        """Learn what a topic that the spec does not have will be like, before it is created."""
        self._specs[topic.name] = topic

    def changed(self, change: RecordChange) -> None:
        """Carry out a decision of the controller, in the order in which it took them."""
        self._next_s = None
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
            log = Log(topic, number, change.after, float(topic.spec.bytes_each))
            topic.logs[number] = log
            self._followers.create(log)

    def broker_down(self, broker: int) -> None:
        """Let a broker stand still: it neither copies nor serves, and nobody writes to it."""
        self._turn(broker, up=False)

    def broker_up(self, broker: int) -> None:
        """Let a broker go on with the logs that it has."""
        self._turn(broker, up=True)
        self._disks.look_again(broker)

    def slow(self, broker: int, share: float) -> None:
        """Let a broker's network and disk do only this share of what they can."""
        self._next_s = None
        self._hosts[broker].share = share
        self._disks.look_again(broker)

    def fill_disk(self, broker: int, leave: int) -> None:
        """Let something else take a broker's disk but for `leave` bytes."""
        self._next_s = None
        self._disks.leave(broker, leave)

    def append(self, tp: TopicPartition, messages: int) -> None:
        """Let producers write some messages all at once, which replicas in step have at once.

        None is written where there is no such partition, or nobody leads it.
        """
        log = self._log(tp)
        if log is not None and log.writing:
            self._adjust([log], lambda: log.append(messages * log.topic.spec.message_bytes))
            self._disks.look_again(*log.record.replicas)

    def set_inbound(self, topic: str, rate: float) -> None:
        """Let producers write so many bytes a second to each partition; no such topic is fine."""
        found = self._topics.get(topic)
        if found is not None:
            self._adjust(found.logs.values(), lambda: found.set_inbound(rate))
            self._disks.look_again(*self._hosts)

    def set_retention(self, topic: str, keep: int | None) -> None:
        """Set retention.bytes of a topic; None keeps everything."""
        found = self._topics.get(topic)
        if found is not None and found.retention != keep:
            self._adjust(found.logs.values(), lambda: found.set_retention(keep))

    def set_throttle_rates(
        self, broker: int, *, follower: float | None, leader: float | None
    ) -> None:
        """Set a broker's replication throttles, bytes a second; None lifts one.

        One lowered below what was just flowing lets nothing through until the average over the
        window of 11 s is below it.
        """
        self._next_s = None
        host = self._hosts[broker]
        follower_flow, leader_flow = self._sharing.throttled(broker)
        host.follower_throttle.set_rate(follower, follower_flow, self.now_s)
        host.leader_throttle.set_rate(leader, leader_flow, self.now_s)

    def set_throttled_replicas(
        self, topic: str, *, followers: ThrottledReplicas, leaders: ThrottledReplicas
    ) -> None:
        """Set whom the throttles bind: pairs of partition and broker, or `EVERYWHERE`."""
        found = self._topics.get(topic)
        if found is None:
            return
        was = found.followers_listed, found.leaders_listed
        numbers = _differing(found, was[0], followers) | _differing(found, was[1], leaders)
        logs = [found.logs[number] for number in sorted(numbers) if number in found.logs]
        self._adjust(logs, lambda: found.list_throttled(followers, leaders))

    def end(self, tp: TopicPartition, broker: int) -> int | None:
        """Give a replica's log end offset, in messages; None where there is no such replica."""
        log = self._log(tp)
        if log is None or broker not in log.record.replicas:
            return None
        return int(self._position(log, broker) / log.topic.spec.message_bytes)

    def start(self, tp: TopicPartition) -> int:
        """Give a partition's log start offset, in messages.

        Raises:
            KeyError: there is no such partition.
        """
        log = self._topics[tp.topic].logs[tp.partition]
        return int(log.start_at(self._moment.tide_s) / log.topic.spec.message_bytes)

    def size(self, tp: TopicPartition, broker: int) -> int:
        """Give the bytes of a replica; 0 where there is none."""
        log = self._log(tp)
        if log is None or broker not in log.record.replicas:
            return 0
        held = self._position(log, broker) - log.start_at(self._moment.tide_s)
        return max(0, round(held))

    def used(self, broker: int) -> int:
        """Give the bytes used on a broker's disk, also by what is nobody's log."""
        return round(self._disks.used(broker))

    def rate(self, tp: TopicPartition, broker: int) -> float:
        """Give how fast a replica is being written, bytes a second; 0 where there is none."""
        self.next_event_s()
        log = self._log(tp)
        if log is None or broker not in log.record.replicas:
            return 0.0
        flow = (log.apart or {}).get(broker)
        if flow is None:
            return log.inbound * self._moment.factor
        return flow.channel.rate if flow.channel else 0.0

    def next_event_s(self) -> float:
        """Give the second before which nothing happens by itself; infinity if nothing will."""
        if self._next_s is None:
            self._sharing.share(self._topics.values())
            self._next_s = self._find_next_s()
        return self._next_s

    def advance(self, to_s: float) -> list[FlowEvent]:
        """Let time pass until `to_s`, which is not beyond the next event; tell what happened.

        Raises:
            ValueError: `to_s` is past, or beyond the next event.
        """
        next_s = self.next_event_s()
        if not self.now_s <= to_s <= next_s:
            raise ValueError(f"{to_s} is not between {self.now_s} and the next event, {next_s}")
        self._moment.move_to(to_s)
        if to_s < next_s:
            return []
        self._next_s = None
        return [*self._caught_up(), *self._fell_behind(), *map(DiskFull, self._disks.full())]

    def _turn(self, broker: int, *, up: bool) -> None:
        """Let a broker go down or come up, and the logs that it has a replica of with it."""
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
        """Alter something that the traffic of logs depends on."""
        self._next_s = None
        for log in logs:
            self._followers.pause(log)
        alter()
        for log in logs:
            self._followers.resume(log)

    def _log(self, tp: TopicPartition) -> Log | None:
        topic = self._topics.get(tp.topic)
        return None if topic is None else topic.logs.get(tp.partition)

    def _position(self, log: Log, broker: int) -> float:
        """Give where a replica ends, in bytes."""
        flow, tide_s = (log.apart or {}).get(broker), self._moment.tide_s
        if flow is None:
            return log.end_at(tide_s)
        return flow.end_at(self.now_s, tide_s)

    def _find_next_s(self) -> float:
        """Find when something happens by itself, as things stand now."""
        outside = self._followers.outside
        if not outside:
            self._retry_s = math.inf
        elif self._retry_s <= self.now_s or self._retry_s == math.inf:
            self._retry_s = self.now_s + _RETRY_S
        looks_s = self._disks.next_look_s()
        turns = self._disks.close or self._sharing.sensitive
        return min(
            looks_s,
            self._retry_s,
            self._followers.next_watched_s(),
            self._sharing.next_s(),
            self._tides.next_turn_s(self.now_s) if turns else math.inf,
        )

    def _caught_up(self) -> list[CaughtUp]:
        told = []
        if self._retry_s <= self.now_s:
            waiting = self._followers.outside.items()
            told = [CaughtUp(tp, broker) for (tp, broker), log in waiting if log.writing]
        due = [channel for channel in self._channels if channel.finish_s <= self.now_s]
        finished = [flow for channel in due for flow in channel.finished(self._moment)]
        told += [CaughtUp(f.log.tp, f.broker) for f in finished if self._followers.catch_up(f)]
        return told

    def _fell_behind(self) -> list[FellBehind]:
        return [FellBehind(f.log.tp, f.broker) for f in self._followers.lagging()]


def _differing(topic: TopicLogs, before: ThrottledReplicas, after: ThrottledReplicas) -> set[int]:
    """Name the partitions that one list binds otherwise than the other."""
    if before.everywhere and after.everywhere:
        return set()
    if before.everywhere or after.everywhere:
        return set(topic.logs)
    return {number for number, _ in before ^ after}
