"""Which partitions take their next step, under each limit."""

from __future__ import annotations

from msgspec.structs import replace

from ktui.pacing.choosing import decide_steps
from ktui.pacing.limits import Limits, Mode, Order, Shape
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Blocked, Decision, Done, WantedPartition
from ktui.pacing.steps import after
from support.runs.pacing import (
    Brokers,
    broken,
    complete,
    foreign_use,
    numbers,
    on_the_way,
    roster_of,
    run,
    submit,
    tp,
)

MIB = 1024 * 1024
ONE_BY_ONE = Limits(replicas=1, partitions=2)
KIP = replace(ONE_BY_ONE, shape=Shape.KIP_435)

LEADER_STAYS = ((0, 1), (0, 2))
LEADER_MOVES = ((1, 0), (2, 0))
ALL_MOVE = ((0, 1, 2), (3, 4, 5))
ADDS_ONE = LEADER_STAYS
DROPS_ONE = ((0, 1, 2), (0, 1))


def added(decision: Decision) -> list[Brokers]:
    return [move.step.adds for move in decision.moves if move.step.adds]


def several(count: int, way: tuple[Brokers, Brokers] = ADDS_ONE) -> list[tuple[Brokers, Brokers]]:
    return [way] * count


def test_no_more_partitions_begin_than_there_are_places() -> None:
    roster = roster_of(KIP, *several(5))

    assert numbers(submit(roster)) == [0, 1]
    assert numbers(submit(roster)) == []


def test_in_rolling_mode_a_place_is_filled_as_soon_as_it_is_free() -> None:
    roster = roster_of(KIP, *several(5))
    submit(roster)

    complete(roster, 1)

    assert numbers(submit(roster)) == [2]


def test_a_begun_partition_continues_before_another_begins() -> None:
    roster = roster_of(KIP, ALL_MOVE, *several(3))
    submit(roster)

    complete(roster)

    assert numbers(submit(roster)) == [0, 2]


def test_begun_partitions_continue_in_queue_order() -> None:
    roster = roster_of(KIP, *several(2, ALL_MOVE))
    submit(roster)

    complete(roster, 1, 0)

    assert numbers(submit(roster)) == [0, 1]


def about_to_add(roster: Roster, partition: int) -> None:
    """Bring a partition to a step that adds while others leave no room for it."""
    for _ in range(2):
        submit(roster)
        complete(roster, partition)


def test_a_begun_partition_keeps_its_place_while_a_limit_makes_it_wait() -> None:
    limits = replace(KIP, partitions=1, replica_movements=1)
    roster = roster_of(limits, ALL_MOVE, *several(3, DROPS_ONE))
    about_to_add(roster, 0)

    assert numbers(submit(roster, foreign_use({9: 1}))) == []
    roster.set_limits(replace(limits, partitions=2))
    assert numbers(submit(roster, foreign_use({9: 1}))) == [1]


def test_a_partition_that_comes_back_does_not_take_the_place_of_a_waiting_one() -> None:
    roster = roster_of(replace(KIP, partitions=1, replica_movements=1), *several(2, ALL_MOVE))
    submit(roster)
    now = after(roster.situation(tp(0)), roster.in_flight[tp(0)].step)
    roster.over(tp(0), replace(now, leader=None))
    about_to_add(roster, 1)

    roster.seen(tp(0), now)

    assert numbers(submit(roster, foreign_use({9: 1}))) == []
    assert numbers(submit(roster)) == [1]


def test_in_wave_mode_nothing_begins_until_the_whole_wave_has_ended() -> None:
    roster = roster_of(replace(KIP, mode=Mode.WAVE), *several(3))
    submit(roster)

    complete(roster, 0)
    assert numbers(submit(roster)) == []

    complete(roster, 1)
    assert numbers(submit(roster)) == [2]


