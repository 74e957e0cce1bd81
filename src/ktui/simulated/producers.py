"""Producers with acks=all on a simulated cluster, and how long they wait.

A broker that is busy for a share `u` of its time
answers half of its requests within 1 / (1 - u^4) of the time that one at rest takes: hardly later,
until it is nearly always busy. Its latest hundredth grows with e^u long before. On six real brokers
this came closer than the form of a queue, 1 / (1 - u), and than one spread at every load.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.simulated.controller.records import RecordChange
from ktui.simulated.core import SimulatedCore
from ktui.simulated.data.flows import Log

Z99 = 2.326  # the 99th percentile of a normal distribution, in standard deviations from its mean
_STEEPNESS = 4
_LEAST_SPREAD = 0.1


class LatencyModel(msgspec.Struct, frozen=True, kw_only=True):
    """The constants, as fitted to six real brokers on two cores by `python -m bench latency`."""

    rest_s: float = 0.0095  # median seconds of a produce request while nothing else is done
    rest_p99_s: float = 0.019  # the 99th percentile of the same
    growth: float = 3.9  # log of how many times as high it is where a broker is always busy
    most_busy: float = 0.98  # no broker is busier: who copies asks for more only after an answer
    backoff_alone: float = 0.9  # the chance that a follower learns of an epoch too early, for one
    backoff_power: float = 0.6  # of n epochs rising together, each has a chance n^this times lower
    held_back_s: tuple[float, float] = (1.0, 9.0)
    """Seconds for which a broker holds back a replica in sync, once its throttle is used up."""


class Latency(NamedTuple):
    """How long produce requests take, log-normally distributed."""

    median_s: float
    p99_s: float

    @property
    def spread(self) -> float:
        return max(_LEAST_SPREAD, math.log(self.p99_s / self.median_s) / Z99)

    def drawn_s(self, chance: random.Random) -> float:
        return self.median_s * math.exp(self.spread * chance.gauss())

    def late_share(self, late_s: float) -> float:
        return 0.5 * math.erfc(math.log(late_s / self.median_s) / (self.spread * math.sqrt(2)))


def latency(model: LatencyModel, leader: float, followers: Collection[float]) -> Latency:
    """Return how long produce requests take; `leader` is its busy share of time, 0 to 1."""
    slowest = max(followers, default=0.0)
    median_s = model.rest_s * (_slower(model, leader) + _slower(model, slowest)) / 2
    busiest = min(max(leader, slowest), model.most_busy)
    return Latency(median_s, model.rest_p99_s * math.exp(model.growth * busiest))


def _slower(model: LatencyModel, busy: float) -> float:
    return 1 / (1 - min(busy, model.most_busy) ** _STEEPNESS)


def backoff_chance(model: LatencyModel, together: int) -> float:
    """Return the chance that a partition waits for a follower's back-off when its epoch rises."""
    return model.backoff_alone * math.pow(together, -model.backoff_power)


WINDOW_S = 10  # seconds of records by which a percentile is taken
RECORDS_S = 20  # records that are drawn each second for each broker
LATE_S = 0.3  # seconds after which a record counts as stalled


_OF_A_CANARY = TopicPartition("", 0)  # what a broker leads to which nobody else writes


class Produced(NamedTuple):
    """One record, in seconds until it was acknowledged."""

    machine_s: float  # by what the brokers' machines have to do
    wait_s: float  # until its partition acknowledges again; 0 for one that does

    @property
    def took_s(self) -> float:
        return max(self.machine_s, self.wait_s)


class Second(msgspec.Struct, frozen=True):
    """The records of the second that ends at `at_s`, by the broker that leads their partition."""

    at_s: float
    records: Mapping[int, Sequence[Produced]]
    stalled_s: float  # partition-seconds in which a record has waited for more than `LATE_S`


class _Wait(NamedTuple):
    since_s: float
    until_s: float


