"""Rates of flows: how they share the capacity of machines and throttles."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ktui.max_min import max_min_rates
from ktui.simulated.data.flows import Channel, Log, TideFactors, TopicLogs, TrafficMoment
from ktui.simulated.data.followers import Followers
from ktui.simulated.data.hosts import UNUSED, Host

_ROUNDING = 1 + 1e-9


class Sharing:
    """Assigns each flow its rate, from the capacity that in-step traffic leaves."""

    def __init__(
        self,
        hosts: dict[int, Host],
        followers: Followers,
        moment: TrafficMoment,
        tides: TideFactors,
    ) -> None:
        self._hosts = hosts
        self._followers = followers
        self._ledger, self._channels = followers.ledger, followers.channels
        self._moment = moment
        self._peak = tides.peak if tides.turns else 1.0

    def share(self, topics: Iterable[TopicLogs]) -> None:
        self._evict(topics)
        channels = list(self._channels)
        if not channels:
            return
        copies: Counter[int] = Counter()
        for channel in channels:
            copies[channel.key[1]] += channel.count
        moment = self._moment
        involved = {broker for channel in channels for broker in channel.key[:2]}
        capacities: list[float] = []
        for broker, host in self._hosts.items():
            capacities += (
                host.rooms(self._ledger, moment.factor, moment.now_s, copies[broker])
                if broker in involved
                else UNUSED
            )
        classes = [(channel.resources, channel.count * channel.weight) for channel in channels]
        if any(self._hosts[broker].spec.copy_sends for broker in involved):
            self._limit_by_both_ends(channels, copies, capacities, classes)
        for channel, rate in zip(channels, max_min_rates(capacities, classes), strict=True):
            channel.set_rate(rate * channel.weight, self._moment)

    def _limit_by_both_ends(
        self,
        channels: Sequence[Channel],
        onto: Mapping[int, int],
        capacities: list[float],
        classes: list[tuple[tuple[int, ...], int]],
    ) -> None:
        """Give each channel what its busier broker lets through; throttled copies are no load."""
        load = defaultdict[int, float](float)
        for channel in channels:
            source, destination, follower_bound, _ = channel.key
            if source != destination and not follower_bound:
                load[destination] += channel.count
                load[source] += channel.count * self._hosts[source].spec.copy_sends
        for number, channel in enumerate(channels):
            source, destination, follower_bound, _ = channel.key
            if source != destination:
                busier = max(1.0, load[source], load[destination])
                at_once = onto[destination] if follower_bound else busier
                rate = self._hosts[destination].copies_in(at_once) / at_once
                resources, count = classes[number]
                classes[number] = ((*resources, len(capacities)), count)
                capacities.append(rate * channel.count)

    def next_s(self) -> float:
        if not len(self._channels):
            return math.inf
        now_s = self._moment.now_s
        throttles = [
            throttle.opens_s
            for host in self._hosts.values()
            for throttle in host.throttles
            if throttle.opens_s > now_s
        ]
        finishes = [channel.finish_s for channel in self._channels]
        return min([*throttles, *finishes])

    @property
    def sensitive(self) -> bool:
        """Whether a change of the tide matters: a flow copies, or a machine may be overloaded."""
        return bool(len(self._channels)) or any(
            any(self._overloaded(host, self._peak)) for host in self._hosts.values()
        )

    def throttled(self, broker: int) -> tuple[float, float, float]:
        """Return the bytes a second under a broker's throttles: follower's, leader's, log dirs'."""
        factor, share = self._moment.factor, self._hosts[broker].spec.throttle_share
        follower = self._ledger.follower_listed[broker] * factor
        leader = self._ledger.leader_listed[broker] * factor
        log_dir = 0.0
        for channel in self._channels:
            source, destination, follower_bound, leader_bound = channel.key
            rate = channel.rate * channel.count
            follower += rate / share * (follower_bound and destination == broker)
            leader += rate / share * (leader_bound and source == broker)
            log_dir += rate * (source == destination == broker)
        return follower, leader, log_dir

    def copied(self) -> dict[int, float]:
        """Return the bytes a second that replicas which are not in step copy into each broker."""
        into: dict[int, float] = {}
        for channel in self._channels:
            source, destination, *_ = channel.key
            if source != destination:
                into[destination] = into.get(destination, 0.0) + channel.rate * channel.count
        return into

    def busy(self) -> dict[int, float]:
        factor, ledger = self._moment.factor, self._ledger
        into = {broker: rate * factor for broker, rate in ledger.into.items()}
        out = {broker: rate * factor for broker, rate in ledger.out.items()}
        for channel in self._channels:
            source, destination, *_ = channel.key
            into[destination] += channel.rate * channel.count
            if source != destination:
                out[source] += channel.rate * channel.count
        return {
            broker: max(_share(into[broker], host.into), _share(out[broker], host.out))
            for broker, host in self._hosts.items()
        }

    def _overloaded(self, host: Host, factor: float) -> tuple[bool, bool]:
        """Return whether in-step traffic exceeds what a host can receive, and what it can send."""
        broker, ledger = host.spec.id, self._ledger
        into, out = ledger.into[broker], ledger.out[broker]
        follows = into - ledger.produced[broker] > into * (_ROUNDING - 1)
        return (
            follows and into * factor > host.into * _ROUNDING,
            out * factor > host.out * _ROUNDING,
        )

    def _evict(self, topics: Iterable[TopicLogs]) -> None:
        overloaded = {
            b: self._overloaded(host, self._moment.factor) for b, host in self._hosts.items()
        }
        receiving = {broker for broker, (into, _) in overloaded.items() if into}
        sending = {broker for broker, (_, out) in overloaded.items() if out}
        if not (receiving or sending):
            return
        for topic in topics:
            for log in topic.logs.values():
                late = _late(log, receiving, sending) if log.inbound else []
                if late:
                    self._followers.evict(log, late)


def _share(used: float, of: float) -> float:
    return min(1.0, used / of) if of else 1.0


def _late(log: Log, receiving: set[int], sending: set[int]) -> list[int]:
    """Return the followers in step that an overloaded machine will hold back."""
    if log.record.leader in sending:
        return log.in_step()
    return [broker for broker in log.in_step() if broker in receiving]
