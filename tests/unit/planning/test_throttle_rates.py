"""Rates that are proposed, and what is measured for them."""

import asyncio
import re
from collections.abc import Callable, Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.errors import Operation, TimedOut
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigSource, OffsetsAnswer
from ktui.cluster.settings import FOLLOWER_RATE
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import ClusterSnapshot, FindingKind
from ktui.planning.check.snapshot import MEASURED_S, take_snapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import (
    NO_THROTTLE,
    BrokerRate,
    Objective,
    ThrottleProblem,
    ThrottleRates,
    parse_throttle_rates,
)
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.cli.start_sandbox import preflight
from support.simulated.moving_clusters import a_cluster, throttle, tp, wait
from support.simulated.witness import CountingReader

RATES = st.one_of(st.none(), st.integers(1, 10**15))
WRITTEN: dict[str, ThrottleRates] = {
    "50MB": ThrottleRates(50_000_000),
    "50MiB/s": ThrottleRates(52_428_800),
    " 1.5 kB ": ThrottleRates(1_500),
    "1000": ThrottleRates(1_000),
    "1": ThrottleRates(1),
    "1.9": ThrottleRates(1),
    "none": NO_THROTTLE,
    "None": NO_THROTTLE,
    "50MB,3=20MB": ThrottleRates(50_000_000, (BrokerRate(3, 20_000_000),)),
    "12 = none , 50MB, 3 = 1GB": ThrottleRates(
        50_000_000, (BrokerRate(3, 1_000_000_000), BrokerRate(12, None))
    ),
    "total=400MB": ThrottleRates(budget=400_000_000),
    "50MB, total = 400MB ,3=20MB": ThrottleRates(
        50_000_000, (BrokerRate(3, 20_000_000),), 400_000_000
    ),
    "50MB,total=none": ThrottleRates(50_000_000),
    "slo=p99<150ms": ThrottleRates(objective=Objective("p99", 150.0, "ms")),
    "50MB, slo = lag < 5000": ThrottleRates(50_000_000, objective=Objective("lag", 5000.0)),
    "slo=none": NO_THROTTLE,
    "3=20MB": ThrottleRates(None, (BrokerRate(3, 20_000_000),)),
    "0=20MB": ThrottleRates(None, (BrokerRate(0, 20_000_000),)),
    "none,3=20MB": ThrottleRates(None, (BrokerRate(3, 20_000_000),)),
}
WRONG: dict[str, str] = {
    "": "''",
    "fast": "'fast'",
    "50MB,": "''",
    "50 bananas": "unknown unit 'bananas'",
    "-1": "'-1'",
    "0": "'0' lets nothing through",
    "0.5": "'0.5' lets nothing through",
    "0MB": "'0MB' lets nothing through",
    "inf": "'inf'",
    "nan": "'nan'",
    "1e6": "'1e6'",
    "9" * 400: "'999",
    "50MB,20MB": "several rates for every broker",
    "none,50MB": "several rates for every broker",
    "total=1MB,total=2MB": "several rates for all brokers",
    "total=": "''",
    "slo=p99<1ms,slo=p99<2ms": "several objectives",
    "slo=p99": "'p99' is not an objective",
    "slo=<150ms": "'<150ms' is not an objective",
    "slo=p99<0s": "'p99<0s' is not an objective",
    "slo=p99<2h": "'p99<2h' is not an objective",
    "b3=20MB": "'b3' is not a broker id",
    "-3=20MB": "'-3' is not a broker id",
    "=20MB": "'' is not a broker id",
    f"{'9' * 5000}=20MB": "is not a broker id",
    "٣=20MB": "is not a broker id",
    "3=": "''",
    "3=20MB,3=30MB": "broker 3 is given twice",
    "3=20MB,03=20MB": "broker 3 is given twice",
    "3=4=20MB": "'3=4' is not a broker id",
}


@pytest.mark.parametrize("text", WRITTEN)
def test_rates_are_parsed_with_their_units(text: str) -> None:
    assert parse_throttle_rates(text) == WRITTEN[text]


