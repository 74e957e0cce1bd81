"""Running totals per broker of in-step replicas: their traffic and their bytes."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable

from ktui.simulated.data.logs import Log


class Ledger:
    """The traffic and bytes on each broker of logs and the followers in step with them.

    A log is taken out before anything about it changes, and put back afterwards. So a cluster in
    which nothing changes costs nothing. Rates are averages, to be multiplied by the tide's factor.
    """

    def __init__(self, brokers: Iterable[int]) -> None:
        self.into = dict.fromkeys(brokers, 0.0)
        """Rate into each broker and onto its disk, from producers and as a follower."""
        self.produced = dict.fromkeys(self.into, 0.0)
        """The part of `into` that producers write."""
        self.out = dict.fromkeys(self.into, 0.0)
        """Rate from each broker to followers."""
        self.follower_listed = dict.fromkeys(self.into, 0.0)
        """The part of `into` that counts for the follower's throttle."""
        self.leader_listed = dict.fromkeys(self.into, 0.0)
        """The part of `out` that counts for the leader's throttle."""
        self._held = dict.fromkeys(self.into, 0.0)
        self._growth = dict.fromkeys(self.into, 0.0)
        self._number = itertools.count()
        self._filling: list[tuple[float, int, Log]] = []

    def put(self, log: Log, tide_s: float) -> None:
        """Add a log as it is now; the log has just been settled."""
        log.growth = log.inbound
        full_at = log.full_at()
        if full_at is not None:
            if full_at > tide_s:
                heapq.heappush(self._filling, (full_at, next(self._number), log))
            else:
                log.growth = 0.0
        self._count(log, tide_s, 1)

    def take(self, log: Log, tide_s: float) -> None:
        """Subtract a log as it has been since `put`."""
        self._stop_full(tide_s)
        self._count(log, tide_s, -1)
        log.growth = 0.0

    def held(self, broker: int, tide_s: float) -> float:
        """Return the bytes that a broker holds of logs that it is in step with."""
        self._stop_full(tide_s)
        return self._held[broker] + self._growth[broker] * tide_s

    def growth(self, broker: int) -> float:
        """Return the growth of `held`, in bytes per second of average traffic."""
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
        """Stop the growth of logs that have reached retention.bytes."""
        while self._filling and self._filling[0][0] <= tide_s:
            log = heapq.heappop(self._filling)[2]
            full_at = log.full_at()
            if log.growth and full_at is not None and full_at <= tide_s:
                leader = log.record.leader
                holders = log.in_step() + ([] if leader is None else [leader])
                self._grow(holders, log.growth * full_at, -log.growth)
                log.growth = 0.0
