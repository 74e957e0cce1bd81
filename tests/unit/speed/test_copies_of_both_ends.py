"""How fast copies are that share the brokers at both of their ends."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.speed.copies import CopiesOfBothEnds, CopyLoad, Pair
from ktui.speed.least_time import NOTHING, least_alone

ALONE = 10.0
"""Bytes a second of a copy by itself."""
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
