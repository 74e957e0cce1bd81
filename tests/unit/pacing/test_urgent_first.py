"""Partitions with too few replicas in sync go first, and have room that nothing else takes."""

from __future__ import annotations

import pytest

from ktui.pacing.choosing import (
    WaitsFor,
    WaitsForLoneStep,
    WaitsForNextWave,
    decide_steps,
    waiting_for,
)
from ktui.pacing.limits import Full, Limits, Mode, Order, Shape
from ktui.pacing.room import NOTHING_FOREIGN
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Decision, Move, Urgency, WantedPartition
from support.runs.pacing import (
    Brokers,
    broken,
    complete,
    foreign_use,
    numbers,
    on_the_way,
    step,
    submit,
    tp,
)

MIB, GIB = 1024**2, 1024**3
DEAD = 9
Way = tuple[Brokers, Brokers]


def a_run(limits: Limits, *ways: Way, sizes: Brokers = (), urgent_first: bool = True) -> Roster:
    roster = Roster(limits, urgent_first=urgent_first)
    roster.add(
        WantedPartition(tp(n), on_the_way(*way), size=sizes[n] if sizes else 0)
        for n, way in enumerate(ways)
    )
    return roster


def moves_to(target: int, beside: int = 8) -> Way:
    return ((1, beside), (1, target))


def broker_dies(roster: Roster, *partitions: int) -> None:
    for number in partitions:
        roster.seen(tp(number), broken(roster.situation(tp(number)), DEAD))


def why(roster: Roster, number: int) -> WaitsFor | None:
    of, moved = roster.situation(tp(number)), tp(number)
    choices, urgent = roster.choices(moved), roster.is_urgent(moved)
    return waiting_for(roster, moved, of, choices, NOTHING_FOREIGN, urgent=urgent)


@pytest.mark.parametrize(
    ("replicas", "target", "isr", "min_isr", "urgency"),
    [
        ((1, 2, 3), (1, 2, 4), (1, 2, 3), 2, None),
        ((1, 2, 3), (1, 2, 4), (1, 2), 2, None),
        ((1, 2, 3), (1, 2, 4), (1, 2), 3, Urgency.UNDER_MIN_ISR),
        ((1, 2, 3), (1, 2, 4), (1,), 2, Urgency.UNDER_MIN_ISR),
        ((1, 2, 3), (1, 2, 4), (1,), 1, Urgency.ONE_IN_SYNC),
        ((1,), (1, 2, 3), (1,), 1, Urgency.ONE_IN_SYNC),
        ((1,), (2,), (1,), 1, None),
        ((1,), (2,), (1,), 3, None),
        ((1, 2), (1,), (1,), 1, None),
        ((1, 2, 3), (1, 2), (1, 2), 3, None),
    ],
)
def test_a_partition_is_urgent_while_too_few_are_in_sync_by_what_its_target_can_have(
    replicas: Brokers, target: Brokers, isr: Brokers, min_isr: int, urgency: Urgency | None
) -> None:
    assert on_the_way(replicas, target, isr=isr, min_isr=min_isr).urgency is urgency


def test_urgent_partitions_wait_only_for_each_other_and_the_rest_for_all() -> None:
    """The example of docs/pacing.md, in which brokers 2 to 7 receive a replica."""
    limits = Limits(replicas=1, partitions=2, bytes_per_broker=100 * MIB, cut_together=1)
    large = [moves_to(2), moves_to(3), moves_to(4)]
    small = [moves_to(5, DEAD), moves_to(6, DEAD), moves_to(7, DEAD)]
    roster = a_run(limits, *large, *small, sizes=(*[10 * GIB] * 3, *[60 * MIB] * 3))
    assert numbers(submit(roster)) == [0]

    broker_dies(roster, 3, 4, 5)
    assert numbers(submit(roster)) == [3, 4]
    assert why(roster, 1) == Full("partitions", 3, 2)
    assert why(roster, 5) == Full("partitions", 2, 2, among_urgent=True)

    complete(roster, 3)
    assert numbers(submit(roster)) == [5]
    complete(roster, 4, 5)
    assert why(roster, 1) == Full("bytes_per_broker", 10 * GIB, 100 * MIB, at=1)
    complete(roster, 0)
    assert numbers(submit(roster)) == [1, 0]


@pytest.mark.parametrize("order", Order)
def test_urgent_partitions_go_before_all_others_in_every_order(order: Order) -> None:
    sizes = (3 * MIB, 2 * MIB, 2 * MIB, MIB)
    roster = a_run(Limits(partitions=1, order=order), *[moves_to(2, DEAD)] * 4, sizes=sizes)

    broker_dies(roster, 1, 2)

    assert numbers(submit(roster)) == [1]
    complete(roster)
    assert numbers(submit(roster)) == [2]


def test_without_the_option_they_keep_the_place_that_the_order_gives_them() -> None:
    roster = a_run(Limits(partitions=1), *[moves_to(2, DEAD)] * 3, urgent_first=False)

    broker_dies(roster, 2)

    assert numbers(decide_steps(roster)) == [0]


def test_a_partition_that_is_well_again_goes_back_to_its_place() -> None:
    roster = a_run(Limits(partitions=1), *[moves_to(2, DEAD)] * 3)
    well = roster.situation(tp(2))

    broker_dies(roster, 2)
    roster.seen(tp(2), well)

    assert numbers(decide_steps(roster)) == [0]
    assert not roster.urgent_waiting