def test_a_wave_has_one_batch_number_and_each_rolling_decision_its_own() -> None:
    waves = roster_of(replace(KIP, mode=Mode.WAVE), *several(3, ALL_MOVE))
    rolling = roster_of(KIP, *several(3, ALL_MOVE))

    assert [decision.batch for decision in run(waves)] == [1, 1, 1, 1, 2, 2, 2, 2]
    assert [decision.batch for decision in run(rolling)] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert decide_steps(rolling).batch == 8


def test_a_blocked_partition_gives_up_its_place_and_regains_one_before_new_ones() -> None:
    roster = roster_of(replace(KIP, partitions=1), ALL_MOVE, *several(3))
    submit(roster)
    whole = roster.situation(tp(0))

    given = roster.over(tp(0), replace(whole, leader=None))

    assert isinstance(given, Blocked)
    assert numbers(submit(roster)) == [1]
    roster.seen(tp(0), whole)
    assert numbers(submit(roster)) == []
    complete(roster, 1)
    assert numbers(submit(roster)) == [0]


def test_a_wave_does_not_wait_for_a_blocked_partition() -> None:
    roster = roster_of(replace(KIP, mode=Mode.WAVE), ALL_MOVE, *several(3))
    submit(roster)

    complete(roster, 1)
    roster.over(tp(0), broken(roster.situation(tp(0)), 0, 1, 2))

    assert numbers(submit(roster)) == [2, 3]


def test_leader_movements_stay_within_the_limit_and_others_fill_the_places() -> None:
    limits = replace(KIP, partitions=4, leader_movements=1)
    roster = roster_of(limits, *several(2), *several(3, LEADER_MOVES), *several(3))

    decision = submit(roster)

    assert numbers(decision) == [2, 0, 1, 5]
    assert [move.step.moves_leader for move in decision.moves] == [True, False, False, False]


def test_without_a_leader_movement_limit_queue_order_is_kept() -> None:
    roster = roster_of(replace(KIP, partitions=3), *several(2), *several(3, LEADER_MOVES))

    assert numbers(submit(roster)) == [0, 1, 2]


def test_a_begun_partition_whose_leader_is_to_move_waits_for_its_turn() -> None:
    ways = [((0, 1), (2, 0))] * 2
    limits = Limits(replicas=1, partitions=2, leader_movements=1, cut_together=1)
    roster = roster_of(limits, *ways)

    assert [numbers(decision) for decision in run(roster)] == [[0, 1], [0], [1]]


def test_a_step_that_adds_too_many_replicas_is_skipped_not_split() -> None:
    limits = Limits(replicas=3, partitions=9, replica_movements=4)
    roster = roster_of(limits, ALL_MOVE, ALL_MOVE, ADDS_ONE, ADDS_ONE)

    decision = submit(roster)

    assert numbers(decision) == [0, 2]
    assert sum(len(move.step.adds) for move in decision.moves) == 4


def test_replicas_others_add_count_against_cluster_and_broker_limits() -> None:
    def begun(adding: dict[int, int], limits: Limits) -> list[int]:
        return numbers(submit(roster_of(limits, *several(3)), foreign_use(adding)))

    assert begun({7: 2}, replace(ONE_BY_ONE, replica_movements=3)) == [0]
    assert begun({2: 1}, replace(ONE_BY_ONE, per_broker=2)) == [0]
    assert begun({2: 2}, replace(ONE_BY_ONE, per_broker=2)) == []


def test_no_more_replicas_are_copied_from_one_leader_than_its_limit() -> None:
    limits = Limits(replicas=2, per_leader=3)
    roster = roster_of(limits, ALL_MOVE, ALL_MOVE, LEADER_STAYS, ((1, 0), (1, 0, 2)), ADDS_ONE)

    assert numbers(submit(roster)) == [0, 2, 3]
    assert +roster.used.taken["per_leader"] == {0: 3, 1: 1}

    complete(roster, 2)

    assert numbers(submit(roster)) == [4]


