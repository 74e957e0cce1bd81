"""Health, the state word, and the sums over all partitions and per broker."""

from __future__ import annotations

import pytest

from ktui.cluster.broker import TopicConfig
from ktui.cluster.observation import Census
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress.memory import Health, health
from ktui.progress.row import state_word
from ktui.progress.summary import Totals, broker_loads, totals
from ktui.progress.timeline import Progress
from ktui.simulated import layout
from support.simulated.moving_clusters import a_cluster, move
from support.simulated.observations import (
    START,
    T0,
    T1,
    a_move,
    a_partition,
    an_observation,
    folded,
)
from support.simulated.seen_polls import Recorder, moving


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (a_partition(), Health.OK),
        (a_partition(isr=(1, 2)), Health.UNDER_REPLICATED),
        (a_partition(isr=(1,)), Health.UNDER_MIN_ISR),
        (a_partition(isr=(1,), leader=None), Health.OFFLINE),
        (a_move(), Health.OK),
        (a_move(isr=(2, 3), leader=2), Health.UNDER_REPLICATED),
        (a_move(isr=(2, 3, 4), leader=2), Health.OK),
        (a_move(isr=(1, 2, 4)), Health.UNDER_REPLICATED),
        (a_partition(replicas=(1,)), Health.OK),
        (a_partition(isr=(), leader=None, described=False), Health.UNKNOWN),
    ],
)
def test_health_is_the_worst_condition_that_holds(state: PartitionState, expected: Health) -> None:
    assert health(state, TopicConfig(min_insync_replicas=2)) is expected


def test_min_isr_is_not_judged_without_topic_settings() -> None:
    assert health(a_partition(isr=(1,)), None) is Health.UNDER_REPLICATED


def test_the_state_word_is_stalled_rather_than_foreign() -> None:
    stalled = folded(moving(seconds=40, copied_s=0)).timelines[T0]
    assert state_word(stalled, None) == "stalled"
    assert state_word(stalled, ()) == "stalled"


def test_a_move_outside_the_run_shown_is_foreign() -> None:
    timeline = folded([an_observation([a_move()])]).timelines[T0]
    assert state_word(timeline, None) == "moving"
    assert state_word(timeline, {T0}) == "moving"
    assert state_word(timeline, {T1}) == "foreign"


def test_a_partition_at_rest_is_not_foreign() -> None:
    timeline = folded([an_observation([a_partition()])]).timelines[T0]
    assert state_word(timeline, {T1}) == "settled"


def test_a_brokers_load_counts_copies_onto_it_and_from_it() -> None:
    targets = dict.fromkeys(("orders-0", "orders-1"), (4, 2, 3))
    loads = broker_loads(folded(moving(30, targets=targets, copied_s=2_000)))
    assert list(loads) == list(range(1, 10))
    assert loads[4].bytes_in_s == pytest.approx(2_000_000, rel=0.01)
    assert loads[1].bytes_out_s == pytest.approx(2_000_000, rel=0.01)
    assert (loads[4].adding, loads[1].removing) == (2, 2)
    assert loads[4].lag_messages == 2 * 73_900
    assert loads[4].lag_bytes == pytest.approx(2 * 73_900_000, rel=0.01)
    assert (loads[2].bytes_in_s, loads[2].lag_bytes, loads[2].leaders) == (None, None, None)


def test_a_brokers_leaders_come_from_the_census() -> None:
    census = Census(START, 0.0, 0.1, 2, 30, {1: 20, 2: 10}, {}, ())
    loads = broker_loads(folded([an_observation([], census=census)]))
    assert [loads[b].leaders for b in (1, 2, 3)] == [20, 10, 0]


def test_totals_count_each_move_once_by_its_state() -> None:
    cluster = a_cluster(moving=["orders-0"], resting=["orders-1"], messages=10_500)
    cluster.do(move("orders-1", 5, 2, 3))
    cluster.do(layout.Slow(5, 0.1))
    whole = totals(folded(Recorder(cluster).record(20)))
    assert (whole.moving, whole.done, whole.stalled) == (1, 1, 0)
    assert totals(folded([an_observation([a_partition()])])) == Totals()
    assert totals(Progress()) == Totals()


