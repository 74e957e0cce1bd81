"""The summary of a rehearsal: what a plan costs, where it stalls, and what a stop would leave."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ktui.pacing.limits import Limits
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import ThrottleRates
from ktui.progress.timeline import Cause
from ktui.rehearsal.aftermath import EndedBy
from ktui.rehearsal.summary import Summary, summarise
from ktui.rehearsal.twin import Pace
from support.rehearsal.small_twins import ONTO_4, SIZE, SPEC, TWIN, played

ALONE = Plan((PartitionTarget("orders", 0, (1, 2, 4)),))


@pytest.fixture(scope="module")
def undisturbed() -> Summary:
    return summarise(played(ONTO_4))


def test_a_plan_takes_the_time_of_its_copies_at_the_rate_of_the_twin(undisturbed: Summary) -> None:
    copies_s = 2 * SIZE / 50e6

    assert undisturbed.complete
    assert undisturbed.ended_by is EndedBy.RUN
    assert undisturbed.bytes_copied == 2 * SIZE
    assert copies_s < undisturbed.time_s < copies_s + 15
    assert (undisturbed.stalls, undisturbed.faults, undisturbed.why) == ((), (), ())


def test_peaks_are_those_of_the_brokers_that_the_plan_concerns(undisturbed: Summary) -> None:
    brokers = {use.broker: use for use in undisturbed.brokers}

    assert sorted(brokers) == [1, 2, 3, 4]
    assert brokers[4].inflow == pytest.approx(50e6)
    assert brokers[4].disk - brokers[4].room == pytest.approx(2 * SIZE, rel=0.01)
    assert [brokers[b].inflow for b in (1, 2, 3)] == [0.0, 0.0, 0.0]


def test_extra_replicas_are_held_by_the_broker_that_loses_them() -> None:
    together = summarise(played(ONTO_4, limits=Limits()))
    at_once = summarise(played(ONTO_4, limits=Limits(shape=Limits().shape, replicas=1)))

    for summary in (together, at_once):
        extra = {use.broker: use.extra_replicas for use in summary.brokers}
        assert extra == {1: 0, 2: 0, 3: 2, 4: 0}


def test_each_cut_and_nothing_else_raises_a_leader_epoch(undisturbed: Summary) -> None:
    assert undisturbed.leader_epoch_bumps == 2
    assert undisturbed.batches >= 2


def test_a_stop_drops_what_is_under_way_and_a_rollback_copies_what_was_dropped() -> None:
    moves = summarise(played(ONTO_4, limits=Limits(replicas=1, partitions=1, cut_together=1)))

    first, last = moves.stops[0], moves.stops[-1]
    assert (first.done, first.left, first.bytes_left) == (0, 2, 2 * SIZE)
    assert (first.in_flight, first.back_partitions, first.back_bytes) == (SIZE, 1, 0)
    assert (last.done, last.left, last.bytes_left) == (1, 1, SIZE)
    assert (last.in_flight, last.back_partitions, last.back_bytes) == (SIZE, 2, SIZE)


def test_a_throttle_bounds_the_inflow_and_is_the_cause_of_a_longer_run() -> None:
    slowed = summarise(played(ALONE, throttle=ThrottleRates(10_000_000)))

    inflow = next(use.inflow for use in slowed.brokers if use.broker == 4)
    share = TWIN.spec.brokers[0].throttle_share * 10e6
    assert share <= inflow < 10e6  # of the first second, in which the copy begins unthrottled
    assert slowed.time_s == pytest.approx(SIZE / share, rel=0.05)


def test_a_copy_that_is_over_between_two_polls_still_counts_as_inflow() -> None:
    small = replace(SPEC.topics[0], bytes_each=5_000_000)
    twin = replace(TWIN, spec=replace(SPEC, topics=(small,)))
    quick = summarise(played(ALONE, twin=twin))

    inflow = next(use.inflow for use in quick.brokers if use.broker == 4)
    assert 1e6 < inflow <= 5.1e6


def test_a_broker_that_dies_and_comes_back_is_a_stall_with_its_cause_and_advice() -> None:
    broken = summarise(played(ALONE, "kill 4 at 40%", "start 4 at 2m"))

    assert broken.complete
    assert [(stall.cause, stall.broker) for stall in broken.stalls] == [(Cause.TARGET_DOWN, 4)]
    assert 20 < broken.stalls[0].lasted_s < 120
    killed, started = broken.faults
    assert (killed.event, started.at_s) == ("kill 4 at 40%", 120.0)
    assert any("broker 4 is down" in words for words in killed.did)
    assert "Start broker 4, or cancel the reassignment." in killed.do
    assert killed.stop.in_flight == SIZE
    assert killed.stop.back_bytes == 0


def test_a_plan_that_cannot_end_is_given_up_with_its_reasons() -> None:
    broken = summarise(played(ONTO_4, "kill 4 at 40%", poll_s=5.0))

    assert broken.ended_by is EndedBy.STANDSTILL
    assert not broken.complete
    assert broken.why[0] == "no progress for 15m"
    assert any("broker 4" in why for why in broken.why[1:])
    assert broken.time_s < 60


def test_a_suspended_broker_goes_on_after_its_time() -> None:
    paused = summarise(played(ALONE, "suspend 4 for 20s at 50%"))
    usual = summarise(played(ALONE))

    assert paused.complete
    assert paused.time_s > usual.time_s + 15


def test_a_broker_that_stays_down_is_named_even_if_the_run_ends_without_it() -> None:
    broken = summarise(played(ALONE, "kill 3 at 20%"))

    (outcome,) = broken.faults
    assert broken.complete
    assert any("3 under-replicated" in words for words in outcome.do)


def test_an_event_whose_moment_never_comes_is_listed_and_does_not_happen() -> None:
    over = summarise(played(ALONE, "kill 3 at 20%", "start 3 at 1m"))

    assert over.time_s < 60
    assert over.missed == ("start 3 at 1m",)
    assert over.faults[0].do[0].startswith("Start broker 3: ")


def test_where_nothing_is_copied_the_share_is_that_of_the_partitions() -> None:
    reorder = Plan((PartitionTarget("empty", 0, (2, 1, 3)), PartitionTarget("empty", 1, (3, 2, 1))))

    at_once = summarise(played(reorder, "load x2 at 0%"))

    assert at_once.complete
    assert [fault.event for fault in at_once.faults] == ["load x2 at 0%"]


def test_slow_and_fast_twins_are_the_ends_of_the_range() -> None:
    slow, fast = (summarise(played(ALONE, pace=pace)).time_s for pace in (Pace.SLOW, Pace.FAST))

    assert slow > SIZE / TWIN.rates.low
    assert SIZE / TWIN.rates.high < fast < slow / 2