def test_replicas_that_others_copy_from_a_leader_count_against_its_limit() -> None:
    limits = Limits(replicas=1, per_leader=2)

    def begun(sending: dict[int, int]) -> list[int]:
        foreign = foreign_use({7: sum(sending.values())}, sending)
        return numbers(submit(roster_of(limits, *several(3)), foreign))

    assert begun({0: 1}) == [0]
    assert begun({0: 2}) == []
    assert begun({5: 2}) == [0, 1]


def test_a_copy_counts_at_the_leader_that_sends_it_now() -> None:
    limits = Limits(replicas=1, per_leader=1)
    roster = roster_of(limits, LEADER_STAYS, LEADER_STAYS, ((1, 0), (1, 2)))
    assert numbers(submit(roster)) == [0, 2]

    roster.seen(tp(0), replace(roster.situation(tp(0)), leader=1))

    assert numbers(submit(roster)) == [1]
    assert +roster.used.taken["per_leader"] == {0: 1, 1: 2}
    complete(roster)
    assert not any(roster.used.taken["per_leader"].values())


def test_a_step_that_copies_more_from_its_leader_than_the_limit_goes_alone() -> None:
    limits = Limits(replicas=3, partitions=9, per_leader=2)
    roster = roster_of(limits, ALL_MOVE, ADDS_ONE)

    assert numbers(submit(roster)) == [1]
    complete(roster)
    assert numbers(submit(roster)) == [1]
    complete(roster)
    assert [(move.tp, move.alone) for move in submit(roster).moves] == [(tp(0), True)]


def test_nothing_more_is_copied_while_so_many_bytes_are_in_flight() -> None:
    limits = Limits(replicas=1, bytes_in_flight=100 * MIB)
    plan = [((n,), (n, n + 10)) for n in range(4)]
    roster = roster_of(limits, *plan, sizes=(60 * MIB,) * 4)

    assert numbers(submit(roster)) == [0, 1]
    complete(roster, 1)
    assert numbers(submit(roster)) == [2]


def test_a_broker_sends_and_receives_no_more_while_so_many_bytes_are_in_flight_there() -> None:
    limits = Limits(replicas=1, bytes_per_broker=100 * MIB)
    plan = [((1,), (1, 2)), ((1,), (1, 3)), ((2,), (2, 4)), ((1,), (1, 5)), ((6,), (6, 1))]
    roster = roster_of(limits, *plan, sizes=(60 * MIB,) * 5)

    assert numbers(submit(roster)) == [0, 1, 2]
    complete(roster, 0)
    assert numbers(submit(roster)) == [3]


def test_a_partition_larger_than_the_limit_goes_once_less_than_that_is_in_flight() -> None:
    limits = Limits(replicas=1, bytes_per_broker=MIB, bytes_in_flight=MIB)
    roster = roster_of(limits, ((1,), (1, 2)), ((3,), (3, 4)), sizes=(10**12, 10**12))

    assert numbers(submit(roster)) == [0]
    complete(roster)
    assert numbers(submit(roster)) == [1]


def test_many_small_partitions_go_at_once_and_even_an_empty_one_counts() -> None:
    roster = roster_of(Limits(replicas=1, bytes_per_broker=MIB), *[((1,), (1, 2))] * 9)

    assert numbers(submit(roster)) == [0, 1, 2, 3]


def test_the_replica_whose_broker_has_the_most_room_is_added_first() -> None:
    limits = Limits(replicas=1, bytes_per_broker=500 * MIB)
    roster = roster_of(limits, ((0,), (0, 4)), ((1,), (4, 5, 6)), sizes=(50 * MIB, 20 * MIB))

    assert added(submit(roster)) == [(4,), (5,)]
    complete(roster, 1)
    assert added(submit(roster)) == [(6,)]
    complete(roster, 1)
    assert added(submit(roster)) == [(4,)]


