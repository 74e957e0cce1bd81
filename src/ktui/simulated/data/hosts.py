"""The machine of each broker: network, throttles, log dirs, running totals, its disk."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Iterable

from ktui.cluster.errors import KafkaError
from ktui.cluster.partition import TopicPartition
from ktui.simulated.data.flows import (
    ChannelKey,
    Channels,
    Flow,
    Log,
    ReplicationThrottle,
    TrafficMoment,
)
from ktui.simulated.layout import BrokerSpec

STORAGE_ERROR = KafkaError.KAFKA_STORAGE_ERROR


class LogDirs:
    """One broker's log dirs and their replicas; a single log dir keeps no list of them."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self.failed: set[str] = set()
        self.cordoned: frozenset[str] = frozenset()
        """The log dirs that new replicas avoid, as long as there is another one."""
        self.lost: set[Log] = set()
        self._held: dict[Log, str] = {}
        self._count = Counter(dict.fromkeys(paths, 0))
        self._remembered: dict[TopicPartition, str] = {}

    def remember(self, tp: TopicPartition, path: str) -> None:
        self._remembered[tp] = path

    def forget(self) -> None:
        """Forget the remembered log dirs, which a broker does not keep over a restart."""
        self._remembered.clear()

    def place(self, log: Log) -> None:
        """Put a new replica into the remembered or the emptiest log dir; a lost one stays lost."""
        if len(self.paths) > 1 and log not in self.lost:
            path = self._remembered.pop(log.tp, None)
            if path is None or path in self.failed:
                working = [path for path in self.paths if path not in self.failed]
                open_ones = [path for path in working if path not in self.cordoned]
                path = min(open_ones or working, key=self._count.__getitem__)
            self.put(log, path)

    def put(self, log: Log, path: str) -> None:
        self.remove(log)
        self._held[log] = path
        self._count[path] += 1

    def remove(self, log: Log) -> None:
        path = self._held.pop(log, None)
        if path is not None:
            self._count[path] -= 1

    def path_of(self, log: Log) -> str:
        return self._held.get(log, self.paths[0])

    def fail(self, path: str) -> list[Log]:
        self.failed.add(path)
        lost = [log for log, held in self._held.items() if held == path]
        for log in lost:
            self.remove(log)
        self.lost.update(lost)
        return lost


class Ledger:
    """Traffic and bytes on each broker of logs and their in-step followers; rates are averages.

    A log is taken out before it changes and put back after: what stands still costs nothing.
    """

    def __init__(self, brokers: Iterable[int]) -> None:
        self.into = dict.fromkeys(brokers, 0.0)  # onto each disk, from producers and as a follower
        self.produced = dict.fromkeys(self.into, 0.0)
        self.out = dict.fromkeys(self.into, 0.0)
        self.follower_listed = dict.fromkeys(self.into, 0.0)
        """The part of `into` that counts for the follower's throttle."""
        self.leader_listed = dict.fromkeys(self.into, 0.0)
        """The part of `out` that counts for the leader's throttle."""
        self._held = dict.fromkeys(self.into, 0.0)
        self._growth = dict.fromkeys(self.into, 0.0)
        self._number = itertools.count()
        self._filling: list[tuple[float, int, Log]] = []

    def put(self, log: Log, tide_s: float) -> None:
        log.growth = log.inbound
        full_at = log.full_at()
        if full_at is not None:
            if full_at > tide_s:
                heapq.heappush(self._filling, (full_at, next(self._number), log))
            else:
                log.growth = 0.0
        self._count(log, tide_s, 1)

    def subtract(self, log: Log, tide_s: float) -> None:
        self._stop_full(tide_s)
        self._count(log, tide_s, -1)
        log.growth = 0.0

    def held(self, broker: int, tide_s: float) -> float:
        self._stop_full(tide_s)
        return self._held[broker] + self._growth[broker] * tide_s

    def growth(self, broker: int) -> float:
        return self._growth[broker]

    def _count(self, log: Log, tide_s: float, sign: int) -> None:
        in_step, leader = log.in_step(), log.record.leader
        holders = in_step if leader is None else [leader, *in_step]
        size = log.end_at(tide_s) - log.start_at(tide_s)
        self._grow(holders, sign * (size - log.growth * tide_s), sign * log.growth)
        rate = sign * log.inbound
        if rate and leader is not None:
            for broker in holders:
                self.into[broker] += rate
            self.produced[leader] += rate
            self.out[leader] += rate * len(in_step)
            self._count_listed(log, in_step, rate)

    def _count_listed(self, log: Log, in_step: list[int], rate: float) -> None:
        topic, leader = log.topic, log.record.leader
        if topic.followers_listed:
            for broker in in_step:
                if (log.partition, broker) in topic.followers_listed:
                    self.follower_listed[broker] += rate
        if leader is not None and (log.partition, leader) in topic.leaders_listed:
            self.leader_listed[leader] += rate * len(in_step)

    def _grow(self, holders: Iterable[int], held: float, growth: float) -> None:
        for broker in holders:
            self._held[broker] += held
            self._growth[broker] += growth

    def _stop_full(self, tide_s: float) -> None:
        while self._filling and self._filling[0][0] <= tide_s:
            log = heapq.heappop(self._filling)[2]
            full_at = log.full_at()
            if log.growth and full_at is not None and full_at <= tide_s:
                leader = log.record.leader
                holders = log.in_step() + ([] if leader is None else [leader])
                self._grow(holders, log.growth * full_at, -log.growth)
                log.growth = 0.0