@pytest.mark.parametrize("text", WRONG)
def test_a_malformed_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ThrottleProblem, match="such as") as caught:
        parse_throttle_rates(text)

    assert WRONG[text] in str(caught.value)
    assert len(str(caught.value)) < 250


@given(RATES, st.dictionaries(st.integers(0, 2**31 - 1), RATES))
def test_every_broker_has_its_own_rate_or_the_common_one(
    every: int | None, own: dict[int, int | None]
) -> None:
    parts = [_text(every), *(f"{broker}={_text(rate)}" for broker, rate in own.items())]

    rates = parse_throttle_rates(",".join(parts))

    assert {broker: rates.of(broker) for broker in own} == own
    assert rates.of(max(own, default=0) + 1) == every
    assert bool(rates) == (every is not None or any(rate is not None for rate in own.values()))


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        rates = parse_throttle_rates(text)
    except ThrottleProblem:
        return
    assert all(each.bytes_s is None or each.bytes_s >= 1 for each in rates.brokers)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("none", "none"),
        ("50MB", "50 MB/s into each broker"),
        (
            "50MB,12=none,3=20MB",
            "50 MB/s into each broker, 20 MB/s into broker 3, none into broker 12",
        ),
        ("3=20MB", "20 MB/s into broker 3"),
        ("50MB,total=400MB", "50 MB/s into each broker, 400 MB/s in all"),
        ("total=400MB", "400 MB/s in all"),
        ("slo=p99<150ms", "as fast as p99<150ms allows"),
        ("50MB,slo=p99<0.15s", "50 MB/s into each broker, as fast as p99<0.15s allows"),
    ],
)
def test_throttle_rates_are_worded_by_broker(text: str, words: str) -> None:
    assert parse_throttle_rates(text).words == words


@pytest.mark.parametrize("text", ["50MB,3=20MB,total=400MB", "total=1GB", "50MB,12=none"])
def test_rates_are_typed_as_they_are_parsed(text: str) -> None:
    assert parse_throttle_rates(text).typed == text


@given(RATES, st.dictionaries(st.integers(0, 50), RATES, max_size=4), RATES)
def test_any_rates_are_typed_in_the_syntax_of_the_option(
    every: int | None, own: dict[int, int | None], budget: int | None
) -> None:
    rates = ThrottleRates(every, tuple(BrokerRate(*each) for each in sorted(own.items())), budget)

    assert parse_throttle_rates(rates.typed) == rates


def test_a_broker_has_its_share_of_the_budget_or_its_own_rate_if_that_is_lower() -> None:
    rates = parse_throttle_rates("50MB,3=20MB,total=90MB")

    shared = rates.shared({3: 30_000_000, 4: 60_000_000})

    assert [shared.of(broker) for broker in (3, 4, 5)] == [20_000_000, 50_000_000, 30_000_000]
    assert rates.of(9) == 50_000_000
    assert parse_throttle_rates("total=90MB").of(9) == 90_000_000
    assert shared.budget is None


def test_many_rates_of_single_brokers_are_described_by_the_lowest_and_the_highest() -> None:
    few = parse_throttle_rates("1MB,3=2MB,4=3MB,5=4MB")
    many = parse_throttle_rates("1MB,3=2MB,4=3MB,5=4MB,6=5MB,7=none")

    assert few.words.endswith(
        "2.0 MB/s into broker 3, 3.0 MB/s into broker 4, 4.0 MB/s into broker 5"
    )
    assert many.words == (
        "1.0 MB/s into each broker, 2.0 MB/s to 5.0 MB/s into brokers 3, 4, 5 and 6, "
        "none into broker 7"
    )


def _text(rate: int | None) -> str:
    return "none" if rate is None else str(rate)


@given(
    RATES,
    st.dictionaries(st.integers(0, 9), RATES),
    st.none() | st.integers(1, 10**15),
    st.dictionaries(st.integers(0, 9), st.integers(1, 10**15)),
)
def test_at_most_a_rate_none_is_higher_and_those_below_stay(
    every: int | None, own: dict[int, int | None], most: int | None, single: dict[int, int]
) -> None:
    rates = ThrottleRates(every, tuple(BrokerRate(*each) for each in sorted(own.items())), 400)

    bounded = rates.at_most(most, single)

    for broker in range(11):
        bounds = (rates.of(broker), single.get(broker, most))
        known = [rate for rate in bounds if rate is not None]
        assert bounded.of(broker) == min(known, default=None)
    assert bounded.budget == rates.budget


