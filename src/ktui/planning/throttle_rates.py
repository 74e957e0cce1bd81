"""Throttle rates of a run: the replication traffic that each broker may take in (KIP-73)."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf
from types import MappingProxyType
from typing import Literal

import msgspec

from ktui.cluster.settings import UNLIMITED
from ktui.planning.plan import join_all, join_named
from ktui.quantities import Rate, as_rate, parse_quantity

CANARY_PREFIX = "ktui-canary-"
"""What the names of topics begin with by which a run measures what producers feel."""
CANARY_RECORDS_S = 20  # the records that a canary writes to each broker in a second
OBJECTIVE_EXPECTED = "use an objective such as p99<150ms or lag<5000, or none"
_OBJECTIVE = re.compile(r"([A-Za-z][A-Za-z0-9._-]{0,30})\s*<\s*(\d{1,12}(?:\.\d{1,6})?)\s*(ms|s)?")
_PERCENTILE = re.compile(r"p([1-9][0-9](?:\.[0-9]{1,3})?)")


def canary_topic(run: str) -> str:
    """Return the name of the topic of a run's canary."""
    return f"{CANARY_PREFIX}{run}"


def canary_in_words(run: str) -> str:
    """Return what the canary of a run does: "writes 20 records a second ..."."""
    return (
        f"writes {CANARY_RECORDS_S} records a second to each broker, to the topic "
        f"{canary_topic(run)}, removed at the end"
    )


def is_canary(topic: str) -> bool:
    """Return whether a topic is the canary of some run."""
    return topic.startswith(CANARY_PREFIX)


class ObjectiveProblem(ValueError):
    """A text that is no objective. The message has the text and the fix."""


class Objective(msgspec.Struct, frozen=True, omit_defaults=True):
    """A figure that has to stay below a value."""

    name: str  # the name of the figure, such as `p99`: only people read it
    below: float
    unit: Literal["", "ms", "s"] = ""

    def __post_init__(self) -> None:
        if not self.name.isprintable() or not 0 < self.below < inf:
            raise ValueError("not an objective")

    @property
    def percent(self) -> float | None:
        """The percentile that the figure is by its name: 99.9 for `p99.9`; None for another one."""
        match = _PERCENTILE.fullmatch(self.name)
        return None if match is None else float(match[1])

    def __str__(self) -> str:
        return f"{self.name}<{self.value(self.below)}"

    def value(self, figure: float) -> str:
        shown = f"{figure:.6f}".rstrip("0").rstrip(".")
        return f"{shown}{self.unit}"


def not_measured_by_canary(objective: Objective) -> str:
    """Return why a canary has no figure for an objective that names no percentile."""
    return f"the canary measures p50 to p99.9, and no {objective.name}"


def parse_objective(text: str) -> Objective:
    """Parse an objective as operators write it, or raise ObjectiveProblem."""
    match = _OBJECTIVE.fullmatch(text.strip())
    if match is None or not float(match[2]) > 0:
        raise ObjectiveProblem(f"{text.strip()!r:.60} is not an objective; {OBJECTIVE_EXPECTED}")
    unit: Literal["", "ms", "s"] = "ms" if match[3] == "ms" else "s" if match[3] == "s" else ""
    return Objective(match[1], float(match[2]), unit)


EXPECTED = (
    "use a rate such as 50MB, one for single brokers such as 50MB,3=20MB, one for all of them "
    "together such as total=400MB, or none"
)
WINDOW_S = 11.0  # seconds over which Kafka averages the traffic of a throttle (11 samples of 1 s)
TOTAL, SLO = "total", "slo"
_MOST_RATES = 3  # more rates of single brokers are described by the lowest and the highest
KB, MB = 10**3, 10**6
_BROKER = re.compile(r"[0-9]{1,10}")


class ThrottleProblem(ValueError):
    """A rate that cannot be used. The message names the rate and the fix."""


class BrokerRate(msgspec.Struct, frozen=True):
    """The rate of a single broker."""

    broker: int
    bytes_s: int | None  # bytes a second; None for no throttle


