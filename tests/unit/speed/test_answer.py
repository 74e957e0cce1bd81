"""How long a run takes is told in one sentence."""

from __future__ import annotations

import math

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.speed.answer import (
    Basis,
    Bottleneck,
    Bound,
    HowLong,
    Misfit,
    Source,
    Span,
    how_long_text,
    span_text,
)

MINUTES = 60.0
TIME = Span(35 * MINUTES, 41 * MINUTES, 52 * MINUTES)
THREE_RUNS = Basis(Source.EARLIER_RUNS, runs=3)


def bound(
    bottleneck: Bottleneck,
    middle_s: float = 40 * MINUTES,
    broker: int | None = None,
    brokers: tuple[int, ...] = (),
    partition: TopicPartition | None = None,
) -> Bound:
    return Bound(
        time_s=Span(middle_s, middle_s, middle_s),
        bottleneck=bottleneck,
        broker=broker,
        brokers=brokers,
        partition=partition,
    )


def test_a_time_comes_with_its_range_its_grounds_and_what_sets_the_pace() -> None:
    receiver = bound(Bottleneck.RECEIVER, broker=5)
    answer = HowLong(time_s=TIME, basis=THREE_RUNS, pacesetter=receiver)

    told = how_long_text(answer)

    assert told == "about 41 min (35 to 52), by 3 earlier runs; broker 5 receives the most"


@pytest.mark.parametrize(
    ("basis", "words"),
    [
        (Basis(), "assumed"),
        (THREE_RUNS, "by 3 earlier runs"),
        (Basis(Source.EARLIER_RUNS, runs=1), "by 1 earlier run"),
        (Basis(Source.EARLIER_RUNS), "by earlier moves"),
        (Basis(Source.THIS_RUN), "by this run"),
        (Basis(Source.GIVEN, given_bytes_s=80e6), "at 80 MB/s, as given"),
        (
            Basis(Source.EARLIER_RUNS, runs=2, misfits=(Misfit.THROTTLE, Misfit.BROKERS)),
            "by 2 earlier runs, under another throttle, on other brokers",
        ),
    ],
)
def test_a_time_says_why_it_is_believed(basis: Basis, words: str) -> None:
    assert how_long_text(HowLong(time_s=TIME, basis=basis)) == f"about 41 min (35 to 52), {words}"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (bound(Bottleneck.SENDER, broker=2), "broker 2 sends the most"),
        (bound(Bottleneck.BROKER, broker=2), "broker 2 copies the most under W"),
        (
            bound(Bottleneck.BROKERS, brokers=(1, 2, 3)),
            "brokers 1, 2 and 3 exchange the most under W",
        ),
        (bound(Bottleneck.PARTITION, partition=TopicPartition("o", 3)), "o-3 takes the longest"),
        (bound(Bottleneck.PARTITIONS), "P sets the pace"),
        (bound(Bottleneck.REPLICAS), "M sets the pace"),
    ],
)
def test_a_time_names_what_sets_the_pace(found: Bound, words: str) -> None:
    told = how_long_text(HowLong(time_s=TIME, basis=THREE_RUNS, pacesetter=found))

    assert told.endswith(f"by 3 earlier runs; {words}")


def test_no_bottleneck_is_named_where_polls_and_elections_take_most_of_the_time() -> None:
    little = bound(Bottleneck.RECEIVER, middle_s=5 * MINUTES, broker=5)

    told = how_long_text(HowLong(time_s=TIME, basis=THREE_RUNS, pacesetter=little))

    assert told == "about 41 min (35 to 52), by 3 earlier runs"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ((4, 4.2, 4.4), "4 s"),
        ((0, 0, 2), "0 s (0 to 2)"),
        ((60, 90, 130), "90 s (60 to 130)"),
        ((20, 90, 3_000), "90 s (20 s to 50 min)"),
        ((120, 150, 200), "2.5 min (2 to 3.3)"),
        ((20, 150, 400), "2.5 min (20 s to 6.7 min)"),
        ((80 * 60, 95 * 60, 130 * 60), "95 min (80 to 130)"),
        ((2 * 3_600, 2.5 * 3_600, 4 * 3_600), "2.5 h (2 to 4)"),
        ((50 * 60, 2.5 * 3_600, 4 * 3_600), "2.5 h (50 min to 4 h)"),
        ((86_400, 2 * 86_400, 3 * 86_400), "2 days (1 to 3)"),
        ((60, 300, math.inf), "5 min (60 s to >99 days)"),
    ],
)
def test_a_range_shares_the_unit_of_its_time_where_that_reads_well(
    seconds: tuple[float, float, float], words: str
) -> None:
    assert span_text(Span(*seconds)) == words
