"""The time left of a run: what waits is played forward, by what the run has shown."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ktui.execution.run.events import LimitsChanged, ThrottleChanged
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import parse_throttle_rates
from support.journals.told_runs import BESIDE, GB, Told, copied_for


def test_the_largest_partition_that_comes_last_and_alone_counts_with_all_of_its_time() -> None:
    told = Told(GB, *[GB // 100] * 10, 5 * GB)
    told.begin()
    copied_for(told, 60, 10e6)
    naive = 60 * (6.1 / 0.6 - 1)
    left = told.left_s()
    assert left is not None
    assert left == pytest.approx(naive, rel=0.05)  # one broker takes all of it in
    spread = Told(GB, *[GB // 100] * 10, 5 * GB, target=(4, 5, 3))
    spread.begin()
    copied_for(spread, 60, 10e6)
    assert (spread.left_s() or 0) > 2 * 500  # 5 GB onto one broker, and then onto another


def test_what_two_brokers_take_in_at_once_takes_no_longer_than_what_one_does() -> None:
    one = Told(GB, GB)
    one.begin()
    copied_for(one, 50, 10e6)
    two = Told(GB, GB, targets=((4, 2, 3), (5, 2, 3)))
    two.begin()
    copied_for(two, 50, 10e6)
    assert 150 <= (one.left_s() or 0) <= 150 + BESIDE
    assert 100 <= (two.left_s() or 0) <= 100 + BESIDE


def test_time_left_is_counted_down_between_two_plays() -> None:
    told = Told(GB)
    told.begin()
    copied_for(told, 50, 10e6)
    before = told.left_s()
    told.pass_time(2)
    told.look(0.52)
    assert before is not None
    assert told.left_s() == before - 2


def test_under_another_throttle_the_time_left_goes_by_it_once_there_is_a_rate() -> None:
    told = Told(2 * GB)
    told.happen(ThrottleChanged(old=parse_throttle_rates("none"), new=parse_throttle_rates("10MB")))
    told.begin()
    copied_for(told, 50, 10e6)
    assert 150 <= (told.left_s() or 0) <= 150 + BESIDE

    told.happen(ThrottleChanged(old=parse_throttle_rates("10MB"), new=parse_throttle_rates("5MB")))
    for second in range(0, 30, 5):
        told.look((5e8 + 5e6 * second) / (2 * GB))
        told.pass_time(5)
    told.look(0.325)

    assert 270 <= (told.left_s() or 0) <= 270 + BESIDE


def test_a_replica_that_stands_still_does_not_make_the_others_slow() -> None:
    told = Told(4 * GB, GB, targets=((4, 2, 3), (5, 2, 3)))
    told.begin(0)
    told.begin(1)
    for second in range(0, 100, 5):
        shares = {0: second * 10e6 / (4 * GB), 1: min(second, 50) * 10e6 / GB}
        told.look_at(shares)
        told.pass_time(5)
    told.look_at({0: 0.25, 1: 0.5})
    assert 300 <= (told.left_s() or 0) <= 300 + BESIDE


def test_of_thousands_that_wait_some_stand_for_the_others() -> None:
    told = Told(*[GB // 100] * 3_000)
    told.begin()
    for second in range(30):
        told.look(second / 30)
        told.pass_time(1)
    told.look(1.0)
    rate = GB // 100 / 30
    left = told.left_s()
    assert left is not None
    assert left == pytest.approx(2_999 * GB / 100 / rate, rel=0.1)


def test_thousands_that_begin_at_once_take_what_the_busiest_broker_takes() -> None:
    brokers = range(4, 14)
    told = Told(*[GB // 100] * 2_000, targets=tuple((4 + n % 10, 2, 3) for n in range(2_000)))
    unlimited = Limits(replicas=1)
    told.happen(LimitsChanged(old=told.run.limits, new=unlimited, batch=0, in_flight=0))
    told.begin()
    for second in range(30):
        told.look_at({0: second / 30})
        told.pass_time(1)
    told.look_at({0: 1.0})
    rate = GB // 100 / 30
    left = told.left_s()
    assert left is not None
    assert left == pytest.approx(2_000 * GB / 100 / rate / len(brokers), rel=0.1)


def test_copies_that_hardly_move_are_told_a_time_that_can_be_shown() -> None:
    told = Told(10**15)
    told.begin()
    copied_for(told, 60, 10.0)
    left = told.estimate.copied.left_s
    assert left is not None
    assert told.now + timedelta(seconds=left.high) > told.now