@pytest.mark.parametrize(
    ("now", "new", "lower"),
    [
        ("none", "5MB", True),
        ("5MB", "none", False),
        ("5MB", "4MB", True),
        ("5MB", "5MB,3=6MB", False),
        ("5MB,3=9MB", "6MB", True),
        ("5MB", "5MB,total=4MB", True),
        ("5MB,3=none", "5MB", True),
    ],
)
def test_rates_are_lower_where_any_broker_may_receive_less(
    now: str, new: str, *, lower: bool
) -> None:
    assert parse_throttle_rates(new).lower_than(parse_throttle_rates(now)) is lower


MB = 10**6
NAMES = ("orders-0", "orders-1", "orders-2")
LISTED = {"follower.replication.throttled.replicas": "*"}
PLAN = Plan(tuple(PartitionTarget("orders", n, (4, 2, 3)) for n in range(3)))


def cluster() -> SimulatedCluster:
    """Return a cluster of three partitions with 2 MB/s of writes each, and a fast network."""
    built = a_cluster(
        resting=NAMES, messages=20_000, inbound_s=2_000, copied_s=80_000, configs=LISTED
    )
    ours = SimulatedCluster(built.spec, VirtualClock(leaping=True))
    wait(ours, 30.0)
    return ours


def never_ends_warnings(rate: int, limits: Limits) -> list[str]:
    """Return the warnings of a preflight that the run never ends."""
    ours = cluster()
    seen = asyncio.run(take_snapshot(ours.reader(), PLAN, ours.clock))
    figures = preflight(PLAN, seen, limits, throttle=ThrottleRates(rate))
    return [found.sentence for found in figures.findings if found.kind is FindingKind.NEVER_ENDS]


def ends(rate: int, names: tuple[str, ...] = NAMES) -> bool:
    """Return whether moves that start together have ended after an hour."""
    ours = cluster()
    ours.do(throttle("follower", 4, rate))
    ours.do(layout.Alter({tp(name): (4, 2, 3) for name in names}))
    wait(ours, 3_600.0)
    return not asyncio.run(ours.reader().list_reassignments())


@pytest.mark.parametrize("rate", [1 * MB, 5 * MB, 5_900_000])
def test_a_run_forecast_to_never_end_does_not_end_until_the_named_rate(rate: int) -> None:
    (sentence,) = never_ends_warnings(rate, Limits())
    numbers = [float(number) * MB for number in re.findall(r"([\d.]+) MB/s", sentence)]

    assert not ends(rate)
    assert ends(round(max(numbers) * 1.05))
    assert never_ends_warnings(round(max(numbers) * 1.05), Limits()) == []


def test_a_run_ends_under_the_lower_limit_that_the_forecast_names() -> None:
    (sentence,) = never_ends_warnings(5 * MB, Limits())

    assert "it needs --per-broker 2" in sentence
    assert ends(5 * MB, NAMES[:2])
    assert never_ends_warnings(5 * MB, Limits(per_broker=2)) == []


MEASURING_PLAN = Plan(
    (
        PartitionTarget("orders", 0, (4, 2, 3)),
        PartitionTarget("orders", 1, (4, 3, 1)),
        PartitionTarget("orders", 2, (3, 2, 1)),
    )
)
"""The last is only reordered: nothing of it is copied."""


def orders(inbound_s: float = 2_000.0, **more: Any) -> SimulatedCluster:
    """A cluster with writes, in virtual time that advances while all tasks wait."""
    topics = {"orders": [(1, 2, 3), (2, 3, 1), (1, 2, 3)]}
    cluster = a_cluster(topics, inbound_s=inbound_s, **more)
    clock = VirtualClock(leaping=True)
    cluster = SimulatedCluster(cluster.spec, clock)
    wait(cluster, 60.0)
    return cluster