FULL = {
    "P": (Limits(replicas=1, partitions=1), 1),
    "M": (Limits(replicas=1, replica_movements=1), 1),
    "B": (Limits(replicas=1, per_broker=1), 1),
    "S": (Limits(replicas=1, per_leader=1), 1),
    "V": (Limits(replicas=1, bytes_in_flight=MIB), 1),
    "W": (Limits(replicas=1, bytes_per_broker=MIB), 1),
    "L": (Limits(replicas=1, leader_movements=1, shape=Shape.KIP_435), 1),
}


@pytest.mark.parametrize("limit", FULL)
def test_each_limit_leaves_one_share_to_urgent_partitions_and_no_more(limit: str) -> None:
    limits, most = FULL[limit]
    way = ((1, DEAD), (2, 1)) if limit == "L" else moves_to(2, DEAD)
    roster = a_run(limits, *[way] * 4, sizes=(2 * MIB,) * 4)
    assert numbers(submit(roster)) == [0]

    broker_dies(roster, 2, 3)

    assert numbers(submit(roster)) == [2]
    assert numbers(submit(roster)) == []
    lacking = why(roster, 3)
    assert isinstance(lacking, Full)
    assert lacking.among_urgent
    assert lacking.used >= most


def test_other_peoples_copies_take_no_room_from_urgent_partitions() -> None:
    limits = Limits(replicas=1, replica_movements=2, per_broker=2, per_leader=2)
    roster = a_run(limits, *[moves_to(2, DEAD)] * 2)
    others = foreign_use({2: 5}, {1: 5})
    broker_dies(roster, 1)

    assert numbers(submit(roster, others)) == [1]
    assert numbers(submit(roster, others)) == []


def test_a_begun_partition_that_becomes_urgent_goes_on_before_others() -> None:
    limits = Limits(replicas=1, bytes_per_broker=MIB)
    roster = a_run(limits, ((1, 8, DEAD), (1, 3, 4)))
    submit(roster)
    roster.add([WantedPartition(tp(1), on_the_way(*moves_to(2)), size=GIB)])
    assert numbers(submit(roster)) == [1]
    complete(roster, 0)
    assert numbers(submit(roster)) == []

    roster.seen(tp(0), broken(roster.situation(tp(0)), DEAD, 8, 3))

    (move,) = submit(roster).moves
    assert (move.tp, move.step.adds, move.among_urgent) == (tp(0), (4,), True)


def test_the_place_of_a_begun_partition_counts_with_the_urgent_ones_while_it_is_urgent() -> None:
    limits = Limits(replicas=1, partitions=1)
    roster = a_run(limits, ((1, 8, DEAD), (1, 3, 4)), moves_to(2, DEAD))
    submit(roster)
    complete(roster)
    well = roster.situation(tp(0))
    assert (roster.used.places, roster.used_by_urgent.places) == (1, 0)

    roster.seen(tp(0), broken(well, DEAD, 8, 3))
    assert (roster.used.places, roster.used_by_urgent.places) == (1, 1)

    roster.seen(tp(0), well)
    assert (roster.used.places, roster.used_by_urgent.places) == (1, 0)


def test_an_urgent_partition_joins_the_wave_in_progress() -> None:
    limits = Limits(replicas=1, partitions=1, mode=Mode.WAVE)
    roster = a_run(limits, *[moves_to(2, DEAD)] * 3)
    first = submit(roster)
    assert why(roster, 2) == WaitsForNextWave(1, 1)

    broker_dies(roster, 2)

    joined = submit(roster)
    assert (numbers(joined), joined.batch) == ([2], first.batch)
    assert numbers(submit(roster)) == []


BIG = ((1, 2, 3), (4, 5, 6))
LONE = Limits(replicas=3, replica_movements=2)


def test_an_urgent_partition_does_not_wait_for_a_step_that_goes_alone() -> None:
    roster = a_run(LONE, BIG)
    (alone,) = submit(roster).moves
    assert alone.alone
    now = on_the_way(*moves_to(2, DEAD))

    roster.add([WantedPartition(tp(1), now), WantedPartition(tp(2), broken(now, DEAD))])

    assert why(roster, 1) == WaitsForLoneStep(tp(0))
    assert why(roster, 2) is None
    assert numbers(submit(roster)) == [2]


def test_an_urgent_step_over_the_limit_goes_alone_among_urgent_ones() -> None:
    lost = on_the_way((1, DEAD), (4, 5, 6), isr=(1,), offline=(DEAD,))
    roster = a_run(LONE, moves_to(2), moves_to(3))
    submit(roster)

    roster.add(WantedPartition(tp(n), lost) for n in (2, 3))

    assert [(m.tp.partition, m.alone) for m in submit(roster).moves] == [(2, True)]
    assert why(roster, 3) == WaitsForLoneStep(tp(2))
    complete(roster, 0, 1)
    assert numbers(submit(roster)) == []


def test_called_off_partitions_go_before_urgent_ones() -> None:
    limits = Limits(replicas=1, cuts_per_minute=1, shape=Shape.KIP_435)
    roster = a_run(limits, *[((1, DEAD), (2, 1))] * 3)
    broker_dies(roster, 1)

    roster.redirect(tp(2), roster.situation(tp(2)))

    assert numbers(decide_steps(roster)) == [2]


def test_a_resumed_run_counts_the_urgent_steps_that_are_in_flight() -> None:
    limits = Limits(replicas=1, partitions=1)
    roster = a_run(limits, *[moves_to(2, DEAD)] * 2)
    broker_dies(roster, 0, 1)
    begun = step(roster.choices(tp(0))[0])
    restored = Decision(1, steps=(Move(tp(0), begun, among_urgent=True),))

    roster.submitted(restored)

    assert why(roster, 1) == Full("partitions", 1, 1, among_urgent=True)
    assert numbers(decide_steps(roster)) == []
