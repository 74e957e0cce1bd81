"""Replicas that are in step with their leaders, and replicas that still copy."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection

from ktui.cluster.partition import TopicPartition
from ktui.simulated.controller.records import Registration
from ktui.simulated.data.flows import NOTHING, ChannelKey, Channels, Flow, Log, TrafficMoment
from ktui.simulated.data.hosts import Host, Ledger, resources


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