async def measured(cluster: SimulatedCluster, plan: Plan = MEASURING_PLAN) -> ClusterSnapshot:
    return await take_snapshot(cluster.reader(), plan, cluster.clock)


async def test_the_inbound_rate_is_measured_for_partitions_that_gain_replicas() -> None:
    seen = await measured(orders())

    assert set(seen.inbound) == {tp("orders-0"), tp("orders-1")}
    assert list(seen.inbound.values()) == pytest.approx([2_000_000] * 2, rel=0.01)
    assert seen.failures == ()


async def test_a_partition_without_writes_has_rate_zero_even_with_an_unknown_size() -> None:
    cluster = orders(0.0)
    cluster.do(layout.Deny("log_dirs"))

    assert (await measured(cluster)).inbound == {tp("orders-0"): 0, tp("orders-1"): 0}


async def test_nothing_is_measured_without_a_throttle() -> None:
    cluster = orders()
    reader = CountingReader(cluster.reader())

    seen = await take_snapshot(reader, MEASURING_PLAN)

    assert (seen.inbound, seen.rates) == ({}, {})
    assert (reader.calls["log_offsets"], reader.calls["settings"]) == (0, 0)


async def test_measuring_takes_two_seconds_and_two_requests_per_leader_at_any_scale() -> None:
    replicas = [(1 + n % 3, 4 + n % 3, 7) for n in range(300)]
    cluster = SimulatedCluster(a_cluster({"orders": replicas}).spec, VirtualClock(leaping=True))
    plan = Plan(tuple(PartitionTarget("orders", n, (*r, 8)) for n, r in enumerate(replicas)))
    reader = CountingReader(cluster.reader())
    began_s = cluster.clock.monotonic()

    seen = await take_snapshot(reader, plan, cluster.clock)

    assert len(seen.inbound) == 300
    assert (reader.calls["log_offsets"], reader.calls["settings"]) == (2 * 3, 1)
    assert cluster.clock.monotonic() - began_s < MEASURED_S + 1.0


async def test_the_rate_of_a_compacted_topic_is_unknown() -> None:
    assert (await measured(orders(configs={"cleanup.policy": "compact"}))).inbound == {}


async def test_the_rate_is_unknown_without_the_size() -> None:
    cluster = orders()
    cluster.do(layout.Deny("log_dirs"))

    assert (await measured(cluster)).inbound == {}


class Watched(CountingReader):
    """A reader that triggers an event before the second read of the log ends of broker 1."""

    def __init__(self, cluster: SimulatedCluster, happens: Callable[[], None]) -> None:
        super().__init__(cluster.reader())
        self._happens = happens

    async def log_offsets(
        self,
        broker: int,
        *,
        ends: Collection[TopicPartition],
        starts: Collection[TopicPartition] = (),
    ) -> OffsetsAnswer:
        if broker == 1 and not starts:
            self._happens()
        return await super().log_offsets(broker, ends=ends, starts=starts)


def time_out() -> None:
    raise TimedOut("reading log ends", where="broker 1")


async def test_a_leader_that_does_not_answer_leaves_only_its_own_partitions_unmeasured() -> None:
    cluster = orders()

    seen = await take_snapshot(Watched(cluster, time_out), MEASURING_PLAN, cluster.clock)

    assert set(seen.inbound) == {tp("orders-1")}
    assert [(f.operation, f.broker) for f in seen.failures] == [(Operation.LOG_ENDS, 1)]


async def test_a_leader_that_dies_meanwhile_leaves_the_rate_unknown() -> None:
    cluster = orders()

    seen = await take_snapshot(
        Watched(cluster, lambda: cluster.do(layout.Kill(1))), MEASURING_PLAN, cluster.clock
    )

    assert set(seen.inbound) == {tp("orders-1")}


async def test_throttle_rates_of_brokers_are_read_with_their_source() -> None:
    cluster = orders()
    cluster.do(throttle("follower", 4, 5_000_000))
    wait(cluster, 1.0)

    seen = await measured(cluster)

    assert seen.rates[4][FOLLOWER_RATE].source is ConfigSource.OWN
    assert seen.rates[4][FOLLOWER_RATE].value == "5000000"
    assert set(seen.rates) == {1, 2, 3, 4}