class Producers:
    """Draw how long records wait, each second from `start` on."""

    problem = "the canary has not written for long enough"

    def __init__(
        self,
        core: SimulatedCore,
        *,
        model: LatencyModel | None = None,
        seed: int = 0,
        keep_s: int | None = WINDOW_S,
    ) -> None:
        self.seconds: deque[Second] = deque(maxlen=keep_s)
        self._core = core
        self._model = model or LatencyModel()
        self._chance = random.Random(seed)  # noqa: S311 - a simulation's dice
        self._rose: list[tuple[float, TopicPartition, float]] = []
        self._waits: dict[TopicPartition, _Wait] = {}
        self._started = False

    def start(self) -> None:
        if not self._started:
            self._started = True
            self._core.listen(self._decided)
            self._core.at(self._core.now_s + 1, self._second)

    def percentiles_s(self, percent: float) -> Mapping[int, float]:
        """Return what a canary measures: its partitions never move, and feel busy machines only."""
        return percentiles_s(list(self.seconds)[-WINDOW_S:], percent)

    def _decided(self, change: RecordChange) -> None:
        before, after, tp, now_s = change.before, change.after, change.tp, self._core.now_s
        if before is None or after is None or after.leader is None:
            return
        followers = [broker for broker in after.isr if broker != after.leader]
        rose = after.leader_epoch > before.leader_epoch
        if rose and followers:
            configs = self._core.controller.configs
            backoffs = [configs.broker_config(b).fetch_backoff_ms or 0 for b in followers]
            self._rose.append((now_s, tp, max(backoffs) / 1000))
        affected = followers if rose else [b for b in followers if b not in before.isr]
        if any(self._core.replication.holds_back(tp, broker) for broker in affected):
            self._wait(tp, now_s, self._chance.uniform(*self._model.held_back_s))

    def _wait(self, tp: TopicPartition, since_s: float, seconds: float) -> None:
        known = self._waits.get(tp)
        if known is not None and known.until_s >= since_s:
            since_s, seconds = known.since_s, max(known.until_s, since_s + seconds) - known.since_s
        self._waits[tp] = _Wait(since_s, since_s + seconds)

    def _draw_backoffs(self) -> None:
        together = Counter(at_s for at_s, _, _ in self._rose)
        for at_s, tp, backoff_s in self._rose:
            if self._chance.random() < backoff_chance(self._model, together[at_s]):
                self._wait(tp, at_s, backoff_s)
        self._rose.clear()

    def _second(self) -> None:
        now_s = self._core.now_s
        self._core.at(now_s + 1, self._second)
        self._draw_backoffs()
        busy = self._core.replication.busy()
        led: dict[int, list[tuple[TopicPartition, Latency]]] = {}
        for log in self._core.replication.written():
            leader, felt = _leader_and_latency(self._model, log, busy)
            led.setdefault(leader, []).append((log.tp, felt))
        stalled_s = sum(felt.late_share(LATE_S) for of in led.values() for _, felt in of)
        stalled_s += sum(_overlap(wait, now_s - 1, now_s) for wait in self._waits.values())
        for broker in busy.keys() - led.keys():  # a canary has a partition led by each broker
            led[broker] = [(_OF_A_CANARY, latency(self._model, busy[broker], ()))]
        records = {broker: self._drawn(led[broker], now_s - 1) for broker in sorted(led)}
        self.seconds.append(Second(now_s, records, stalled_s))
        over = [tp for tp, wait in self._waits.items() if wait.until_s <= now_s]
        for tp in over:
            del self._waits[tp]

    def _drawn(
        self, led: Sequence[tuple[TopicPartition, Latency]], since_s: float
    ) -> list[Produced]:
        drawn = []
        for tp, felt in self._chance.choices(led, k=RECORDS_S):
            sent_s = since_s + self._chance.random()
            wait = self._waits.get(tp)
            waits_s = 0.0
            if wait is not None and wait.since_s <= sent_s < wait.until_s:
                waits_s = wait.until_s - sent_s
            drawn.append(Produced(felt.drawn_s(self._chance), waits_s))
        return drawn


def _leader_and_latency(
    model: LatencyModel, log: Log, busy: Mapping[int, float]
) -> tuple[int, Latency]:
    leader, isr = log.record.leader, log.record.isr
    if leader is None:
        raise ValueError(f"nothing is written to {log.tp}, which has no leader")
    return leader, latency(model, busy[leader], [busy[b] for b in isr if b != leader])


def _overlap(wait: _Wait, since_s: float, until_s: float) -> float:
    """Return the seconds of a period in which a record has waited for more than `LATE_S`."""
    late_s = wait.since_s + LATE_S
    return max(0.0, min(wait.until_s, until_s) - max(late_s, since_s))


def percentiles_s(seconds: Sequence[Second], percent: float) -> Mapping[int, float]:
    """Return each broker's percentile in seconds, without waits; empty below `WINDOW_S`."""
    if len(seconds) < WINDOW_S:
        return {}
    of: dict[int, list[float]] = {}
    for second in seconds:
        for broker, records in second.records.items():
            of.setdefault(broker, []).extend(record.machine_s for record in records)
    return {broker: rank(took, percent) for broker, took in of.items()}


def rank(values: Sequence[float], percent: float) -> float:
    """Return the value that `percent` of the values do not exceed."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]