def test_between_brokers_with_as_much_room_the_order_of_the_target_decides() -> None:
    roster = roster_of(Limits(replicas=2, per_broker=9), ((0,), (6, 5, 4)))

    assert added(submit(roster)) == [(6, 5)]


def test_a_partition_begins_with_the_replica_whose_broker_is_not_full() -> None:
    limits = Limits(replicas=1, bytes_per_broker=MIB)
    plan = [((1,), (4,)), ((2,), (5, 4)), ((3,), (5, 4))]
    roster = roster_of(limits, *plan, sizes=(MIB,) * 3)

    assert added(submit(roster)) == [(4,), (5,)]
    complete(roster, 0)
    assert added(submit(roster)) == [(4,)]


def test_a_broker_that_others_add_to_has_less_room() -> None:
    roster = roster_of(Limits(replicas=1, per_broker=9), ((1,), (4, 5)))

    decision = decide_steps(roster, foreign_use(adding={4: 3}))

    assert added(decision) == [(5,)]


def test_without_a_limit_per_broker_the_order_of_the_target_decides() -> None:
    roster = roster_of(Limits(replicas=1, partitions=2), ((0,), (0, 4)), ((1,), (4, 5)))

    assert added(submit(roster)) == [(4,), (4,)]


def test_shape_kip_435_adds_in_the_order_of_the_target() -> None:
    limits = Limits(replicas=1, bytes_per_broker=500 * MIB, shape=Shape.KIP_435)
    roster = roster_of(limits, ((0,), (0, 4)), ((1,), (4, 5)), sizes=(50 * MIB, 20 * MIB))

    assert added(submit(roster)) == [(4,), (4,)]


def test_a_partition_of_unknown_size_counts_as_a_large_one() -> None:
    roster = Roster(Limits(replicas=1, bytes_per_broker=512 * MIB))
    unknown = [WantedPartition(tp(n), on_the_way((1,), (1, 2)), sized=False) for n in range(2)]
    roster.add(unknown)

    assert numbers(submit(roster)) == [0]


def test_a_partition_below_min_isr_does_not_wait_for_bytes_in_flight() -> None:
    limits = Limits(replicas=1, bytes_per_broker=1, bytes_in_flight=1)
    roster = roster_of(limits, ((1, 2), (1, 2, 3)), sizes=(10 * MIB,))
    submit(roster)
    lacking = on_the_way((1, 2), (1, 4), isr=(1,), offline=(2,), min_isr=2)
    roster.add([WantedPartition(tp(7), lacking, size=MIB)])

    assert numbers(submit(roster)) == [7]


def test_no_more_steps_raise_a_leader_epoch_in_a_minute_than_the_limit() -> None:
    limits = Limits(replicas=1, cuts_per_minute=3)
    roster = roster_of(limits, DROPS_ONE, DROPS_ONE, ((1, 0), (0, 1)), ADDS_ONE)
    roster.cuts_lately = 1

    assert sorted(numbers(submit(roster))) == [0, 1, 3]

    complete(roster)
    assert numbers(submit(roster)) == []
    roster.cuts_lately = 0
    assert sorted(numbers(submit(roster))) == [2, 3]


def test_a_cut_of_many_counts_each_partition() -> None:
    limits = Limits(replicas=1, partitions=3, cuts_per_minute=2)
    roster = roster_of(limits, *several(3))
    submit(roster)
    complete(roster)

    assert [len(cut) for cut in submit(roster).cuts] == [2]


def test_a_busy_broker_is_passed_over_for_partitions_that_go_elsewhere() -> None:
    limits = Limits(replicas=1, partitions=9, per_broker=1)
    roster = roster_of(limits, ADDS_ONE, ADDS_ONE, ((0, 1), (0, 3)), ADDS_ONE, ((0, 1), (0, 4)))

    assert numbers(submit(roster)) == [0, 2, 4]


