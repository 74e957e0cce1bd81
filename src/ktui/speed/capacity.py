"""The rates at which each broker receives, learned from a run's own copies.

A rate is bytes by busy time: the seconds in which a broker had something to copy, also those in
which nothing came. So the gulps of a throttle, slow fetches and the seconds until a copy begins are
in it, as for the copies to come. Without a throttle the busier of its two brokers limits a copy, so
ktui also learns how fast copies would have been by themselves.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Annotated

import msgspec

from ktui.cluster.broker import BrokerConfig
from ktui.insights import NonNegativeInt, Prior
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates
from ktui.speed.answer import Basis, Misfit, Source, Span
from ktui.speed.copies import CopiesOfBothEnds, CopyLoad, Pair, speedup

ASSUMED = Span(20e6, 50e6, 100e6)
"""The assumed bytes a second of a copy by itself, without a throttle, until one was seen: a guess,
on which only times that say "assumed" rest.
"""
THROTTLED = Span(0.35, 0.6, 1.4)
"""The share of a throttle that copies are expected to get.

It differs between clusters: in all labs of `bench/forecast`, copies got 0.36 to 0.56 of their
throttle, at 2 to 7 MB/s and whatever the size of partitions; on real clusters of 4.3.1 and 4.4.0,
0.76 to 0.99 at 3 to 25 MB/s. Producers of the labs had written batches of hundreds of kB, those of
the others small ones; that this explains the difference is a guess that nobody has proved. Short
copies get more than all of it: what their broker has not used in the last 11 s. With all or half of
it as the middle, forecasts of the first minute miss by up to two thirds more
(bench/forecast/ablation.py). A narrower range would leave one kind of cluster out.
"""
OF_THROTTLE = Span(1 / 1.3, 1.0, 1.3)
"""The range of that share where many earlier runs have shown it.

With producers, runs of labs took up to 1.3 times as long; one on an idle 4.4.0 took 0.77 of what
two at a higher throttle promised.
"""
_FEW_OF_THROTTLE = 0.15
"""How much wider that range is where one run alone showed the share; with n runs, an nth of it."""
MANY = 100  # copies at once with which a broker takes in about as much as it can
BINDS = 0.7
"""A broker that receives this share of its throttle is limited by it: it could receive more.

Throttled brokers of labs received 0.5 to 1.1. With 0.9, forecasts stay the same to a point
(bench/forecast/ablation.py); much lower, slow brokers would count as throttled.
"""
UNSURE = 1.15  # the least range of a rate to either side: runs differ more than a run's brokers do
ONE_RUN = 0.75
"""What the range reaches beyond the rate where one run showed it; with n runs, an nth of it.

Later runs on the same five brokers took 0.7 to 1.7 times as long as one had promised.
"""
_MISFIT = 1.3
"""How much wider the range is for each misfit: chosen, not fitted. Less would promise too much."""
_LARGER = 4.0
"""Partitions so many times as large as any copied before are another case: small ones fit into page
caches. Chosen, not fitted, as all labs' partitions are alike.
"""
_SPAN_S = 120.0
"""Busy seconds after which what was copied counts for a third.

With 20 s, forecasts follow each gulp of a throttle and miss by a tenth more
(bench/forecast/ablation.py).
"""
_DOUBT_S = 5.0
"""A broker's expected rate counts as so many seconds in which it was seen.

With none or 20 s, forecasts miss by up to a third more (bench/forecast/ablation.py).
"""
_ENOUGH_S = 4.0
"""Busy seconds of all brokers from which on a run has shown how fast it copies.

