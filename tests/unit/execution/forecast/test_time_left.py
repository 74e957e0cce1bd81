"""The time left of a run: what waits is simulated at the rates the run has shown."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ktui.execution.run.events import LimitsChanged, ThrottleChanged
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import parse_throttle_rates
from support.journals.scripted_runs import (
    BESIDE,
    GB,
    MANY_AT_ONCE,
    TWO_AT_ONCE,
    ScriptedRun,
    copied_for,
)


def test_the_largest_partition_coming_last_and_alone_counts_with_its_full_time() -> None:
    scripted = ScriptedRun(GB, *[GB // 100] * 10, 5 * GB)
    scripted.begin()
    copied_for(scripted, 60, 10e6)
    naive = 60 * (6.1 / 0.6 - 1)
    left = scripted.left_s()
    assert left is not None
    assert left == pytest.approx(naive, rel=0.05)  # one broker takes all of it in
    spread = ScriptedRun(GB, *[GB // 100] * 10, 5 * GB, target=(4, 5, 3))
    spread.begin()
    copied_for(spread, 60, 10e6)
    assert (spread.left_s() or 0) > 2 * 500  # 5 GB onto one broker, and then onto another


def test_copies_onto_two_brokers_at_once_take_no_longer_than_onto_one() -> None:
    one = ScriptedRun(GB, GB)
    one.begin()
    copied_for(one, 50, 10e6)
    two = ScriptedRun(GB, GB, targets=((4, 2, 3), (5, 2, 3)))
    two.begin()
    copied_for(two, 50, 10e6)
    assert 100 / TWO_AT_ONCE + 50 <= (one.left_s() or 0) <= 100 / TWO_AT_ONCE + 50 + BESIDE
    assert 100 <= (two.left_s() or 0) <= 100 + BESIDE


def test_time_left_is_counted_down_between_two_simulations() -> None:
    scripted = ScriptedRun(GB)
    scripted.begin()
    copied_for(scripted, 50, 10e6)
    before = scripted.left_s()
    scripted.pass_time(0.5)
    scripted.look(0.9)
    assert before is not None
    assert scripted.left_s() == before - 0.5

    scripted.pass_time(0.5)
    scripted.look(0.9)
    after = scripted.left_s()
    assert after is not None
    assert after < before / 2


def test_a_changed_throttle_determines_the_time_left_once_there_is_a_rate() -> None:
    scripted = ScriptedRun(2 * GB)
    scripted.happen(
        ThrottleChanged(old=parse_throttle_rates("none"), new=parse_throttle_rates("10MB"))
    )
    scripted.begin()
    copied_for(scripted, 50, 10e6)
    assert 150 <= (scripted.left_s() or 0) <= 1.02 * 150 + BESIDE

    scripted.happen(
        ThrottleChanged(old=parse_throttle_rates("10MB"), new=parse_throttle_rates("5MB"))
    )
    for second in range(0, 30, 5):
        scripted.look((5e8 + 5e6 * second) / (2 * GB))
        scripted.pass_time(5)
    scripted.look(0.325)

    assert 270 <= (scripted.left_s() or 0) <= 270 + BESIDE


def test_a_broker_that_does_not_reach_a_new_throttle_lengthens_the_time_left_at_once() -> None:
    scripted = ScriptedRun(2 * GB)
    scripted.happen(
        ThrottleChanged(old=parse_throttle_rates("none"), new=parse_throttle_rates("10MB"))
    )
    scripted.begin()
    copied_for(scripted, 50, 10e6)
    scripted.happen(
        ThrottleChanged(old=parse_throttle_rates("10MB"), new=parse_throttle_rates("40MB"))
    )
    for second in range(0, 20, 5):
        scripted.look((5e8 + 10e6 * second) / (2 * GB))
        scripted.pass_time(5)
    scripted.look(0.35)

    assert (scripted.left_s() or 0) > 2 * 1.3e9 / 40e6


def test_a_replica_that_stands_still_does_not_slow_the_forecast_of_the_others() -> None:
    scripted = ScriptedRun(4 * GB, GB, targets=((4, 2, 3), (5, 2, 3)))
    scripted.begin(0)
    scripted.begin(1)
    for second in range(0, 100, 5):
        shares = {0: second * 10e6 / (4 * GB), 1: min(second, 50) * 10e6 / GB}
        scripted.look_at(shares)
        scripted.pass_time(5)
    scripted.look_at({0: 0.25, 1: 0.5})
    assert 300 <= (scripted.left_s() or 0) <= 300 + BESIDE


def test_the_time_left_of_thousands_of_waiting_partitions_is_estimated_from_some() -> None:
    scripted = ScriptedRun(*[GB // 100] * 3_000)
    scripted.begin()
    for second in range(30):
        scripted.look(second / 30)
        scripted.pass_time(1)
    scripted.look(1.0)
    rate = GB // 100 / 30
    left = scripted.left_s()
    assert left is not None
    assert left == pytest.approx(2_999 * GB / 100 / rate / TWO_AT_ONCE, rel=0.1)


@pytest.mark.parametrize(
    ("onto", "times_one"),
    [
        pytest.param((4, 4, 4, 5), MANY_AT_ONCE / 0.75, id="a broker receives most of them"),
        pytest.param(tuple(range(4, 14)), MANY_AT_ONCE / 0.5, id="one leader sends all of them"),
    ],
)
def test_thousands_of_partitions_at_once_take_as_long_as_the_busiest_broker(
    onto: tuple[int, ...], times_one: float
) -> None:
    """To send a copy takes half of what it takes to receive one."""
    targets = tuple((onto[n % len(onto)], 2, 3) for n in range(2_000))
    scripted = ScriptedRun(*[GB // 100] * 2_000, targets=targets)
    unlimited = Limits(replicas=1)
    scripted.happen(LimitsChanged(old=scripted.run.limits, new=unlimited, batch=0, in_flight=0))
    scripted.begin()
    for second in range(30):
        scripted.look_at({0: second / 30})
        scripted.pass_time(1)
    scripted.look_at({0: 1.0})
    rate = GB // 100 / 30
    left = scripted.left_s()
    assert left is not None
    assert left == pytest.approx(2_000 * GB / 100 / rate / times_one, rel=0.1)


def test_copies_that_hardly_move_have_a_time_left_that_can_be_shown() -> None:
    scripted = ScriptedRun(10**15)
    scripted.begin()
    copied_for(scripted, 60, 10.0)
    left = scripted.estimate.copied.left_s
    assert left is not None
    assert scripted.now + timedelta(seconds=left.high) > scripted.now