def test_a_step_that_can_never_fit_goes_alone_and_is_marked_so() -> None:
    limits = Limits(replicas=3, partitions=9, replica_movements=2)
    roster = roster_of(limits, ALL_MOVE, ADDS_ONE, DROPS_ONE)

    decisions = list(run(roster))

    assert [numbers(decision) for decision in decisions] == [[1, 2], [1], [0], [0]]
    assert [move.alone for move in decisions[2].moves] == [True]
    assert not any(move.alone for n in (0, 1, 3) for move in decisions[n].moves)


def test_nothing_joins_a_step_that_goes_alone() -> None:
    limits = Limits(replicas=3, partitions=9, replica_movements=2)
    roster = roster_of(limits, ALL_MOVE)
    submit(roster)

    roster.add([WantedPartition(tp(1), on_the_way(*DROPS_ONE))])

    assert numbers(submit(roster)) == []


def test_a_step_that_can_never_fit_also_waits_for_moves_of_others() -> None:
    roster = roster_of(Limits(replicas=3, replica_movements=2), ALL_MOVE)

    assert numbers(submit(roster, foreign_use({9: 1}))) == []


def test_a_partition_below_min_isr_does_not_wait_for_the_replica_movement_limit() -> None:
    limits = Limits(replicas=1, partitions=9, replica_movements=1)
    roster = roster_of(limits, ADDS_ONE)
    lacking = on_the_way((0, 1, 2), (3, 4, 5), isr=(0,), min_isr=3)
    roster.add([WantedPartition(tp(1), lacking)])

    assert numbers(submit(roster)) == [0, 1]


def test_ready_partitions_hold_no_place_and_are_cut_when_there_are_enough() -> None:
    roster = roster_of(replace(ONE_BY_ONE, cut_together=3), *several(6))

    submit(roster)
    complete(roster, 0)
    assert numbers(submit(roster)) == [2]
    complete(roster, 1)
    assert numbers(submit(roster)) == [3]
    complete(roster, 2)
    decision = submit(roster)

    assert [[move.tp.partition for move in cut] for cut in decision.cuts] == [[0, 1, 2]]
    assert [move.tp.partition for move in decision.steps] == [4]


def test_by_default_as_many_are_cut_together_as_there_are_places() -> None:
    roster = roster_of(replace(ONE_BY_ONE, partitions=3), *several(9))
    submit(roster)

    complete(roster)

    assert [len(cut) for cut in submit(roster).cuts] == [3]


def test_cuts_made_one_by_one_are_separate_requests() -> None:
    roster = roster_of(Limits(replicas=1, partitions=3, cut_together=1), *several(3))
    submit(roster)

    complete(roster)

    assert [len(cut) for cut in submit(roster).cuts] == [1, 1, 1]


def test_a_partition_begun_by_an_earlier_process_takes_a_place_before_others_begin() -> None:
    limits = Limits(replicas=1, partitions=1, replica_movements=1)
    roster = Roster(limits)
    begun = on_the_way((0, 1, 5), (0, 2, 5))
    roster.add([WantedPartition(tp(0), replace(begun, reassigning=True), begun=True)])
    roster.add([WantedPartition(tp(n), on_the_way(*LEADER_STAYS)) for n in (1, 2)])

    roster.seen(tp(0), begun)
    assert roster.holds_place(tp(0))
    assert numbers(submit(roster, foreign_use({7: 1}))) == []
    assert numbers(submit(roster)) == [0]


def test_ready_partitions_do_not_wait_to_be_cut_with_a_stalled_one() -> None:
    roster = roster_of(Limits(replicas=1, partitions=4, cut_together=8), *several(3))
    submit(roster)
    complete(roster, 0, 1)
    assert not list(submit(roster).moves)

    roster.stall(tp(2), stalled=True)
    cut = submit(roster)

    assert [[move.tp.partition for move in together] for together in cut.cuts] == [[0, 1]]
    complete(roster)
    assert [len(together) for together in submit(roster).cuts] == [1]