Less changes little (bench/forecast/ablation.py); with more, first forecasts rest on earlier runs
for longer.
"""


class _Seen(msgspec.Struct):
    """What a broker has received under one throttle; older seconds count less."""

    throttle: int | None
    size: float
    alone: float
    seconds: float

    @property
    def bytes_s(self) -> float:
        return self.size / self.seconds

    @property
    def bound(self) -> bool:
        return self.throttle is not None and self.bytes_s >= BINDS * self.throttle


def _was_free(seen: _Seen) -> bool:
    return seen.throttle is None


Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
"""Bytes or seconds, small enough that no sum of them overflows."""
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**30)]


class BrokerShown(msgspec.Struct, frozen=True):
    """What a broker has received under one throttle, while it had something to copy."""

    broker: int
    throttle: NonNegativeInt | None
    bytes: Amount
    alone: Amount
    seconds: Amount
    at_once: _Count

    def added_to(self, before: BrokerShown | None) -> BrokerShown:
        if before is None:
            return self
        return BrokerShown(
            self.broker,
            self.throttle,
            before.bytes + self.bytes,
            before.alone + self.alone,
            before.seconds + self.seconds,
            max(before.at_once, self.at_once),
        )


class CapacityMemory(msgspec.Struct):
    """What was learned of brokers so far."""

    seen: dict[int, _Seen] = {}
    received: dict[tuple[int, int | None], BrokerShown] = {}  # by broker and throttle
    busy_s: float = 0.0

    def shown(self, more: BrokerShown) -> None:
        key = more.broker, more.throttle
        self.received[key] = more.added_to(self.received.get(key))


class Case(msgspec.Struct, frozen=True):
    """What is to be copied, to be compared with what earlier runs have copied."""

    onto: tuple[int, ...] = ()
    largest: int = 0  # the bytes of the largest partition; 0 while unknown
    brokers: int = 0  # the number of brokers of the cluster; 0 while unknown


ANY_CASE = Case()


class Capacity:
    """Learn how fast brokers receive: by this run's copies, else earlier runs, else assumed.

    `share` is of a throttle that copies are expected to get, None for the usual one. `given`
    overrides what is known: what each broker takes in, in bytes a second.
    """

    def __init__(
        self,
        prior: Prior | None = None,
        memory: CapacityMemory | None = None,
        share: float | None = None,
        given: float | None = None,
    ) -> None:
        self.prior = prior
        self.given = None if given is None else float(given)  # plain, for JSON
        self._share = share_of_throttle(prior) if share is None else share
        self._memory = CapacityMemory() if memory is None else memory

    @property
    def known(self) -> bool:
        return self._memory.busy_s >= _ENOUGH_S

    def learn(
        self, copied: Sequence[tuple[Pair, float]], seconds: float, throttle: ThrottleRates
    ) -> None:
        """Learn from a period: the bytes that each copy has received, which may be none."""
        load = CopyLoad(throttle.leaves_free, (pair for pair, _ in copied))
        sizes, alone = defaultdict[int, float](float), defaultdict[int, float](float)
        for pair, size in copied:
            sizes[pair[1]] += size
            alone[pair[1]] += size * load.slows(pair) / load.onto(pair[1])
        begun = [self._begun(broker, throttle.of(broker)) for broker in sizes]
        kept = math.exp(-seconds / _SPAN_S)
        for (broker, received), seen in zip(sizes.items(), begun, strict=True):
            self._memory.seen[broker] = seen
            seen.size = kept * seen.size + max(0.0, received)
            seen.alone = kept * seen.alone + max(0.0, alone[broker])
            seen.seconds = kept * seen.seconds + seconds
            self._memory.busy_s += seconds
            self._memory.shown(
                BrokerShown(
                    broker,
                    seen.throttle,
                    max(0.0, received),
                    max(0.0, alone[broker]),
                    seconds,
                    load.onto(broker),
                )
            )

    def _begun(self, broker: int, limit: int | None) -> _Seen:
        seen = self._memory.seen.get(broker)
        if seen is not None and seen.throttle == limit:
            return seen
        if limit is None and self._usual_alone() is None:
            return _Seen(limit, 0.0, 0.0, 0.0)
        expected, alone = self.takes(broker, MANY, limit), self.alone(broker)
        return _Seen(limit, expected * _DOUBT_S, alone * _DOUBT_S, _DOUBT_S)

    def under(self, throttle: ThrottleRates, case: Case = ANY_CASE) -> Rates:
        return Rates(self, throttle, case)

    @property
    def joining_s(self) -> int:
        """The seconds of a step that adds, beside copying, until this run has shown them."""
        return 0 if self.prior is None else round(self.prior.step_s)

    @property
    def usual_bytes_s(self) -> float:
        """The most that a broker of which nothing is known takes in, in bytes a second."""
        return self._expected_alone * speedup(MANY)

    def takes(self, broker: int, at_once: int, throttle: int | None) -> float:
        """The bytes a second that a broker receives: under a throttle, its usual share of it."""
        seen = self._memory.seen.get(broker)
        if throttle is not None and seen is not None and seen.throttle is not None:
            if seen.bound and seen.throttle != throttle:
                return min(1.0, seen.bytes_s / seen.throttle) * throttle
            return min(seen.bytes_s, throttle)
        free = self.alone(broker) * speedup(at_once)
        if throttle is None:
            return free
        if seen is not None:
            return min(free, throttle)
        return min(free, self._usual_share() * throttle)

    def alone(self, broker: int) -> float:
        seen = self._memory.seen.get(broker)
        if seen is not None and seen.seconds and not seen.bound:
            return seen.alone / seen.seconds
        if self.prior is not None and not any(map(_was_free, self._memory.seen.values())):
            return self.prior.alone.get(broker, self._expected_alone)
        return self._expected_alone

    @property
    def _expected_alone(self) -> float:
        usual = self._usual_alone()
        return ASSUMED.middle if usual is None else usual

    def _usual_alone(self) -> float | None:
        free = list(filter(_was_free, self._memory.seen.values()))
        if seconds := sum(seen.seconds for seen in free):
            return sum(seen.alone for seen in free) / seconds
        return None if self.prior is None else self.prior.curve.bytes_s(1, None)

    def _usual_share(self) -> float:
        size, granted = 0.0, 0.0
        for seen in self._memory.seen.values():
            if seen.throttle is not None:
                size += seen.size
                granted += seen.seconds * seen.throttle
        return min(1.0, size / granted) if granted else self._share


class Rates:
    """The rates of copies under a throttle, by what is known at one moment."""

    def __init__(self, capacity: Capacity, throttle: ThrottleRates, case: Case = ANY_CASE) -> None:
        self._capacity = capacity
        self._case = case
        self._given = capacity.given
        self.limit = cache(throttle.of)
        self._alone = cache(capacity.alone)
        self.takes = cache(self._takes)
        self.spread = cache(self._spread)

    def limits_of(self, brokers: Iterable[int]) -> tuple[BrokerRate, ...]:
        """Return the throttles of brokers that have one below the rate given."""
        limits = ((broker, self.limit(broker)) for broker in sorted(brokers))
        return tuple(
            BrokerRate(broker, limit)
            for broker, limit in limits
            if limit is not None and (self._given is None or limit < self._given)
        )

    def is_free(self, broker: int) -> bool:
        """Whether copies onto a broker are as fast as its machines let them."""
        return self._given is None and self.limit(broker) is None

    def _takes(self, broker: int, at_once: int) -> float:
        """Return the bytes a second that a broker takes in while it copies `at_once` replicas."""
        limit = self.limit(broker)
        if self._given is None:
            return max(1.0, self._capacity.takes(broker, at_once, limit))
        return max(1.0, self._given if limit is None else min(self._given, limit))

    def of_copy(self, pair: Pair, load: CopyLoad) -> float:
        broker = pair[1]
        if self._given is None and self.limit(broker) is None:
            return max(1.0, self._alone(broker) / load.slows(pair))
        at_once = load.onto(broker)
        return self.takes(broker, at_once) / at_once

    def load(self, pairs: Iterable[Pair] = ()) -> CopyLoad:
        return CopyLoad(self.is_free, pairs)

    def copies(self) -> CopiesOfBothEnds:
        return CopiesOfBothEnds(self.of_copy, self.load())

    def _spread(self, broker: int) -> Span:
        prior, free = self._capacity.prior, self.limit(broker) is None
        if self._given is not None:
            return Span(1.0, 1.0, 1.0)
        if prior is not None and free and prior.curve.known_to is None:
            spread, shown = spread_of(prior), True
        elif prior is not None and not free and _shows_share(prior):
            wider = 1 + _FEW_OF_THROTTLE / max(1, prior.runs)
            spread, shown = Span(OF_THROTTLE.low / wider, 1.0, OF_THROTTLE.high * wider), True
        else:
            guess = ASSUMED if free else THROTTLED
            spread, shown = guess.times(1 / guess.middle), False
        unlike = [each for each in self.basis.misfits if shown or each is not Misfit.THROTTLE]
        wider = _MISFIT ** len(unlike)
        return Span(spread.low / wider, 1.0, spread.high * wider)

    def time_s(self, seconds: float, broker: int) -> Span:
        spread = self.spread(broker)
        return Span(seconds / spread.high, seconds, seconds / spread.low)

    def time_of(self, copying_s: float, waiting_s: float, onto: Mapping[int, float]) -> Span:
        """Return how long a run takes, with the range of the broker that is ready last."""
        received = {broker: size for broker, size in onto.items() if size}
        copying = Span(0.0, 0.0, 0.0)
        if received:
            busiest = max(received, key=lambda broker: received[broker] / self.takes(broker, MANY))
            copying = self.time_s(copying_s, busiest)
        return Span(copying.low + waiting_s, copying.middle + waiting_s, copying.high + waiting_s)

    @cached_property
    def basis(self) -> Basis:
        prior = self._capacity.prior
        if self._given is not None:
            return Basis(Source.GIVEN, given_bytes_s=self._given)
        if prior is None:
            return Basis()
        case = self._case
        return Basis(
            Source.EARLIER_RUNS, prior.runs, misfits=tuple(misfits(prior, case, self.limit))
        )


def misfits(prior: Prior, case: Case, limit: Callable[[int], int | None]) -> Iterator[Misfit]:
    """Yield how earlier runs differ from a run, as far as it is known what those were like."""
    known = bool(prior.onto)
    limits = {limit(broker) for broker in case.onto}
    unknown_share = known and prior.throttle is None and limits != {None}
    if unknown_share or not all(prior.curve.carries(each) for each in limits):
        yield Misfit.THROTTLE
    if known and not set(case.onto) <= set(prior.onto):
        yield Misfit.BROKERS
    if prior.brokers is not None and case.brokers > prior.brokers:
        yield Misfit.GROWN
    if prior.largest is not None and case.largest > _LARGER * prior.largest:
        yield Misfit.SIZES


def share_of_throttle(prior: Prior | None) -> float:
    """Return the share of a throttle that copies are expected to get."""
    shown = prior is not None and _shows_share(prior)
    return prior.curve.throttled if prior is not None and shown else THROTTLED.middle


def _shows_share(prior: Prior) -> bool:
    """Whether a throttle has held copies up; else a curve has the usual share, or all of one."""
    if prior.onto:
        return prior.throttle is not None
    return prior.curve.throttled not in {1.0, THROTTLED.middle}


def spread_of(prior: Prior) -> Span:
    """Return the range of a rate that earlier runs have shown, as factors of it."""
    unsure = max(UNSURE, 1 + ONE_RUN / max(1, prior.curve.unthrottled_runs))
    return Span(min(1 / unsure, prior.curve.low), 1.0, max(unsure, prior.curve.high))


def with_present_rates(
    throttle: ThrottleRates, onto: Collection[int], configs: Mapping[int, BrokerConfig]
) -> ThrottleRates:
    """Return a run's throttle, and the present rates of `onto` for which it has none."""
    present = {
        broker: configs[broker].follower_throttle_rate
        for broker in onto
        if throttle.of(broker) is None and broker in configs
    }
    named = [BrokerRate(broker, rate) for broker, rate in present.items() if rate is not None]
    kept = [each for each in throttle.brokers if each.broker not in present]
    brokers = sorted((*kept, *named), key=lambda each: each.broker)
    return msgspec.structs.replace(throttle, brokers=tuple(brokers))