_RESOURCES = 5
"""Resources per host: inbound network and disk, outbound network, and the throttles of the
follower, the leader and the log dirs."""
UNUSED = (math.inf,) * _RESOURCES


class Host:
    """One broker's machine. Rates in bytes per second."""

    def __init__(self, spec: BrokerSpec, number: int) -> None:
        self.spec = spec
        self.first_resource = number * _RESOURCES
        self.up = not spec.down
        self.share = 1.0
        self.foreign = 0.0  # bytes on the disk that belong to no log
        self.follower_throttle = ReplicationThrottle()
        self.leader_throttle = ReplicationThrottle()
        self.log_dir_throttle = ReplicationThrottle()
        self.log_dirs = LogDirs(spec.log_dir_paths)
        self.flows: dict[Flow, None] = {}  # not in step, or copies in other log dirs

    @property
    def into(self) -> float:
        return min(self.spec.net_in, self.spec.disk_write) * self.share

    @property
    def out(self) -> float:
        return self.spec.net_out * self.share

    @property
    def throttles(self) -> tuple[ReplicationThrottle, ...]:
        return self.follower_throttle, self.leader_throttle, self.log_dir_throttle

    def rooms(self, ledger: Ledger, factor: float, now_s: float, copies: int) -> tuple[float, ...]:
        """Return the rate that in-step traffic leaves to flows, for each resource of the host."""
        broker, share = self.spec.id, self.spec.throttle_share
        return (
            min(self.into - ledger.into[broker] * factor, self.copies_in(copies)),
            self.out - ledger.out[broker] * factor,
            self.follower_throttle.room(ledger.follower_listed[broker] * factor, now_s) * share,
            self.leader_throttle.room(ledger.leader_listed[broker] * factor, now_s) * share,
            self.log_dir_throttle.room(0.0, now_s),
        )

    def copies_in(self, copies: float) -> float:
        most, half_at = self.spec.copy_in, self.spec.copy_half_at
        count = min(copies, self.spec.copy_most_at)
        return most * count / (count + half_at) if half_at else most


def resources(hosts: dict[int, Host], key: ChannelKey) -> tuple[int, ...]:
    """Return the indexes of a channel's resources: the hosts', and the throttles that bind it."""
    source, destination, follower_bound, leader_bound = key
    first, second = hosts[source].first_resource, hosts[destination].first_resource
    if source == destination:
        return first, first + 4
    used: tuple[int, ...] = (first + 1, second)
    if follower_bound:
        used = (*used, second + 2)
    return (*used, first + 3) if leader_bound else used


_FAR_S = 60.0  # a disk this far from full, even at its highest rate, is not computed exactly
_SOON_S = 0.001
_FULL = 1.0  # bytes. A disk with less free space is full


class Disks:
    """The bytes on each broker's disk, and the time at which a disk may be full."""

    def __init__(
        self, hosts: dict[int, Host], ledger: Ledger, channels: Channels, moment: TrafficMoment
    ) -> None:
        self._hosts = hosts
        self._ledger = ledger
        self._channels = channels
        self._moment = moment
        self._check_s = dict.fromkeys(hosts, 0.0)
        self._nearly_full: set[int] = set()
        self._reported: set[int] = set()

    @property
    def close(self) -> bool:
        return bool(self._nearly_full)

    def used(self, broker: int) -> float:
        now_s, tide_s = self._moment.now_s, self._moment.tide_s
        host = self._hosts[broker]
        copied = sum(flow.size_at(now_s, tide_s) for flow in host.flows)
        return host.foreign + self._ledger.held(broker, tide_s) + copied

    def leave(self, broker: int, room: int) -> None:
        host = self._hosts[broker]
        more = host.spec.disk_bytes - self.used(broker) - room
        host.foreign = max(0.0, host.foreign + more)
        self.look_again(broker)

    def look_again(self, *brokers: int) -> None:
        self._check_s.update(dict.fromkeys(brokers, self._moment.now_s))
        self._reported.difference_update(brokers)

    def next_look_s(self) -> float:
        """Check the disks that are due, and return the second of the next check."""
        for broker, at_s in self._check_s.items():
            if at_s <= self._moment.now_s or broker in self._nearly_full:
                self._check_s[broker] = self._check(broker)
        return min(self._check_s.values(), default=math.inf)

    def full(self) -> list[int]:
        due = [b for b, at_s in self._check_s.items() if at_s <= self._moment.now_s]
        full = [b for b in due if self._hosts[b].up and self._room(b) < _FULL]
        self._reported.update(full)
        return full

    def _check(self, broker: int) -> float:
        self._nearly_full.discard(broker)
        host, now_s = self._hosts[broker], self._moment.now_s
        if not host.up or broker in self._reported:
            return math.inf
        room = self._room(broker)
        if room < _FULL:
            return now_s
        highest = max(host.into, self._ledger.into[broker] * self._moment.factor)
        if highest <= 0 or room / highest > 2 * _FAR_S:
            return now_s + (room / highest - _FAR_S if highest > 0 else math.inf)
        self._nearly_full.add(broker)
        rate = self._fill_rate(broker)
        return now_s + max(_SOON_S, room / rate) if rate > 0 else math.inf

    def _room(self, broker: int) -> float:
        return self._hosts[broker].spec.disk_bytes - self.used(broker)

    def _fill_rate(self, broker: int) -> float:
        flows = sum(c.rate * c.count for c in self._channels if c.key[1] == broker)
        return self._ledger.growth(broker) * self._moment.factor + flows