def test_ready_partitions_are_cut_when_nothing_adds_any_more() -> None:
    roster = roster_of(Limits(replicas=1, partitions=4, cut_together=8), *several(3))
    submit(roster)

    complete(roster, 0, 1)
    assert numbers(submit(roster)) == []
    complete(roster, 2)

    assert [len(cut) for cut in submit(roster).cuts] == [3]


def test_a_wave_is_cut_before_the_next_begins() -> None:
    limits = Limits(replicas=1, partitions=2, cut_together=9, mode=Mode.WAVE)
    roster = roster_of(limits, *several(4))

    done = [(numbers(decision), len(decision.cuts)) for decision in run(roster)]

    assert done == [([0, 1], 0), ([0, 1], 1), ([2, 3], 0), ([2, 3], 1)]


def test_the_leader_movement_limit_caps_how_many_are_cut_together() -> None:
    limits = Limits(replicas=1, partitions=4, leader_movements=2)
    roster = roster_of(limits, *several(4, ALL_MOVE))

    cuts = [[len(cut) for cut in decision.cuts] for decision in run(roster)]

    assert cuts == [[], [], [], [2], [2]]


def test_ready_partitions_do_not_wait_for_a_cut_larger_than_the_leader_limit() -> None:
    roster = roster_of(Limits(replicas=3, partitions=2, leader_movements=1), *several(2, ALL_MOVE))
    submit(roster)

    complete(roster, 0)

    assert [numbers(submit(roster)), list(roster.in_flight)] == [[0], [tp(1), tp(0)]]


def test_partitions_that_only_drop_take_places_and_are_cut_at_once() -> None:
    roster = roster_of(replace(ONE_BY_ONE, cut_together=5), *several(5, DROPS_ONE))

    done = [[len(cut) for cut in decision.cuts] for decision in run(roster)]

    assert done == [[2], [2], [1]]


def test_partitions_begin_in_topic_size_or_plan_order() -> None:
    def first(order: Order) -> list[int]:
        limits = Limits(replicas=1, order=order)
        roster = Roster(limits)
        sizes = {2: 50, 0: 10, 1: 50, 3: 99}
        roster.add(WantedPartition(tp(n), on_the_way(*ADDS_ONE), size=sizes[n]) for n in sizes)
        return numbers(submit(roster))

    assert first(Order.TOPIC) == [0, 1, 2, 3]
    assert first(Order.PLAN) == [2, 0, 1, 3]
    assert first(Order.SIZE_DESC) == [3, 1, 2, 0]
    assert first(Order.SIZE_ASC) == [0, 1, 2, 3]


def test_topic_order_sorts_by_name_then_by_partition_number() -> None:
    roster = Roster(Limits(replicas=1))
    named = [tp(10, "b"), tp(2, "b"), tp(11, "a")]
    roster.add(WantedPartition(one, on_the_way(*ADDS_ONE)) for one in named)

    assert [move.tp for move in submit(roster).moves] == [tp(11, "a"), tp(2, "b"), tp(10, "b")]


def test_a_changed_order_applies_to_partitions_that_have_not_begun() -> None:
    roster = roster_of(ONE_BY_ONE, *several(5), sizes=(1, 2, 3, 4, 5))
    submit(roster)

    roster.set_limits(replace(ONE_BY_ONE, partitions=3, order=Order.SIZE_DESC))

    assert numbers(submit(roster)) == [4]


def test_a_lowered_limit_leaves_steps_in_flight_and_binds_the_next_decision() -> None:
    roster = roster_of(replace(KIP, partitions=4), *several(6, ALL_MOVE))
    submit(roster)

    roster.set_limits(replace(KIP, partitions=2))
    complete(roster, 0)
    assert len(roster.in_flight) == 3
    assert numbers(submit(roster)) == []
    complete(roster, 1, 2)

    assert numbers(submit(roster)) == [0]


