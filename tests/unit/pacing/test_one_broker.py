"""Limits of one broker alone, for what is copied to it and from it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ktui.pacing.choosing import WaitsFor, WaitsToGoAlone, waiting_for
from ktui.pacing.limits import (
    BrokerLimits,
    Full,
    Limits,
    LimitsProblem,
    Shape,
    full_limit_figure,
    parse_broker_limits,
    parse_limits,
)
from ktui.pacing.queue import Usage
from ktui.pacing.room import NOTHING_FOREIGN
from ktui.pacing.roster import Roster
from support.runs.pacing import Brokers, complete, foreign_use, numbers, roster_of, submit, tp

MIB = 1024 * 1024
Way = tuple[Brokers, Brokers]


def copies(source: int, *to: int) -> Way:
    return (source,), (source, *to)


def own(broker: int, **limits: int | None) -> BrokerLimits:
    return BrokerLimits(broker=broker, **limits)


def begun(roster: Roster, others: Usage = NOTHING_FOREIGN) -> list[int]:
    """Submit the next decision, and return the numbers of its partitions."""
    return numbers(submit(roster, others))


def why(roster: Roster, partition: int, others: Usage = NOTHING_FOREIGN) -> WaitsFor | None:
    moved = tp(partition)
    return waiting_for(roster, moved, roster.situation(moved), roster.choices(moved), others)


@pytest.mark.parametrize("shape", [Shape.GENTLE, Shape.KIP_435])
def test_one_broker_gets_and_sends_one_replica_at_a_time_and_the_rest_goes_as_before(
    shape: Shape,
) -> None:
    alone = own(3, per_broker=1, per_leader=1)
    limits = Limits(replicas=1, per_broker=4, brokers=(alone,), shape=shape)
    ways = [copies(1, 3), copies(2, 3), copies(1, 4), copies(3, 4), copies(3, 2)]
    roster = roster_of(limits, *ways)

    assert begun(roster) == [0, 2, 3]
    assert why(roster, 1) == Full("per_broker", 1, 1, at=3, own=True)
    assert why(roster, 4) == Full("per_leader", 1, 1, at=3, own=True)
    complete(roster, 0)
    assert begun(roster) == [1]
    complete(roster, 3)
    assert begun(roster) == [4]


def test_what_others_add_counts_under_the_limits_of_a_broker() -> None:
    limits = Limits(replicas=1, brokers=(own(3, per_broker=2, per_leader=2),))
    others = foreign_use({3: 1}, {3: 1})
    roster = roster_of(limits, copies(1, 3), copies(1, 3), copies(3, 2), copies(3, 2))

    assert begun(roster, others) == [0, 2]
    assert why(roster, 1, others) == Full("per_broker", 2, 2, at=3, others=1, own=True)
    assert why(roster, 3, others) == Full("per_leader", 2, 2, at=3, others=1, own=True)


def test_the_bytes_of_one_broker_count_at_both_ends() -> None:
    limits = Limits(replicas=1, brokers=(own(3, bytes_per_broker=MIB),))
    ways = [copies(1, 3), copies(2, 3), copies(3, 2), copies(1, 2), copies(2, 1)]
    roster = roster_of(limits, *ways, sizes=(8 * MIB,) * 5)

    assert begun(roster) == [0, 3, 4]
    assert why(roster, 2) == Full("bytes_per_broker", 8 * MIB, MIB, at=3, own=True)


def test_none_lets_one_broker_go_beyond_the_limits_of_the_run() -> None:
    free = own(3, per_broker=None, per_leader=None, bytes_per_broker=None)
    limits = Limits(replicas=1, per_broker=1, per_leader=1, bytes_per_broker=MIB, brokers=(free,))
    ways = [copies(3, 1), copies(3, 2), copies(4, 3), copies(5, 3), copies(4, 6)]
    roster = roster_of(limits, *ways, sizes=(8 * MIB,) * 5)

    assert begun(roster) == [0, 1, 2, 3]
    assert why(roster, 4) == Full("per_leader", 1, 1, at=4)


def test_a_partition_begins_with_the_replica_whose_broker_has_room_by_its_own_limit() -> None:
    limits = Limits(replicas=1, brokers=(own(3, per_broker=1),))
    roster = roster_of(limits, copies(1, 3), copies(1, 3, 4))

    decision = submit(roster)
    assert [move.step.adds for move in decision.moves] == [(3,), (4,)]


def test_a_step_that_copies_more_than_its_leaders_own_limit_goes_alone() -> None:
    limits = Limits(replicas=2, brokers=(own(3, per_leader=1),))
    roster = roster_of(limits, copies(1, 4, 5), copies(3, 1, 2), copies(2, 4, 5))

    assert begun(roster) == [0, 2]
    assert why(roster, 1) == WaitsToGoAlone(2, 1, "per_leader", 3)
    complete(roster, 0, 2)
    assert [(move.tp.partition, move.alone) for move in submit(roster).moves] == [(1, True)]


def test_a_limit_of_a_broker_binds_the_next_decision_and_leaves_steps_in_flight() -> None:
    limits = Limits(replicas=1, partitions=2)
    roster = roster_of(limits, *[copies(1, 3)] * 3, copies(1, 4))
    assert begun(roster) == [0, 1]

    roster.set_limits(replace(limits, partitions=9, brokers=(own(3, per_broker=1),)))
    assert len(roster.in_flight) == 2
    assert begun(roster) == [3]
    complete(roster, 0)
    assert begun(roster) == []
    complete(roster, 1)
    assert begun(roster) == [2]


def test_limits_of_a_broker_keep_what_is_not_named_and_run_lifts_them() -> None:
    base = Limits(per_broker=4, bytes_per_broker=64 * MIB)
    one = parse_broker_limits({3: {"per-broker": "1", "bytes-per-broker": "8MiB"}}, base)
    assert one.brokers == (own(3, per_broker=1, bytes_per_broker=8 * MIB),)
    assert (one.most_at("per_broker", 3), one.most_at("per_broker", 4)) == (1, 4)
    assert full_limit_figure(one, "per-broker") == "4 (broker 3: 1)"

    two = parse_broker_limits({1: {"per-leader": 2}, 3: {"per-broker": "none"}}, one)
    assert full_limit_figure(two, "per-broker") == "4 (broker 3: none)"
    assert full_limit_figure(two, "per-leader") == "none (broker 1: 2)"
    assert full_limit_figure(two, "bytes-per-broker") == "64 MiB (broker 3: 8.0 MiB)"
    assert parse_limits({"per-broker": 5, "pace": "fast"}, two).brokers == two.brokers

    run = dict.fromkeys(("per-broker", "per-leader", "bytes-per-broker"), "run")
    assert parse_broker_limits({1: run, 3: run}, two) == base


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("partitions", 1, "--partitions: it is not a limit of one broker"),
        ("pace", "quiet", "--pace: it is not a limit of one broker"),
        ("per-broker", "0", "from 1, or none to lift the limit, or run for that of the run"),
        ("bytes-per-broker", "much", "--bytes-per-broker: 'much' is not a size"),
    ],
)
def test_what_is_no_limit_of_one_broker_is_refused_by_name(
    option: str, value: int | str, words: str
) -> None:
    with pytest.raises(LimitsProblem, match=words):
        parse_broker_limits({3: {option: value}}, Limits())
