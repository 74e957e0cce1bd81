"""Replicas in step with their leaders, replicas that still copy, and how these share machines."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from ktui.cluster.partition import TopicPartition
from ktui.max_min import max_min_rates
from ktui.simulated.controller.records import Registration
from ktui.simulated.data.flows import (
    NOTHING,
    Channel,
    ChannelKey,
    Channels,
    Flow,
    Log,
    TideFactors,
    TopicLogs,
    TrafficMoment,
)
from ktui.simulated.data.hosts import UNUSED, Host, Ledger, resources


class Followers:
    """The replicas of all logs, following the controller's records and the state of machines."""

    def __init__(
        self,
        hosts: dict[int, Host],
        moment: TrafficMoment,
        lag_time_max_s: float,
        copy_start_s: float,
    ) -> None:
        self._hosts = hosts
        self._moment = moment
        self._lag_time_max_s = lag_time_max_s
        self._copy_start_s = copy_start_s
        self.ledger = Ledger(hosts)
        self.channels = Channels(lambda key: resources(hosts, key))
        self.outside: dict[tuple[TopicPartition, int], Log] = {}
        self._number = itertools.count()
        self._watched: list[tuple[float, int, Flow]] = []
        self._starting: list[tuple[float, int, Flow]] = []

    def create(self, log: Log) -> None:
        log.at = self._moment.tide_s
        for broker in log.record.replicas:
            self._hosts[broker].log_dirs.place(log)
            if broker not in log.record.isr:
                self._set_apart(log, broker, log.begun_at(broker, log.at))
        self._arrange(log)
        self.ledger.put(log, self._moment.tide_s)

    def delete(self, log: Log) -> None:
        self.ledger.subtract(log, self._moment.tide_s)
        for broker in log.record.replicas:
            self._remove(log, broker)

    def change(self, log: Log, record: Registration) -> None:
        before = log.record
        if before.replicas == record.replicas and before.leader == record.leader:
            self._change_isr(log, record)
            return
        self._take_out(log)
        self._assign(log, record)
        self.resume(log)

    def pause(self, log: Log) -> None:
        self._take_out(log)
        for flow in log.flows():
            self.channels.stop(flow, self._moment)

    def resume(self, log: Log) -> None:
        self._arrange(log)
        self.ledger.put(log, self._moment.tide_s)

    def rearrange(self, log: Log) -> None:
        self._take_out(log)
        self.resume(log)

    def catch_up(self, flow: Flow) -> bool:
        """Mark a flow that has caught up as in step; return whether it is outside the ISR."""
        log, broker = flow.log, flow.broker
        self._take_out(log)
        self._forget(log, broker)
        outside = broker not in log.record.isr
        if outside:
            self.outside[log.tp, broker] = log
        self.resume(log)
        return outside

    def evict(self, log: Log, brokers: Collection[int]) -> None:
        self._take_out(log)
        for broker in brokers:
            self._set_apart(log, broker, log.end)
        self.resume(log)

    def move(self, log: Log, broker: int, path: str) -> None:
        """Copy a replica to another log dir, instead of any other; the present one needs none."""
        under_way = (log.futures or {}).get(broker)
        if under_way is not None and under_way.path == path:
            return
        self._end_move(log, broker)
        host = self._hosts[broker]
        if path == host.log_dirs.path_of(log):
            return
        start = log.start_at(self._moment.tide_s)
        flow = Flow(log, broker, start, self._moment.now_s, path=path)
        if log.futures is None:
            log.futures = {}
        log.futures[broker] = flow
        host.flows[flow] = None
        self._route_all(log)

    def finish_move(self, flow: Flow, path: str) -> None:
        self._end_move(flow.log, flow.broker)
        self._hosts[flow.broker].log_dirs.put(flow.log, path)

    def lose(self, broker: int, path: str) -> list[Log]:
        """Let a log dir fail, with all copies into it; return the logs whose replicas it held."""
        host = self._hosts[broker]
        lost = host.log_dirs.fail(path)
        for flow in [f for f in host.flows if f.path == path]:
            self._end_move(flow.log, broker)
        for log in lost:
            self._end_move(log, broker)
            self._take_out(log)
            self._forget(log, broker)
            self._set_apart(log, broker, log.start)
            self.resume(log)
        return lost

    def next_watched_s(self) -> float:
        return self._watched[0][0] if self._watched else float("inf")

    def next_start_s(self) -> float:
        return self._starting[0][0] if self._starting else float("inf")

    def start_due(self) -> None:
        while self._starting and self._starting[0][0] <= self._moment.now_s:
            _, _, flow = heapq.heappop(self._starting)
            if flow in self._hosts[flow.broker].flows:
                self._route_all(flow.log)

    def lagging(self) -> list[Flow]:
        """Return the ISR members that have lagged for too long; later again if they stay."""
        late = []
        now_s, tide_s = self._moment.now_s, self._moment.tide_s
        while self._watched and self._watched[0][0] <= now_s:
            at_s, _, flow = heapq.heappop(self._watched)
            log = flow.log
            stale = flow not in self._hosts[flow.broker].flows or flow.broker not in log.record.isr
            if stale or at_s < flow.behind_since_s + self._lag_time_max_s:
                continue
            if log.writing and log.end_at(tide_s) - flow.position_at(now_s) > NOTHING:
                late.append(flow)
            self._watch(flow)
        return late

    def _take_out(self, log: Log) -> None:
        self.ledger.subtract(log, self._moment.tide_s)
        log.settle(self._moment.tide_s)

    def _assign(self, log: Log, record: Registration) -> None:
        before = log.record
        if before.leader != record.leader:
            for flow in log.flows():
                self.channels.stop(flow, self._moment)
            self._follow(log, record)
        for broker in before.replicas:
            if broker not in record.replicas:
                self._remove(log, broker)
        log.record = record
        self._drop_joined(log)
        for broker in record.replicas:
            if broker not in before.replicas:
                self._hosts[broker].log_dirs.place(log)
                self._set_apart(log, broker, log.start)
                self._delay(log, broker)

    def _delay(self, log: Log, broker: int) -> None:
        if self._copy_start_s and log.apart:
            flow = log.apart[broker]
            flow.starts_s = self._moment.now_s + self._copy_start_s
            heapq.heappush(self._starting, (flow.starts_s, next(self._number), flow))

    def _change_isr(self, log: Log, record: Registration) -> None:
        shrinks = any(broker not in record.isr for broker in log.record.isr)
        log.record = record
        self._drop_joined(log)
        if shrinks:
            self.rearrange(log)
        else:
            self._route_all(log)

    def _drop_joined(self, log: Log) -> None:
        if self.outside:
            for broker in log.record.isr:
                self.outside.pop((log.tp, broker), None)

    def _follow(self, log: Log, record: Registration) -> None:
        """Make a new leader's log the partition's log; replicas with more data truncate theirs."""
        apart = log.apart or {}
        if record.leader in apart:
            leading = apart[record.leader]
            log.end = leading.position
            log.start = min(log.start, log.end)
            self._forget(log, leading.broker)
        for flow in log.flows():
            flow.position = min(flow.position, log.end)
            if flow.path is None and flow.broker in record.isr:
                self._watch(flow)

    def _arrange(self, log: Log) -> None:
        record = log.record
        leader = record.leader
        log.writing = leader is not None and self._serves(log, leader)
        if log.writing:
            apart = log.apart or ()
            for broker in record.replicas:
                if (
                    broker != leader
                    and broker not in apart
                    and not self._stays_in_step(log, broker)
                ):
                    self._set_apart(log, broker, log.end)
        self._route_all(log)

    def _stays_in_step(self, log: Log, broker: int) -> bool:
        if not self._serves(log, broker):
            return False
        return broker in log.record.isr or (log.tp, broker) in self.outside

    def _serves(self, log: Log, broker: int) -> bool:
        host = self._hosts[broker]
        return host.up and log not in host.log_dirs.lost

    def _route_all(self, log: Log) -> None:
        if log.apart is None and log.futures is None:
            return
        for flow in (log.futures or {}).values():  # the log's growth may have changed
            self.channels.stop(flow, self._moment)
        for flow in log.flows():
            key = self._key(flow)
            if flow.channel is None or flow.channel.key != key:
                self.channels.stop(flow, self._moment)
                if key is not None:
                    self.channels.start(flow, key, self._moment)

    def _key(self, flow: Flow) -> ChannelKey | None:
        log, broker = flow.log, flow.broker
        leader = log.record.leader
        if not self._serves(log, broker) or self._moment.now_s < flow.starts_s:
            return None
        if flow.path is not None:  # copies what the replica has, once that is in step
            in_step = broker not in (log.apart or ())
            return (broker, broker, False, False) if in_step else None
        if not log.writing or leader is None:
            return None
        topic, number = log.topic, log.partition
        follower_bound = (number, broker) in topic.followers_listed
        leader_bound = (number, leader) in topic.leaders_listed and broker not in log.record.isr
        return leader, broker, follower_bound, leader_bound

    def _set_apart(self, log: Log, broker: int, position: float) -> None:
        flow = Flow(log, broker, position, self._moment.now_s)
        if log.apart is None:
            log.apart = {}
        log.apart[broker] = flow
        self._hosts[broker].flows[flow] = None
        self.outside.pop((log.tp, broker), None)
        if broker in log.record.isr:
            self._watch(flow)

    def _remove(self, log: Log, broker: int) -> None:
        self._forget(log, broker)
        self._end_move(log, broker)
        self._hosts[broker].log_dirs.remove(log)

    def _end_move(self, log: Log, broker: int) -> None:
        flow = log.futures.pop(broker, None) if log.futures else None
        if flow is not None:
            self.channels.stop(flow, self._moment)
            del self._hosts[broker].flows[flow]
            if not log.futures:
                log.futures = None  # as in `_forget`

    def _forget(self, log: Log, broker: int) -> None:
        flow = log.apart.pop(broker, None) if log.apart else None
        if flow is not None:
            self.channels.stop(flow, self._moment)
            del self._hosts[broker].flows[flow]
            if not log.apart:
                log.apart = None  # log and flow refer to each other and are never collected
        if self.outside:
            self.outside.pop((log.tp, broker), None)

    def _watch(self, flow: Flow) -> None:
        flow.behind_since_s = self._moment.now_s
        until_s = flow.behind_since_s + self._lag_time_max_s
        heapq.heappush(self._watched, (until_s, next(self._number), flow))


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
        """Give each channel what its busier broker allows; throttled copies add no load."""
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
