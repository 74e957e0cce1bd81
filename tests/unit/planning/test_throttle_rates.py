"""Rates of throttles as operators write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.planning.throttle_rates import (
    NO_THROTTLE,
    BrokerRate,
    Objective,
    ThrottleProblem,
    ThrottleRates,
    parse_throttle_rates,
)

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
