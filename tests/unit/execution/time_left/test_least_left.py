"""How close a run is to the least time that its limits allow for the rest of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.run.events import LimitsChanged
from ktui.execution.time_left.simulate_rest import LeastLeft
from ktui.pacing.limits import Limits
from ktui.speed.answer import Bottleneck, Source
from support.journals.scripted_runs import GB, TWO_AT_ONCE, ScriptedRun, copied_for
from support.runs.pacing import broker_limits

MIB = 2**20


def _least(scripted: ScriptedRun) -> LeastLeft:
    least = scripted.estimate.least_left()
    assert least is not None
    return least


def _limit(scripted: ScriptedRun, limits: Limits) -> None:
    scripted.happen(LimitsChanged(old=scripted.run.limits, new=limits, batch=0, in_flight=0))


def test_the_broker_that_lacks_most_sets_the_least_time_at_the_rate_it_has_shown() -> None:
    scripted = ScriptedRun(GB, GB, GB, targets=((4, 2, 3), (4, 2, 3), (5, 2, 3)))
    _limit(scripted, Limits())
    scripted.begin()
    copied_for(scripted, 50, 10e6)

    least = _least(scripted)

    assert (least.bound.bottleneck, least.bound.broker) == (Bottleneck.RECEIVER, 4)
    assert least.bound.bytes == pytest.approx(1.5 * GB)
    assert least.bound.time_s.middle == pytest.approx(50 / TWO_AT_ONCE * 2 + 50, rel=0.01)
    assert 1 <= least.times < 1.05
    assert least.basis.source is Source.THIS_RUN


def test_a_limit_that_lets_a_broker_idle_raises_the_least_time() -> None:
    scripted = ScriptedRun(GB, GB, GB, targets=((4, 2, 3), (5, 2, 3), (6, 2, 3)))
    _limit(scripted, Limits(partitions=1))
    scripted.begin()
    copied_for(scripted, 50, 10e6)

    least = _least(scripted)

    assert least.bound.bottleneck is Bottleneck.PARTITIONS
    assert least.bound.time_s.middle == pytest.approx(250, rel=0.01)


def test_an_order_that_keeps_the_largest_for_the_end_takes_longer_than_the_least_time() -> None:
    sizes = [GB, *[GB // 2] * 4, 3 * GB]
    targets = ((4, 2, 3), *[(5, 2, 3), (6, 2, 3)] * 2, (6, 2, 3))
    scripted = ScriptedRun(*sizes, targets=targets)
    _limit(scripted, Limits(partitions=2))
    scripted.begin()
    copied_for(scripted, 50, 10e6)

    assert _least(scripted).times > 1.1


def test_the_least_time_is_no_longer_than_the_forecast_after_a_limit_was_lowered() -> None:
    scripted = ScriptedRun(*[GB] * 10)
    _limit(scripted, Limits())
    for n in range(10):
        scripted.begin(n)
    for second in range(0, 50, 5):
        scripted.look_at(dict.fromkeys(range(10), second / 500))
        scripted.pass_time(5)
    scripted.look_at(dict.fromkeys(range(10), 0.1))
    _limit(scripted, Limits(partitions=1))

    left_s = scripted.left_s()

    assert left_s is not None
    assert _least(scripted).bound.time_s.middle <= left_s
    assert _least(scripted).times == 1.0


def test_there_is_no_least_time_before_a_poll_and_where_nothing_is_copied() -> None:
    assert ScriptedRun(GB).estimate.least_left() is None
    scripted = ScriptedRun(GB, original=(4, 3, 2), target=(4, 3))
    scripted.look()
    assert scripted.estimate.least_left() is None


@given(
    st.lists(st.tuples(st.integers(1, 64), st.permutations([4, 5, 6])), min_size=2, max_size=8),
    st.builds(
        Limits,
        replicas=st.sampled_from([None, 1, 2]),
        partitions=st.sampled_from([None, 1, 3]),
        replica_movements=st.sampled_from([None, 2]),
        per_leader=st.sampled_from([None, 2]),
        bytes_per_broker=st.sampled_from([None, 32 * MIB]),
        brokers=broker_limits([1, 4, 5]),
    ),
)
def test_no_forecast_is_below_the_least_time(
    partitions: list[tuple[int, list[int]]], limits: Limits
) -> None:
    sizes = [20 * size * MIB for size, _ in partitions]
    scripted = ScriptedRun(*sizes, targets=tuple(tuple(onto) for _, onto in partitions))
    _limit(scripted, limits)
    scripted.begin()
    for tenth in range(6):
        scripted.look_at({0: tenth / 10})
        scripted.left_s()
        scripted.pass_time(5)
    scripted.look_at({0: 0.6})

    left_s = scripted.left_s()
    assert left_s is not None
    assert left_s >= 0.999 * _least(scripted).bound.time_s.middle