class ThrottleRates(msgspec.Struct, frozen=True):
    """Bytes a second into each broker, over all the replicas that a run is adding there."""

    every: int | None = None  # the rate of brokers not in `brokers`; None for no throttle
    brokers: tuple[BrokerRate, ...] = ()
    budget: int | None = None  # the rate of all brokers together; None for no limit on that
    objective: Objective | None = None  # what is to hold at any rate, at the cost of rates

    def of(self, broker: int) -> int | None:
        """Return the rate of a broker, in bytes a second: alone, it may use all of the budget."""
        own = next((each.bytes_s for each in self.brokers if each.broker == broker), self.every)
        return self.budget if own is None else min(own, self.budget or own)

    def lower_than(self, other: ThrottleRates) -> bool:
        named = {each.broker for each in (*self.brokers, *other.brokers)}
        named.add(-1)  # stands for all that neither names
        both = ((self.of(broker), other.of(broker)) for broker in named)
        return any(own is not None and (its is None or own < its) for own, its in both)

    def leaves_free(self, broker: int) -> bool:
        return self.of(broker) is None

    def at_most(
        self, bytes_s: int | None, brokers: Mapping[int, int] = MappingProxyType({})
    ) -> ThrottleRates:
        """Return these rates with a bound in bytes a second, for single brokers of their own."""
        if bytes_s is None and not brokers:
            return self
        own = {each.broker: each.bytes_s for each in self.brokers}
        single = tuple(
            BrokerRate(broker, _lower(own.get(broker, self.every), brokers.get(broker, bytes_s)))
            for broker in sorted(own.keys() | brokers.keys())
        )
        return msgspec.structs.replace(self, every=_lower(self.every, bytes_s), brokers=single)

    def shared(self, shares: Mapping[int, int]) -> ThrottleRates:
        if self.budget is None:
            return self
        named = {each.broker for each in self.brokers} | shares.keys()
        rates = {b: _lower(self.of(b), shares.get(b)) for b in named}
        single = tuple(BrokerRate(broker, rate) for broker, rate in sorted(rates.items()))
        every = max(1, self.budget // (len(shares) + 1))
        every = every if self.every is None else min(every, self.every)
        return msgspec.structs.replace(self, every=every, brokers=single, budget=None)

    def shared_evenly(self, brokers: Collection[int]) -> ThrottleRates:
        if self.budget is None:
            return self
        return self.shared(dict.fromkeys(brokers, max(1, self.budget // max(1, len(brokers)))))

    def unknown_brokers(self, known: Collection[int]) -> str:
        """Return which brokers with a rate are not in the cluster; empty if not known."""
        return no_such_brokers((each.broker for each in self.brokers), known)

    def __bool__(self) -> bool:
        rates = (self.every, self.budget, *(each.bytes_s for each in self.brokers))
        return self.objective is not None or any(rate is not None for rate in rates)

    @property
    def words(self) -> str:
        """The rates in words: "50 MB/s into each broker, 20 MB/s into broker 3"."""
        if not self:
            return "none"
        by_rate: dict[int | None, list[int]] = {}
        for each in self.brokers:
            by_rate.setdefault(each.bytes_s, []).append(each.broker)
        phrases = [] if self.every is None else [f"{as_rate(self.every)} into each broker"]
        by_rate.pop(self.every, None)
        phrases += _ranged(by_rate) if len(by_rate) > _MOST_RATES else map(_into, by_rate.items())
        if self.budget is not None:
            phrases.append(f"{as_rate(self.budget)} in all")
        if self.objective is not None:
            phrases.append(f"as fast as {self.objective} allows")
        return ", ".join(phrases)

    @property
    def typed(self) -> str:
        """The rates as an operator would type them, exactly: "50MB,3=20MB"."""
        parts = [f"{each.broker}={_typed(each.bytes_s)}" for each in self.brokers]
        if self.budget is not None:
            parts.append(f"{TOTAL}={_typed(self.budget)}")
        if self.objective is not None:
            parts.append(f"{SLO}={self.objective}")
        if self.every is not None or not parts:
            parts.insert(0, _typed(self.every))
        return ",".join(parts)

    @property
    def in_megabytes(self) -> str:
        """The rates that were meant if a unit is missing or too small: 50 is 50MB; else empty."""

        def meant(rate: int | None) -> int | None:
            if rate is None or rate >= MB:
                return rate
            return rate * (MB if rate < KB else KB)

        brokers = tuple(BrokerRate(each.broker, meant(each.bytes_s)) for each in self.brokers)
        larger = msgspec.structs.replace(
            self, every=meant(self.every), brokers=brokers, budget=meant(self.budget)
        )
        return "" if larger == self else larger.typed

    def with_leaders(self, *, throttled: bool) -> str:
        """Return the rates in words, with a note if leaders are throttled too."""
        return f"{self.words}, leaders too" if self and throttled else self.words


NO_THROTTLE = ThrottleRates()


def parse_throttle_rates(text: str) -> ThrottleRates:
    """Parse rates: "50MB", "50MiB/s,3=20MB", "3=none", "none"; without a unit, bytes a second."""
    rates: dict[str, list[int | None]] = {"": [], TOTAL: []}
    objectives: list[Objective | None] = []
    brokers: dict[int, int | None] = {}
    for part in text.split(","):
        name, equals, rate = part.strip().rpartition("=")
        name = name.strip()
        if name == SLO:
            objectives.append(_objective(rate))
        elif not equals or name == TOTAL:
            rates[name].append(_read(rate))
        elif not _BROKER.fullmatch(name):
            raise ThrottleProblem(f"{name!r:.40} is not a broker id; {EXPECTED}")
        elif int(name) in brokers:
            raise ThrottleProblem(f"broker {int(name)} is given twice; {EXPECTED}")
        else:
            brokers[int(name)] = _read(rate)
    every, total = rates.values()
    for found, what in (
        (every, "rates for every broker"),
        (total, "rates for all brokers"),
        (objectives, "objectives"),
    ):
        if len(found) > 1:
            raise ThrottleProblem(f"{text!r:.60} has several {what}; {EXPECTED}")
    return ThrottleRates(
        every[0] if every else None,
        tuple(BrokerRate(broker, rate) for broker, rate in sorted(brokers.items())),
        total[0] if total else None,
        objectives[0] if objectives else None,
    )


def _objective(text: str) -> Objective | None:
    if text.strip().lower() == "none":
        return None
    try:
        return parse_objective(text)
    except ObjectiveProblem as problem:
        raise ThrottleProblem(str(problem)) from None


def _lower(one: int | None, other: int | None) -> int | None:
    return min((rate for rate in (one, other) if rate is not None), default=None)


def _read(text: str) -> int | None:
    text = text.strip()
    if text.lower() == "none":
        return None
    is_number = text.isascii() and text.replace(".", "", 1).isdecimal()
    try:
        rate = float(parse_quantity(Rate, float(text) if is_number else text))
    except ValueError as error:
        raise ThrottleProblem(f"{text!r:.40}: {error}") from None
    if not 1 <= rate < UNLIMITED:
        raise ThrottleProblem(f"{text!r:.40} lets nothing through; {EXPECTED}")
    return math.floor(rate)


def _typed(rate: int | None) -> str:
    if rate is None:
        return "none"
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if rate % size == 0:
            return f"{rate // size}{unit}"
    return str(rate)


def _into(of: tuple[int | None, list[int]]) -> str:
    rate, brokers = of
    return f"{_rate(rate)} into broker{'' if len(brokers) == 1 else 's'} {join_all(brokers)}"


def _ranged(by_rate: Mapping[int | None, list[int]]) -> Iterator[str]:
    rates = {rate: brokers for rate, brokers in by_rate.items() if rate is not None}
    brokers = sorted(broker for some in rates.values() for broker in some)
    low, high = as_rate(min(rates)), as_rate(max(rates))
    yield f"{low} to {high} into {join_named('broker', brokers, most=8)}"
    if None in by_rate:
        yield _into((None, by_rate[None]))


def _rate(rate: int | None) -> str:
    return "none" if rate is None else as_rate(rate)


def no_such_brokers(named: Iterable[int], known: Collection[int]) -> str:
    """Return which of some brokers are not in the cluster; empty if that is not known."""
    absent = sorted({*named} - {*known})
    if not absent or not known:
        return ""
    have = join_named("broker", sorted(known), most=12)
    return f"there is no {join_named('broker', absent)} in the cluster, which has {have}"
