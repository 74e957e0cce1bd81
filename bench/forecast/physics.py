"""Physics of replication unlike the forecast's own: nothing here is shared per copy, or steady.

The forecast simulates copies that share brokers max-min fairly, at constant rates. Here

- connections share a machine, not copies: one pair of brokers has one connection, whatever it
  carries, and its copies take turns in it;
- a connection waits for a round trip between fetches of at most 1 MiB a partition and 10 MiB in
  all, so a single copy cannot fill it;
- what a disk reads for followers takes from what it can write, and its log cleaner now and then
  takes a part of both;
- the speed of every machine is a noise with a memory (AR(1), of the logarithm);
- a throttle lets fetches through until its window of 11 s is over the rate, and then none until the
  window has room again: copies come in gulps.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterable

import msgspec

from ktui.max_min import max_min_rates
from ktui.planning.throttle_rates import WINDOW_S
from ktui.simulated.data.flows import Channel, TideFactors, TopicLogs, TrafficMoment
from ktui.simulated.data.followers import Followers, Sharing
from ktui.simulated.data.hosts import Host
from ktui.simulated.data.replication import SharingFactory

MIB = 1024 * 1024
_TICK_S = 1.0
_EACH, _FETCH = 1 * MIB, 10 * MIB
"""max.partition.fetch.bytes and replica.fetch.response.max.bytes."""
_LEAST = 0.05
"""The share of a machine that producers and cleaners always leave to copies."""

_Connection = tuple[int, int]


class Physics(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one cluster."""

    seed: int
    noise: float = 0.2
    """Standard deviation of the logarithm of a machine's speed."""
    memory_s: float = 30.0
    """Seconds after which the noise has forgotten two thirds of what it was."""
    round_trip_s: float = 0.04
    """Seconds between two fetches of a connection."""
    interference: float = 0.5
    """The part of what a disk reads that it cannot write meanwhile."""
    cleaning_every_s: float = 90.0
    cleaning_s: float = 12.0
    cleaning_takes: float = 0.35
    """The share of a disk that its log cleaner takes while it is at work."""


def sharing_of(physics: Physics) -> SharingFactory:
    """Return what makes the sharing of a cluster with these physics."""

    def make(
        hosts: dict[int, Host], followers: Followers, moment: TrafficMoment, tides: TideFactors
    ) -> Sharing:
        return ConnectionSharing(physics, hosts, followers, moment, tides)

    return make