def test_a_changed_shape_binds_the_next_step_even_of_begun_partitions() -> None:
    roster = roster_of(KIP, ALL_MOVE)
    submit(roster)
    roster.set_limits(ONE_BY_ONE)

    complete(roster)
    (move,) = submit(roster).moves

    assert move.step.target == (3, 0, 1, 2, 4)


def test_a_ready_partition_continues_in_the_other_shape() -> None:
    roster = roster_of(ONE_BY_ONE, ((0, 1, 2), (0, 1, 3)), *several(3, ALL_MOVE))
    submit(roster)
    complete(roster, 0)
    assert list(roster.ready) == [tp(0)]

    roster.set_limits(KIP)

    assert not roster.ready
    assert numbers(submit(roster)) == [0]


def test_a_withdrawn_partition_frees_what_it_held() -> None:
    limits = replace(KIP, partitions=1, replica_movements=1)
    roster = roster_of(limits, *several(3))
    submit(roster)

    roster.withdraw(tp(0))
    roster.withdraw(tp(1))

    assert numbers(submit(roster)) == [2]


def test_a_held_partition_waits_without_a_place_and_continues_when_released() -> None:
    roster = roster_of(replace(KIP, partitions=1), ALL_MOVE, *several(2))
    submit(roster)

    roster.hold(tp(0))
    complete(roster)
    assert numbers(submit(roster)) == [1]
    roster.release(tp(0))
    complete(roster)

    assert numbers(submit(roster)) == [0]


def test_a_partition_at_its_target_is_not_added_to_the_roster() -> None:
    roster = Roster(ONE_BY_ONE)

    given = roster.add([WantedPartition(tp(0), on_the_way((1, 2), (1, 2)))])

    assert isinstance(given[tp(0)], Done)
    assert tp(0) not in roster
    assert len(roster) == 0


def test_a_resumed_run_continues_begun_partitions_before_beginning_others() -> None:
    roster = Roster(replace(KIP, partitions=1))
    roster.add(WantedPartition(tp(n), on_the_way(*ALL_MOVE), begun=n == 2) for n in range(3))

    assert numbers(submit(roster)) == [2]


def test_the_head_of_the_queue_is_known_before_it_begins() -> None:
    roster = roster_of(KIP, *several(5))
    submit(roster)

    assert roster.queue.first(2) == [tp(2), tp(3)]


def test_withdrawn_partitions_leave_nothing_behind_in_the_queue() -> None:
    roster = roster_of(Limits(per_broker=9), *several(3, ALL_MOVE), *several(70))
    submit(roster)
    for n in range(73):
        roster.withdraw(tp(n))

    assert len(roster.queue) == 0
    assert roster.queue.first(9) == []
    assert not roster.queue._tree
    assert roster.used.adding == 0


def test_deciding_does_not_change_the_roster() -> None:
    roster = roster_of(ONE_BY_ONE, *several(5))

    assert decide_steps(roster) == decide_steps(roster)
    assert not roster.in_flight


def test_redirected_partitions_rank_before_all_others_in_flight_or_not() -> None:
    one_add = replace(KIP, partitions=3, replica_movements=1)
    roster = roster_of(one_add, *several(4, ALL_MOVE))
    submit(roster)
    complete(roster)
    back = replace(on_the_way((4, 2, 3), (0, 1, 2), leader=4), isr=(4, 2, 3))
    assert numbers(submit(roster)) == [0, 1]

    roster.redirect(tp(1), roster.situation(tp(1)))
    complete(roster, 0)
    roster.over(tp(1), back)
    roster.redirect(tp(3), replace(roster.situation(tp(3)), target=(5, 1, 2)))

    ranked = sorted([*roster.between, *roster.queue.first(9)], key=roster.rank)
    assert [each.partition for each in ranked] == [1, 3, 0, 2]
