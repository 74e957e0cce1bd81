"""Flows of data from brokers to brokers, grouped by what they share."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator

from ktui.simulated.data.logs import ChannelKey, Flow
from ktui.simulated.data.traffic_cycle import TrafficMoment

NOTHING = 0.5
"""Bytes; a lag below it is the rounding of a lag of 0."""

_Entry = tuple[float, int, Flow]


class Channel:
    """Flows that use the same resources: each gets the same rate.

    One that began `n` bytes behind, on a log written to at `inbound`, has caught up when
    `served - inbound * tide` has risen by `n`. So a queue per inbound, in that order, knows which
    is next whatever the rate becomes.
    """

    def __init__(self, key: ChannelKey, resources: tuple[int, ...]) -> None:
        self.key = key
        self.resources = resources
        self.rate = 0.0
        """Bytes a second, of each flow."""
        self.count = 0
        self.queues: dict[float, list[_Entry]] = {}
        self._losing: set[float] = set()
        """The inbound rates that no flow here gains on."""
        self.finish_s = math.inf
        """When the next flow has caught up, if nothing changes."""
        self._factor = 1.0
        self._altered = True
        self._served = 0.0
        self._since_s = 0.0

    def served_at(self, now_s: float) -> float:
        """Give the bytes that a flow has got which was here from the beginning."""
        return self._served + self.rate * (now_s - self._since_s)

    def set_rate(self, rate: float, moment: TrafficMoment) -> None:
        """Change the rate from now on, and find what that means for who catches up when."""
        if rate == self.rate and moment.factor == self._factor and not self._altered:
            return
        self._served = self.served_at(moment.now_s)
        self._since_s = moment.now_s
        stops, self.rate = self.rate > 0 and not rate, rate
        for inbound, queue in self.queues.items():
            if rate <= inbound * moment.factor:
                self._losing.add(inbound)
                if stops:
                    self._skip_gone(queue, moment)
            elif inbound in self._losing:
                self._losing.discard(inbound)
                self._skip_gone(queue, moment)
        self.finish_s = self._next_finish_s(moment)
        self._factor, self._altered = moment.factor, False

    def join(self, flow: Flow, entry: int, moment: TrafficMoment) -> None:
        """Let a flow begin that stood still; what its leader no longer has it skips."""
        flow.entry = entry
        queue = self.queues.setdefault(flow.log.inbound, [])
        heapq.heappush(queue, self._entry(flow, moment))
        self.count += 1
        self._altered = True

    def leave(self, flow: Flow, moment: TrafficMoment) -> None:
        """Let a flow stand still from now on."""
        flow.position = flow.end_at(moment.now_s, moment.tide_s)
        flow.channel, flow.entry = None, -1
        self.count -= 1
        self._altered = True

    def finished(self, moment: TrafficMoment) -> Iterator[Flow]:
        """Take off the queues the flows that have caught up and gain on their leaders."""
        self._altered = True
        served = self.served_at(moment.now_s)
        for inbound, queue in self.queues.items():
            if self.rate <= inbound * moment.factor:
                continue
            caught_up = served - inbound * moment.tide_s + NOTHING
            while _drop_stale(queue) and queue[0][0] <= caught_up:
                yield heapq.heappop(queue)[2]

    def _next_finish_s(self, moment: TrafficMoment) -> float:
        served, soonest = self.served_at(moment.now_s), math.inf
        for inbound, queue in self.queues.items():
            gain = self.rate - inbound * moment.factor
            if gain > 0 and _drop_stale(queue):
                lag = queue[0][0] - served + inbound * moment.tide_s
                soonest = min(soonest, max(0.0, lag) / gain)
        return moment.now_s + soonest

    def _entry(self, flow: Flow, moment: TrafficMoment) -> _Entry:
        """Let a flow go on from where it is, or from where the log now begins."""
        log, served = flow.log, self.served_at(moment.now_s)
        flow.position = max(flow.position_at(moment.now_s), log.start_at(moment.tide_s))
        flow.channel, flow.base = self, served
        lag = log.end_at(moment.tide_s) - flow.position
        return lag + served - log.inbound * moment.tide_s, flow.entry, flow

    def _skip_gone(self, queue: list[_Entry], moment: TrafficMoment) -> None:
        """Let flows that lost ground leave out what retention has deleted ahead of them."""
        queue[:] = [self._entry(flow, moment) for _, entry, flow in queue if flow.entry == entry]
        heapq.heapify(queue)


def _drop_stale(queue: list[_Entry]) -> bool:
    """Take off the entries of flows that have left, and tell whether any is there."""
    while queue and queue[0][2].entry != queue[0][1]:
        heapq.heappop(queue)
    return bool(queue)


class Channels:
    """All flows that copy.

    Args:
        resources: gives the resources that a key's flows use, for `max_min_rates`.
    """

    def __init__(self, resources: Callable[[ChannelKey], tuple[int, ...]]) -> None:
        self._resources = resources
        self._number = itertools.count()
        self._channels: dict[ChannelKey, Channel] = {}

    def __len__(self) -> int:
        return len(self._channels)

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._channels.values())

    def start(self, flow: Flow, key: ChannelKey, moment: TrafficMoment) -> None:
        """Have a flow that stands still copy through the channel of this key."""
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = Channel(key, self._resources(key))
        channel.join(flow, next(self._number), moment)

    def stop(self, flow: Flow, moment: TrafficMoment) -> None:
        """Have a flow stand still."""
        if flow.channel is not None:
            channel = self._channels[flow.channel.key]
            channel.leave(flow, moment)
            if not channel.count:
                del self._channels[channel.key]
