"""How fast a copy is, by both of its brokers."""

import math
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.insights import Prior, RateCurve, Spread
from ktui.planning.throttle_rates import parse_throttle_rates
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
from ktui.speed.capacity import ASSUMED, Capacity
from ktui.speed.copies import CopiesOfBothEnds, CopyLoad, Pair
from ktui.speed.least_time import NOTHING, least_alone

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
        (Basis(Source.THIS_RUN), "as measured"),
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
        (bound(Bottleneck.BROKER, broker=2), "what broker 2 may copy at once (W) sets the pace"),
        (
            bound(Bottleneck.BROKERS, brokers=(1, 2, 3)),
            "what brokers 1, 2 and 3 may copy at once (W) sets the pace",
        ),
        (bound(Bottleneck.PARTITION, partition=TopicPartition("o", 3)), "o-3 takes the longest"),
        (bound(Bottleneck.PARTITIONS), "how many partitions may be under way (P) sets the pace"),
        (bound(Bottleneck.REPLICAS), "how many replicas may be added at once (M) sets the pace"),
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


MB = 1e6


def seen(
    capacity: Capacity, bytes_s: dict[int, float], seconds: float = 120, throttle: str = "none"
) -> Capacity:
    """Feed it one copy onto each broker, from a leader of its own, second by second."""
    copied = [((-broker, broker), size) for broker, size in bytes_s.items()]
    for _ in range(int(seconds)):
        capacity.learn(copied, 1.0, parse_throttle_rates(throttle))
    return capacity


def takes(capacity: Capacity, broker: int, at_once: int = 1, throttle: str = "none") -> float:
    return capacity.under(parse_throttle_rates(throttle)).takes(broker, at_once)


def test_a_broker_is_expected_to_take_in_the_rate_that_was_observed() -> None:
    capacity = seen(Capacity(), {4: 10 * MB, 5: 30 * MB})
    assert takes(capacity, 4) == pytest.approx(10 * MB)
    assert takes(capacity, 5) == pytest.approx(30 * MB)


def test_an_unobserved_broker_is_assumed_to_be_like_the_others() -> None:
    capacity = seen(Capacity(), {4: 10 * MB, 5: 30 * MB})
    assert takes(capacity, 6) == pytest.approx(20 * MB)


def test_an_unknown_capacity_comes_from_earlier_runs_or_else_from_the_assumed_rate() -> None:
    curve = RateCurve(most_bytes_s=60 * MB, half_at=1.0, most_at_once=4)
    assert takes(Capacity(), 4) == ASSUMED.middle
    earlier = Prior(Spread(1, 2, 3, 9), 1.0, curve, runs=1)
    assert takes(Capacity(earlier), 4) == pytest.approx(30 * MB)
    assert takes(Capacity(earlier), 4, at_once=2) == pytest.approx(40 * MB)


def test_the_expected_rate_follows_a_slower_or_faster_broker_within_minutes() -> None:
    capacity = seen(seen(Capacity(), {4: 10 * MB}), {4: 4 * MB}, seconds=300)
    assert takes(capacity, 4) == pytest.approx(4 * MB, rel=0.1)
    assert takes(seen(capacity, {4: 20 * MB}, seconds=300), 4) == pytest.approx(20 * MB, rel=0.1)


def test_a_throttled_rate_does_not_predict_the_rate_without_the_throttle() -> None:
    capacity = seen(Capacity(), {4: 10 * MB}, throttle="10MB")
    assert takes(capacity, 4, throttle="10MB") == pytest.approx(10 * MB, rel=0.02)
    assert takes(capacity, 4, throttle="20MB") == pytest.approx(20 * MB, rel=0.02)
    assert takes(capacity, 4) == ASSUMED.middle


def test_a_throttle_that_comes_in_gulps_counts_with_its_pauses() -> None:
    capacity = Capacity()
    for _ in range(10):
        seen(capacity, {4: 22 * MB}, seconds=1, throttle="4MB")
        seen(capacity, {4: 0.0}, seconds=10, throttle="4MB")
    assert takes(capacity, 4, throttle="4MB") == pytest.approx(2 * MB, rel=0.2)
    assert takes(capacity, 5, throttle="4MB") == pytest.approx(2 * MB, rel=0.2)


def test_a_few_seconds_under_a_throttle_hardly_change_what_is_expected() -> None:
    capacity = Capacity()
    expected = takes(capacity, 4, throttle="4MB")
    assert 0.5 * 4 * MB <= expected < 4 * MB
    seen(capacity, {4: 0.0}, seconds=2, throttle="4MB")
    assert takes(capacity, 4, throttle="4MB") == pytest.approx(expected * 5 / 7, rel=0.05)
    seen(capacity, {4: 40 * MB}, seconds=1, throttle="4MB")
    assert takes(capacity, 4, throttle="4MB") == 4 * MB


def test_a_broker_keeps_its_share_of_another_throttle() -> None:
    capacity = seen(Capacity(), {4: 8 * MB}, seconds=600, throttle="10MB")
    assert takes(capacity, 4, throttle="5MB") == pytest.approx(4 * MB, rel=0.02)
    assert takes(capacity, 5, throttle="5MB") == pytest.approx(4 * MB, rel=0.02)


