"""What a partition waits for before its next step, as the decision sees it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ktui.cluster.partition import TopicPartition
from ktui.pacing.choosing import (
    WaitsFor,
    WaitsForCut,
    WaitsForLoneStep,
    WaitsForNextWave,
    decide_steps,
    waiting_for,
)
from ktui.pacing.limits import Full, Limits, Mode, Shape
from ktui.pacing.queue import Usage
from ktui.pacing.room import NOTHING_FOREIGN, WaitsToGoAlone
from ktui.pacing.roster import Roster
from ktui.pacing.situation import WantedPartition
from support.runs.pacing import (
    Brokers,
    broker_limits,
    complete,
    foreign_moves,
    foreign_use,
    on_the_way,
    replica_lists,
    roster_of,
    submit,
    tp,
)

ADDS_4, ADDS_5 = ((1, 2, 3), (1, 2, 4)), ((1, 2, 3), (1, 2, 5))
MOVES_LEADER = ((1, 2), (2, 1))
GENTLE = Limits(replicas=1, partitions=2)
COUNTS = st.sampled_from((None, 1, 2, 3))
MIB = 1024 * 1024
SIZES = st.sampled_from((None, 1, MIB))
BROKERS = range(6)


def why(roster: Roster, partition: int, others: Usage = NOTHING_FOREIGN) -> WaitsFor | None:
    moved = tp(partition)
    return waiting_for(roster, moved, roster.situation(moved), roster.choices(moved), others)


def test_a_partition_in_the_next_decision_waits_for_nothing() -> None:
    assert why(roster_of(GENTLE, ADDS_4), 0) is None


def test_a_partition_waits_for_a_free_place() -> None:
    roster = roster_of(GENTLE, *[ADDS_4] * 3)
    submit(roster)

    assert why(roster, 2) == Full("partitions", 2, 2)


def test_a_partition_waits_for_room_on_a_broker_shared_with_others() -> None:
    roster = roster_of(replace(GENTLE, partitions=5, per_broker=2), *[ADDS_4] * 3, ADDS_5)
    submit(roster, foreign_use({4: 1}))

    assert why(roster, 1, foreign_use({4: 1})) == Full("per_broker", 2, 2, at=4, others=1)


def test_a_partition_waits_for_a_replica_movement_or_a_leader_movement() -> None:
    most = replace(GENTLE, partitions=5, replica_movements=2)
    roster = roster_of(most, *[ADDS_4] * 3)
    submit(roster, foreign_use({9: 1}))
    assert why(roster, 1, foreign_use({9: 1})) == Full("replica_movements", 2, 2, others=1)

    roster = roster_of(replace(GENTLE, partitions=5, leader_movements=1), *[MOVES_LEADER] * 2)
    submit(roster)
    assert why(roster, 1) == Full("leader_movements", 1, 1)


def test_a_partition_waits_for_the_end_of_the_wave() -> None:
    roster = roster_of(replace(GENTLE, mode=Mode.WAVE), *[ADDS_4] * 4)
    submit(roster)
    complete(roster, 1)

    assert why(roster, 3) == WaitsForNextWave(1, 2)


def test_a_partition_waits_for_room_at_the_leader_that_it_is_copied_from() -> None:
    roster = roster_of(Limits(replicas=1, per_leader=2), ADDS_4, ADDS_5)
    submit(roster, foreign_use({4: 1}, {1: 1}))
    assert why(roster, 1, foreign_use({4: 1}, {1: 1})) == Full("per_leader", 2, 2, at=1, others=1)


def test_a_partition_waits_for_the_bytes_in_flight_in_the_cluster_or_at_a_broker() -> None:
    sizes = (8 * MIB, 8 * MIB, 8 * MIB)
    roster = roster_of(Limits(replicas=1, bytes_in_flight=9 * MIB), *[ADDS_4] * 3, sizes=sizes)
    submit(roster)
    assert why(roster, 2) == Full("bytes_in_flight", 16 * MIB, 9 * MIB)

    roster = roster_of(Limits(replicas=1, bytes_per_broker=MIB), ADDS_4, ADDS_5, sizes=sizes)
    submit(roster)
    assert why(roster, 1) == Full("bytes_per_broker", 8 * MIB, MIB, at=1)


def test_a_partition_waits_for_the_minute_of_earlier_cuts_to_pass() -> None:
    roster = roster_of(Limits(cuts_per_minute=2), ((1, 2, 3), (1, 2)))
    roster.cuts_lately = 2
    assert why(roster, 0) == Full("cuts_per_minute", 2, 2)


def test_a_ready_partition_waits_for_the_others_of_its_cut() -> None:
    limits = replace(GENTLE, partitions=3, cut_together=2)
    roster = roster_of(limits, *[ADDS_4] * 3)
    submit(roster)
    complete(roster, 1)
    assert why(roster, 1) == WaitsForCut(1, 2)

    complete(roster, 0)
    assert why(roster, 1) is None


def test_without_a_limit_a_cut_waits_for_a_hundred_or_for_the_end_of_all_adding() -> None:
    roster = roster_of(Limits(replicas=1), *[ADDS_4] * 101)
    submit(roster)
    complete(roster, *range(1, 100))
    assert why(roster, 1) == WaitsForCut(99, 100)

    complete(roster, 100)
    assert why(roster, 1) is None


def test_large_partitions_wait_for_ten_so_that_brokers_do_not_fill_up_with_extra_replicas() -> None:
    roster = Roster(Limits(replicas=1))
    gib = 1024**3
    roster.add(WantedPartition(tp(n), on_the_way(*ADDS_4), size=gib) for n in range(11))
    submit(roster)
    complete(roster, *range(1, 10))
    assert why(roster, 1) == WaitsForCut(9, 100)

    complete(roster, 10)
    assert why(roster, 1) is None


def test_a_step_over_the_movement_limit_goes_alone_and_the_rest_wait_for_it() -> None:
    big = ((1, 2, 3), (4, 5, 6))
    limits = Limits(replicas=3, partitions=2, replica_movements=2, shape=Shape.GENTLE)
    roster = roster_of(limits, ADDS_4, big, ADDS_5)
    submit(roster, foreign_use({9: 1}))
    assert why(roster, 1, foreign_use({9: 1})) == WaitsToGoAlone(3, 2)

    alone = roster_of(limits, big, ADDS_4)
    submit(alone, foreign_use({9: 1}))
    complete(alone)
    while tp(0) not in alone.in_flight:
        submit(alone)
        if tp(0) not in alone.in_flight:
            complete(alone)
    assert alone.used.alone
    left = [n for n in (1,) if tp(n) in alone]
    assert [why(alone, n) for n in left] == [WaitsForLoneStep(tp(0))] * len(left)


@st.composite
def runs(draw: st.DrawFn) -> tuple[Roster, Usage]:
    """Draw a run after some decisions, with some steps complete and the last one submitted."""
    some = replica_lists(BROKERS, 4)
    limits = Limits(
        replicas=draw(st.sampled_from((1, 2, None))),
        partitions=draw(COUNTS),
        leader_movements=draw(COUNTS),
        replica_movements=draw(COUNTS),
        per_broker=draw(COUNTS),
        per_leader=draw(COUNTS),
        cuts_per_minute=draw(COUNTS),
        bytes_in_flight=draw(SIZES),
        bytes_per_broker=draw(SIZES),
        shape=draw(st.sampled_from(Shape)),
        mode=draw(st.sampled_from(Mode)),
        brokers=draw(broker_limits(BROKERS)),
    )
    ways: list[tuple[Brokers, Brokers]] = draw(
        st.lists(st.tuples(some, some), min_size=1, max_size=8)
    )
    others = draw(foreign_moves(BROKERS, 2))
    roster = roster_of(limits, *ways)
    for _ in range(draw(st.integers(0, 5))):
        submit(roster, others)
        moving = sorted(each.partition for each in roster.in_flight)
        completed = draw(st.sets(st.sampled_from(moving))) if moving else set()
        if completed:
            complete(roster, *completed)
    roster.cuts_lately = draw(st.integers(0, 3))
    submit(roster, others)
    return roster, others


def waiting(roster: Roster) -> set[TopicPartition]:
    return (
        {each for each in map(tp, range(8)) if each in roster}
        - {*roster.in_flight}
        - {*roster.blocked}
    )


@given(runs())
def test_every_partition_left_out_of_a_decision_waits_for_something(
    run: tuple[Roster, Usage],
) -> None:
    roster, others = run
    assert not [*decide_steps(roster, others).moves]
    for each in waiting(roster):
        assert why(roster, each.partition, others) is not None


@given(runs())
def test_the_reason_to_wait_depends_only_on_partitions_that_have_begun(
    run: tuple[Roster, Usage],
) -> None:
    roster, others = run
    begun = Roster(roster.limits)
    begun.cuts_lately = roster.cuts_lately
    begun.add(
        WantedPartition(each, roster.situation(each), begun=True) for each in roster.in_flight
    )
    moves = tuple(roster.in_flight.values())
    begun.submitted(replace(decide_steps(roster), steps=moves, cuts=()))
    between = (*roster.between, *roster.ready)
    begun.add(WantedPartition(each, roster.situation(each), begun=True) for each in between)
    for each in waiting(roster):
        situation, steps = roster.situation(each), roster.choices(each)
        reason = waiting_for(roster, each, situation, steps, others)
        assert waiting_for(begun, each, situation, steps, others) == reason
