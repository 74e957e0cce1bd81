"""Peaks of a simulated run: extra replicas, disk bytes and fetch traffic at one time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.pacing.decision import WantedPartition
from ktui.pacing.situation import Situation


class HeldResources:
    """Extra replicas, and bytes by broker, held beyond those at the start."""

    def __init__(self) -> None:
        self.peak_extra = 0
        self.peak_bytes: Counter[int] = Counter()
        self._bytes: defaultdict[int, int] = defaultdict(int)
        self._extra: dict[TopicPartition, int] = {}
        """The extra replicas of partitions; below 0, how many may be added before one is extra."""
        self._all_extra = 0

    def begins(self, one: WantedPartition, adds: Brokers) -> None:
        """Count the replicas that a step adds, at full size from its beginning."""
        if not adds:
            return
        before = self._extra.get(one.tp)
        if before is None:
            before = _extra_replicas(one, one.situation)
        self._count(one.tp, before, before + len(adds))
        for broker in adds:
            held = self._bytes[broker] = self._bytes[broker] + one.size
            self.peak_bytes[broker] = max(self.peak_bytes[broker], held)

    def ends(self, one: WantedPartition, drops: Brokers, now: Situation) -> None:
        """Subtract the replicas that a step drops."""
        if not drops:
            return
        for broker in drops:
            self._bytes[broker] -= one.size
        if one.tp in self._extra:
            self._count(one.tp, self._extra[one.tp], _extra_replicas(one, now))
        if now.replicas == now.target:
            self._extra.pop(one.tp, None)

    def _count(self, tp: TopicPartition, before: int, held: int) -> None:
        self._extra[tp] = held
        self._all_extra += max(0, held) - max(0, before)
        self.peak_extra = max(self.peak_extra, self._all_extra)


class FetchTraffic:
    """Bytes a second written to, and fetched of, the partitions being copied."""

    def __init__(self, inbound: Mapping[TopicPartition, int]) -> None:
        self.peak_written: Counter[int] = Counter()
        self.peak_sent: Counter[int] = Counter()
        self._inbound = inbound
        self._written: Counter[int] = Counter()
        self._sent: Counter[int] = Counter()
        self._sent_by: dict[TopicPartition, tuple[int, int]] = {}
        """The leader during the copy, and the bytes a second that its followers need."""

    def begins(self, tp: TopicPartition, now: Situation, adds: Brokers) -> None:
        """Count a partition whose copies begin."""
        bytes_s = self._inbound.get(tp)
        if not bytes_s:
            return
        for broker in adds:
            self._add(self._written, self.peak_written, broker, bytes_s)
        if now.leader is not None:
            needed = (len(now.replicas) - 1 + len(adds)) * bytes_s
            self._sent_by[tp] = now.leader, needed
            self._add(self._sent, self.peak_sent, now.leader, needed)

    def copied(self, tp: TopicPartition, broker: int) -> None:
        """Subtract a copy that has caught up."""
        self._written[broker] -= self._inbound.get(tp, 0)

    def over(self, tp: TopicPartition) -> None:
        """Subtract a partition whose copies are all in sync."""
        if tp in self._sent_by:
            leader, bytes_s = self._sent_by.pop(tp)
            self._sent[leader] -= bytes_s

    @staticmethod
    def _add(now: Counter[int], peak: Counter[int], broker: int, bytes_s: int) -> None:
        now[broker] += bytes_s
        peak[broker] = max(peak[broker], now[broker])


def _extra_replicas(one: WantedPartition, now: Situation) -> int:
    """The number of extra replicas; below 0, how many may be added before one is extra."""
    return len(now.replicas) - max(len(one.situation.replicas), len(one.situation.target))
