"""Kafka's own topics go last, and one of their leaders moves at a time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ktui.cluster.partition import TopicPartition
from ktui.pacing.choosing import WaitsFor, decide_steps, waiting_for
from ktui.pacing.limits import Full, InternalOrder, Limits, Mode, Order, Shape
from ktui.pacing.room import NOTHING_FOREIGN
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Decision, WantedPartition
from ktui.pacing.steps import after
from support.runs.pacing import Brokers, broken, on_the_way, submit

Way = tuple[Brokers, Brokers]
MOVES_LEADER: Way = ((1, 2), (3, 2))
KEEPS_LEADER: Way = ((1, 2), (1, 3))
LAST = Limits(replicas=1, internal=InternalOrder.LAST)
OFFSETS, TRANSACTIONS, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"


def of(name: str) -> TopicPartition:
    """Return a partition by a short name: `orders-0`, `offsets-1`, `transactions-2`."""
    topic, _, number = name.rpartition("-")
    known = {"offsets": OFFSETS, "transactions": TRANSACTIONS, "shares": SHARES}
    return TopicPartition(known.get(topic, topic), int(number))


def a_run(limits: Limits, *names: str, way: Way = MOVES_LEADER, urgent: bool = False) -> Roster:
    roster = Roster(limits, urgent_first=urgent)
    roster.add(WantedPartition(of(name), on_the_way(*way)) for name in names)
    return roster


def moved(decision: Decision) -> list[str]:
    shown = {OFFSETS: "offsets", TRANSACTIONS: "transactions", SHARES: "shares"}
    moves = decision.moves
    return [f"{shown.get(m.tp.topic, m.tp.topic)}-{m.tp.partition}" for m in moves]


def is_over(roster: Roster, *names: str) -> None:
    for tp in map(of, names):
        roster.over(tp, after(roster.situation(tp), roster.in_flight[tp].step))


def why(roster: Roster, name: str) -> WaitsFor | None:
    tp = of(name)
    choices = roster.choices(tp)
    return waiting_for(roster, tp, roster.situation(tp), choices, NOTHING_FOREIGN)


def test_internal_partitions_begin_last_and_move_one_leader_at_a_time() -> None:
    """The example of docs/pacing.md."""
    limits = replace(LAST, partitions=2, cut_together=1)
    roster = a_run(limits, "offsets-0", "offsets-1", "orders-0", "orders-1", "orders-2")

    assert moved(submit(roster)) == ["orders-0", "orders-1"]
    is_over(roster, "orders-0")
    assert moved(submit(roster)) == ["orders-2", "orders-0"]
    is_over(roster, "orders-1", "orders-0")
    assert moved(submit(roster)) == ["offsets-0", "orders-1"]
    is_over(roster, "orders-2", "offsets-0", "orders-1")
    assert moved(submit(roster)) == ["offsets-1", "orders-2", "offsets-0"]
    is_over(roster, "offsets-1")
    assert moved(submit(roster)) == []
    assert why(roster, "offsets-1") == Full("leader_movements", 1, 1, among_internal=True)
    is_over(roster, "offsets-0")
    assert moved(submit(roster)) == ["offsets-1"]


def test_an_internal_partition_waits_for_others_that_wait_for_room_also_where_it_has_some() -> None:
    roster = a_run(replace(LAST, per_broker=1), "orders-0", "orders-1")
    roster.add([WantedPartition(of("offsets-0"), on_the_way((1, 2), (4, 2)))])

    assert moved(submit(roster)) == ["orders-0"]
    is_over(roster, "orders-0")
    assert "offsets-0" in moved(submit(roster))


def test_blocked_and_held_partitions_do_not_keep_internal_ones_waiting() -> None:
    roster = a_run(LAST, "offsets-0", "orders-0", "orders-1")
    roster.seen(of("orders-0"), broken(roster.situation(of("orders-0")), 3))
    roster.hold(of("orders-1"))

    assert moved(submit(roster)) == ["offsets-0"]


@pytest.mark.parametrize("order", Order)
def test_internal_partitions_go_first_or_last_in_every_order(order: Order) -> None:
    names = ("__a-0", "offsets-0", "shares-0", "transactions-0", "zebra-0")
    last = a_run(replace(LAST, order=order), *names)
    first = a_run(replace(LAST, order=order, internal=InternalOrder.FIRST), *names)
    mixed = a_run(replace(LAST, order=order, internal=InternalOrder.NONE), *names)
    internal = {"offsets-0", "shares-0", "transactions-0"}

    assert {*moved(submit(last))[2:]} == internal
    assert {*moved(submit(first))[:3]} == internal
    assert moved(submit(mixed)) == [*names]


def test_a_limit_of_more_leaders_does_not_let_a_second_internal_one_move() -> None:
    limits = replace(LAST, leader_movements=5, replicas=None)
    roster = a_run(limits, "offsets-0", "transactions-0", "orders-0", "orders-1")

    assert moved(submit(roster)) == ["orders-0", "orders-1", "offsets-0"]
    is_over(roster, "offsets-0")
    assert moved(submit(roster)) == ["transactions-0"]


def test_internal_partitions_whose_leader_stays_are_cut_with_the_others() -> None:
    names = [f"offsets-{n}" for n in range(4)]
    roster = a_run(replace(LAST, cut_together=4), *names, way=KEEPS_LEADER)
    submit(roster)
    is_over(roster, *names)

    assert moved(submit(roster)) == names


def test_an_internal_partition_is_cut_while_others_copy_and_none_waits_with_it() -> None:
    roster = a_run(replace(LAST, cut_together=3), "offsets-0", "orders-0", "orders-1")
    submit(roster)
    is_over(roster, "offsets-0", "orders-0")

    assert moved(submit(roster)) == ["offsets-0"]


def test_without_the_rule_internal_partitions_go_as_all_others() -> None:
    names = ("offsets-0", "transactions-0", "orders-0")
    roster = a_run(Limits(replicas=1), *names)

    assert moved(submit(roster)) == [*names]
    is_over(roster, *names)
    assert moved(submit(roster)) == [*names]


def test_urgent_and_called_off_internal_partitions_do_not_go_last() -> None:
    limits = replace(LAST, partitions=1)
    roster = a_run(limits, "offsets-0", "offsets-1", "orders-0", urgent=True)
    roster.seen(of("offsets-1"), broken(roster.situation(of("offsets-1")), 2))
    assert moved(decide_steps(roster)) == ["offsets-1"]

    roster = a_run(limits, "offsets-0", "offsets-1", "orders-0")
    roster.redirect(of("offsets-1"), roster.situation(of("offsets-1")))
    assert moved(decide_steps(roster)) == ["offsets-1"]


def test_urgent_internal_partitions_move_one_leader_at_a_time_too() -> None:
    under_min_isr = on_the_way((3, 2, 4), (3, 2, 4), leader=2, isr=(2, 3), min_isr=3)
    roster = Roster(LAST, urgent_first=True)
    roster.add(WantedPartition(of(f"offsets-{n}"), under_min_isr) for n in range(2))
    assert roster.urgent_waiting

    assert moved(submit(roster)) == ["offsets-0"]
    assert why(roster, "offsets-1") == Full("leader_movements", 1, 1, among_internal=True)


def test_internal_partitions_join_the_wave_of_the_last_others() -> None:
    limits = replace(LAST, partitions=2, mode=Mode.WAVE)
    roster = a_run(limits, "offsets-0", "offsets-1", "orders-0", way=KEEPS_LEADER)

    assert moved(submit(roster)) == ["orders-0", "offsets-0"]


def test_a_partition_that_goes_alone_comes_before_an_internal_one() -> None:
    limits = Limits(replicas=2, replica_movements=1, internal=InternalOrder.LAST)
    roster = a_run(limits, "offsets-0", "orders-0", way=((1, 2), (3, 4)))

    assert moved(submit(roster)) == ["orders-0"]
    is_over(roster, "orders-0")
    assert moved(submit(roster)) == ["orders-0"]
    is_over(roster, "orders-0")
    assert moved(submit(roster)) == ["offsets-0"]


def test_changed_limits_file_internal_partitions_again() -> None:
    roster = a_run(replace(LAST, partitions=1), "offsets-0", "orders-0")
    roster.set_limits(replace(roster.limits, internal=InternalOrder.FIRST))

    assert moved(submit(roster)) == ["offsets-0"]


def test_shape_kip_435_keeps_the_order_of_the_queue() -> None:
    roster = a_run(Limits(replicas=1, shape=Shape.KIP_435), "offsets-0", "offsets-1", "orders-0")

    assert moved(submit(roster)) == ["offsets-0", "offsets-1", "orders-0"]