def test_the_expected_rate_never_exceeds_the_throttle() -> None:
    capacity = seen(Capacity(), {4: 30 * MB})
    assert takes(capacity, 4, throttle="10MB") == 10 * MB
    assert takes(capacity, 4, throttle="100MB") == pytest.approx(30 * MB)


ALONE = 10.0  # bytes a second of a copy by itself
LATE_S = 1e6


def bytes_s(pair: Pair, load: CopyLoad) -> float:
    return ALONE / load.slows(pair)


def is_free(_broker: int) -> bool:
    return True


def ends(*copies: tuple[Pair, float]) -> list[float]:
    """Return when copies end that begin together, in their order, in seconds."""
    copying = CopiesOfBothEnds(bytes_s, CopyLoad(is_free))
    for n, (pair, size) in enumerate(copies):
        copying.add(TopicPartition("a", n), pair, size, 0.0)
    ended = {tp.partition: end_s for end_s, tp, _ in copying.ended(LATE_S)}
    return [ended[n] for n in range(len(copies))]


def test_copies_that_share_no_broker_do_not_slow_each_other() -> None:
    assert ends(((1, 4), 100.0), ((2, 5), 50.0)) == pytest.approx([10.0, 5.0])


def test_two_copies_onto_a_broker_take_half_as_long_again_until_one_has_ended() -> None:
    assert ends(((1, 4), 100.0), ((2, 4), 50.0)) == pytest.approx([7.5 + 5.0, 7.5])


def test_a_broker_that_sends_another_copy_takes_in_less() -> None:
    assert ends(((1, 4), 100.0), ((4, 5), 100.0)) == pytest.approx([12.5, 12.5])


def test_the_busier_end_of_a_copy_decides() -> None:
    from_one_leader = [((1, broker), 100.0) for broker in (4, 5, 6, 7)]
    assert ends(*from_one_leader) == pytest.approx([15.0] * 4)  # as if two came onto a broker


def test_copies_that_a_throttle_holds_up_are_no_load() -> None:
    load = CopyLoad(lambda broker: broker != 5, [(1, 4), *[(1, 5)] * 20])

    assert load.slows((1, 4)) == 1.0
    assert load.onto(5) == 20


brokers = st.integers(1, 4)
pairs = st.tuples(brokers, brokers).filter(lambda pair: pair[0] != pair[1])
copies = st.tuples(pairs, st.integers(1, 100), st.integers(0, 20))
"""The brokers of a copy, its bytes, and the second at which it begins."""


@given(st.lists(copies, min_size=1, max_size=8))
def test_each_copy_ends_when_it_has_got_its_share_of_every_moment(
    drawn: list[tuple[Pair, int, int]],
) -> None:
    copying = CopiesOfBothEnds(bytes_s, CopyLoad(is_free))
    ended: dict[int, float] = {}
    for n, (pair, size, begins_s) in sorted(enumerate(drawn), key=lambda one: one[1][2]):
        ended |= {tp.partition: end_s for end_s, tp, _ in copying.ended(begins_s)}
        copying.add(TopicPartition("a", n), pair, size, begins_s)
    ended |= {tp.partition: end_s for end_s, tp, _ in copying.ended(LATE_S)}

    assert copying.next_end_s == inf
    assert ended == pytest.approx(_moment_by_moment(drawn))


@given(st.lists(copies, min_size=1, max_size=8), st.integers(1, 3))
def test_no_broker_takes_in_its_copies_in_less_than_the_least_time(
    drawn: list[tuple[Pair, int, int]], partitions: int
) -> None:
    """Also where only a few copies may go on at once, whatever their order is."""
    copying, onto, now_s = CopiesOfBothEnds(bytes_s, CopyLoad(is_free)), NOTHING, 0.0
    for n, ((leader, _), size, _) in enumerate(drawn):
        onto = onto.with_another(size)
        while n >= partitions and len(copying.ended(now_s)) == 0:
            now_s = copying.next_end_s
        copying.add(TopicPartition("a", n), (leader, 5), size, now_s)
    last_s = max(end_s for end_s, _, _ in copying.ended(LATE_S))

    assert last_s >= least_alone(onto.at_most(partitions)) / ALONE * (1 - 1e-9)


def _moment_by_moment(drawn: list[tuple[Pair, int, int]]) -> dict[int, float]:
    """Return when each copy ends: with all rates computed anew at each beginning and end."""
    left = {n: float(size) for n, (_, size, _) in enumerate(drawn)}
    ended: dict[int, float] = {}
    now_s = 0.0
    while left:
        active = [n for n in left if drawn[n][2] <= now_s]
        rates = {
            n: bytes_s(drawn[n][0], CopyLoad(is_free, [drawn[m][0] for m in active]))
            for n in active
        }
        begins = [float(drawn[n][2]) for n in left if drawn[n][2] > now_s]
        next_s = min([*begins, *(now_s + left[n] / rate for n, rate in rates.items())])
        for n, rate in rates.items():
            left[n] -= rate * (next_s - now_s)
        now_s = next_s
        for n in [n for n in active if left[n] <= 1e-9]:
            ended[n] = now_s
            del left[n]
    return ended