def test_totals_sum_the_remaining_bytes_and_end_with_the_slowest_move() -> None:
    now = folded(moving(60, targets={"orders-0": (4, 2, 3), "orders-1": (6, 5, 3)}))
    whole = totals(now)
    assert whole.bytes_left == pytest.approx(3 * 46_900_000, rel=0.01)
    assert whole.bytes_s == pytest.approx(3_000_000, rel=0.01)
    assert whole.left_s is not None
    assert whole.left_s.middle == pytest.approx(46_900 / 900, rel=0.01)
    assert whole.share == pytest.approx(59_000 / 105_900)


def test_the_total_share_is_weighted_by_bytes_of_the_moves_under_way() -> None:
    done = TopicPartition("orders", 2)
    states = [a_move(T0), a_move(T1), a_move(done)]
    ends = {(T0, 1): 9_000, (T0, 4): 0, (T1, 1): 1_000, (T1, 4): 1_000}
    sizes = {key: end * 1_000 for key, end in ends.items()}
    shown = [a_move(T0), a_move(T1), a_partition(done, (4, 2, 3))]
    starts = {T0: 0, T1: 0}
    known = an_observation(shown, 1.0, ends=ends, sizes=sizes, starts=starts)
    whole = totals(folded([an_observation(states), known]))
    assert whole.share == pytest.approx(0.1)
    assert whole.done == 1
    unknown = an_observation(shown, 1.0, ends=ends, starts=starts)
    assert totals(folded([an_observation(states), unknown])).share == pytest.approx(0.5)
    over = an_observation([a_partition(done, (4, 2, 3))], 1.0)
    assert totals(folded([an_observation([a_move(done)]), over])).share is None


def test_the_total_share_does_not_fall_when_a_move_completes() -> None:
    ends = {(T0, 1): 1_000, (T0, 4): 500, (T1, 1): 1_000, (T1, 4): 900}
    sizes = {key: end * 1_000 for key, end in ends.items()}
    starts = {T0: 0, T1: 0}
    seen = [
        an_observation([a_move(T0), a_move(T1)], 0.0, ends=ends, sizes=sizes, starts=starts),
        an_observation([a_move(T0), a_move(T1)], 1.0, ends=ends, sizes=sizes, starts=starts),
    ]
    assert totals(folded(seen)).share == pytest.approx(0.7)

    shown = [a_move(T0), a_partition(T1, (4, 2, 3))]
    seen.append(an_observation(shown, 2.0, ends=ends, sizes=sizes, starts=starts))

    assert (totals(folded(seen)).share or 0.0) > 0.7


def test_the_total_time_left_is_that_of_the_last_broker_not_of_a_waiting_replica() -> None:
    slow = {T0: 950, T1: 50}
    polls = [
        an_observation(
            [a_move(T0), a_move(T1)],
            float(second),
            ends={
                key: value
                for tp, rate in slow.items()
                for key, value in {(tp, 1): 100_000, (tp, 4): rate * second}.items()
            },
            starts={T0: 0, T1: 0},
        )
        for second in range(60)
    ]
    now = folded(polls)
    whole = totals(now)
    left = 2 * 100_000 - 1_000 * 59
    assert whole.left_s is not None
    assert whole.left_s.middle == pytest.approx(left / 1_000, rel=0.02)
    slowest = now.timelines[T1].left_s
    assert slowest is not None
    assert slowest.middle > 10 * whole.left_s.middle


def test_the_total_time_left_is_unknown_while_a_move_is_stalled() -> None:
    polls = [
        an_observation(
            [a_move(T0), a_move(T1)],
            float(n),
            ends={(T0, 1): 1_000, (T0, 4): 10 * n, (T1, 1): 1_000, (T1, 4): 5},
            starts={T0: 0, T1: 0},
        )
        for n in range(40)
    ]
    whole = totals(folded(polls))
    assert (whole.moving, whole.stalled) == (1, 1)
    assert whole.left_s is None


def test_totals_count_moves_that_fall_behind() -> None:
    assert totals(folded(moving(seconds=90, inbound_s=400, copied_s=200))).falling_behind == 1