class ConnectionSharing(Sharing):
    """Assigns rates second by second, connection by connection."""

    def __init__(
        self,
        physics: Physics,
        hosts: dict[int, Host],
        followers: Followers,
        moment: TrafficMoment,
        tides: TideFactors,
    ) -> None:
        super().__init__(hosts, followers, moment, tides)
        self._physics = physics
        self._random = random.Random(physics.seed)  # noqa: S311 - a simulation's dice
        self._noise = {b: self._random.gauss(0, physics.noise) for b in sorted(hosts)}
        self._phase_s = {
            b: self._random.uniform(0, physics.cleaning_every_s) for b in sorted(hosts)
        }
        self._second = 0
        self._shared_s = 0.0
        self._read: dict[int, float] = {}
        """Bytes a second that each disk reads for copies, as of the last time."""
        self._windows: defaultdict[int, deque[tuple[float, float]]] = defaultdict(deque)
        """By receiving broker, (second, bytes) under its throttle in the last 11 s."""

    def share(self, topics: Iterable[TopicLogs]) -> None:
        """Recompute all rates."""
        self._evict(topics)
        self._count_throttled()
        self._let_noise_go_on()
        of: defaultdict[_Connection, list[Channel]] = defaultdict(list)
        for channel in self._channels:
            of[channel.key[0], channel.key[1]].append(channel)
        copies = {pair: sum(channel.count for channel in each) for pair, each in of.items()}
        rates = self._connection_rates(copies)
        granted = {broker: self._granted(broker) for _, broker in of}
        onto = Counter(broker for _, broker in of)
        for pair, channels in of.items():
            for channel in channels:
                rate = rates[pair] / copies[pair]
                if channel.key[2]:
                    rate = min(rate, granted[pair[1]] / onto[pair[1]] / copies[pair])
                channel.set_rate(rate, self._moment)
        self._read = dict(Counter({leader: 0.0 for leader, _ in of}))
        for (leader, _), rate in rates.items():
            self._read[leader] += rate

    def next_s(self) -> float:
        """Return the next second, or the event before it, while something copies."""
        if not len(self._channels):
            return math.inf
        return min(super().next_s(), math.floor(self._moment.now_s + 1e-6) + _TICK_S)

    def _connection_rates(self, copies: dict[_Connection, int]) -> dict[_Connection, float]:
        """Return the rate of each connection: fair among connections, up to its round trips."""
        brokers = sorted(self._hosts)
        place = {broker: n for n, broker in enumerate(brokers)}
        out = [self._out(self._hosts[b]) for b in brokers]
        into = [self._into(self._hosts[b]) for b in brokers]
        pairs, own, classes = sorted(copies), [], []
        for n, (leader, broker) in enumerate(pairs):
            line = min(out[place[leader]], into[place[broker]])
            fetch = min(_FETCH, _EACH * copies[leader, broker])
            own.append(fetch / (self._physics.round_trip_s + fetch / line))
            uses = (place[leader], len(brokers) + place[broker], 2 * len(brokers) + n)
            classes.append((uses, 1))
        rates = max_min_rates([*out, *into, *own], classes)
        return dict(zip(pairs, rates, strict=True))

    def _out(self, host: Host) -> float:
        produced = self._ledger.out[host.spec.id] * self._moment.factor
        whole = host.out * self._speed(host.spec.id)
        return max(_LEAST * whole, whole - produced)

    def _into(self, host: Host) -> float:
        broker, speed = host.spec.id, self._speed(host.spec.id)
        disk = host.spec.disk_write * host.share * speed * self._left_by_cleaner(broker)
        disk -= min(self._physics.interference * self._read.get(broker, 0.0), disk / 2)
        whole = min(host.spec.net_in * host.share * speed, disk)
        return max(_LEAST * whole, whole - self._ledger.into[broker] * self._moment.factor)

    def _speed(self, broker: int) -> float:
        return math.exp(self._noise[broker])

    def _left_by_cleaner(self, broker: int) -> float:
        physics = self._physics
        since_s = (self._moment.now_s + self._phase_s[broker]) % physics.cleaning_every_s
        return 1 - physics.cleaning_takes if since_s < physics.cleaning_s else 1.0

    def _let_noise_go_on(self) -> None:
        kept = math.exp(-1 / self._physics.memory_s)
        spread = self._physics.noise * math.sqrt(1 - kept * kept)
        while self._second < int(self._moment.now_s):
            self._second += 1
            for broker in self._noise:
                self._noise[broker] = kept * self._noise[broker] + self._random.gauss(0, spread)

    def _count_throttled(self) -> None:
        """Count what was copied under throttles since the last time."""
        now_s = self._moment.now_s
        passed_s, self._shared_s = now_s - self._shared_s, now_s
        for channel in self._channels:
            if channel.key[2] and channel.rate and passed_s > 0:
                copied = channel.rate * channel.count * passed_s
                self._windows[channel.key[1]].append((now_s, copied))
        for window in self._windows.values():
            while window and window[0][0] <= now_s - WINDOW_S:
                window.popleft()

    def _granted(self, broker: int) -> float:
        """Return the bytes a second that a throttle grants: until it is over by one fetch."""
        throttle = self._hosts[broker].follower_throttle
        if math.isinf(throttle.rate):
            return math.inf
        steady = self._ledger.follower_listed[broker] * self._moment.factor * WINDOW_S
        room = throttle.rate * WINDOW_S - steady - sum(size for _, size in self._windows[broker])
        return 0.0 if room <= 0 else room + min(_EACH, throttle.rate)
