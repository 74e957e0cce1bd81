"""What polls showed of the few partitions that are open: more than every timeline remembers."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from operator import attrgetter

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Timeline

MOST_SAMPLES = 480
MOST_PARTITIONS = 8
_SECOND = attrgetter("at_s")


class RateSample(msgspec.Struct, frozen=True, gc=False):
    """The rates of a partition at one poll, in bytes a second; None where unknown."""

    at_s: float
    copied_s: float | None
    written_s: float | None
    in_sync: int | None  # replicas in the ISR


class RateMemory:
    """The samples of one partition, oldest first; twice as far apart each time they are many."""

    def __init__(self) -> None:
        self._samples: list[RateSample] = []
        self._apart_s = 0.0

    def note(self, timeline: Timeline, now_s: float) -> None:
        """Add a poll; one of an earlier time, of a recording, drops those after it."""
        samples, state = self._samples, timeline.state
        del samples[bisect_left(samples, now_s, key=_SECOND) :]
        if len(samples) > 1 and now_s - samples[-2].at_s < self._apart_s:
            samples.pop()  # the newest one stands in for those to come
        in_sync = len(state.isr) if state.described else None
        copied_s = None if timeline.phase.ended else timeline.rate_bytes_s
        samples.append(RateSample(now_s, copied_s, timeline.inbound_bytes_s, in_sync))
        if len(samples) > MOST_SAMPLES:
            del samples[1:-1:2]
            self._apart_s = max(1.0, 2.0 * self._apart_s)

    def last_before(self, at_s: float, within_s: float) -> RateSample | None:
        """Return the last sample before a moment; None if it is older than `within_s`."""
        place = bisect_left(self._samples, at_s, key=_SECOND) - 1
        found = self._samples[place] if place >= 0 else None
        return None if found is None or at_s - found.at_s > within_s else found


class OpenPartitions:
    """The memories of the partitions that were open last."""

    def __init__(self) -> None:
        self._memories: OrderedDict[TopicPartition, RateMemory] = OrderedDict()

    def memory(self, tp: TopicPartition) -> RateMemory:
        memory = self._memories.pop(tp, None) or RateMemory()
        self._memories[tp] = memory
        if len(self._memories) > MOST_PARTITIONS:
            self._memories.popitem(last=False)
        return memory
