"""The limits of a run, for one broker too, and for internal topics."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ktui.cluster.partition import TopicPartition
from ktui.pacing.choosing import WaitsFor, decide_steps, waiting_for
from ktui.pacing.limits import (
    NUMBERS,
    BrokerLimits,
    Full,
    InternalOrder,
    Limits,
    LimitsProblem,
    Mode,
    Order,
    Shape,
    default_limits,
    full_limit_figure,
    limit_text,
    parse_broker_limits,
    parse_limits,
)
from ktui.pacing.queue import Usage
from ktui.pacing.room import NOTHING_FOREIGN, WaitsToGoAlone
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Decision, WantedPartition
from ktui.pacing.steps import after
from support.runs.pacing import (
    Brokers,
    broken,
    complete,
    foreign_use,
    numbers,
    on_the_way,
    roster_of,
    submit,
    tp,
)


def problem(**options: object) -> str:
    with pytest.raises(LimitsProblem) as raised:
        parse_limits({name.replace("_", "-"): value for name, value in options.items()})
    return str(raised.value)


def test_a_limit_that_no_cluster_reaches_is_refused() -> None:
    assert "is too large" in problem(replicas=10**30)


def test_every_limit_has_the_name_of_its_option() -> None:
    typed: dict[str, object] = {f"--{name}": str(n) for n, name in enumerate(NUMBERS, 1)}
    typed |= {"--bytes-in-flight": "2GiB", "--bytes-per-broker": "50MB"}

    limits = parse_limits({**typed, "--mode": "wave", "--order": "size-desc", "--shape": "gentle"})

    assert limits == Limits(
        replicas=1,
        partitions=2,
        leader_movements=3,
        replica_movements=4,
        per_broker=5,
        per_leader=6,
        cuts_per_minute=7,
        bytes_in_flight=2 * 1024**3,
        bytes_per_broker=50_000_000,
        per_rack=10,
        extra_replicas=11,
        cut_together=12,
        mode=Mode.WAVE,
        order=Order.SIZE_DESC,
    )


def test_the_names_of_kip_435_set_the_same_limits() -> None:
    named = parse_limits(
        {
            "reassignment.parallel.replica.count": 1,
            "reassignment.parallel.partition.count": 2,
            "reassignment.parallel.leader.movements": 3,
            "reassignment.max.concurrent.replica.movements": 4,
        }
    )

    assert named == Limits(replicas=1, partitions=2, leader_movements=3, replica_movements=4)


def test_an_omitted_limit_stays_and_none_lifts_one() -> None:
    before = Limits(replicas=1, partitions=20, shape=Shape.KIP_435)

    assert parse_limits({"partitions": "none"}, before) == Limits(replicas=1, shape=Shape.KIP_435)


def test_a_run_defaults_to_gentle_with_one_replica_and_so_many_bytes_per_broker() -> None:
    assert default_limits() == Limits(
        replicas=1,
        cuts_per_minute=6_000,
        bytes_per_broker=32 * 1024 * 1024,
        shape=Shape.GENTLE,
        mode=Mode.ROLLING,
        order=Order.LONG_FIRST,
        internal=InternalOrder.LAST,
    )


@pytest.mark.parametrize(
    "option",
    ["--partitions", "per-broker", "reassignment.max.concurrent.replica.movements"],
)
def test_whoever_names_how_much_moves_at_once_gets_that_alone(option: str) -> None:
    assert default_limits({option: 3}) == replace(default_limits(), bytes_per_broker=None)


def test_other_limits_that_are_named_leave_the_default_as_it_is() -> None:
    assert default_limits({"replicas": 2, "mode": "wave"}) == default_limits()


def test_internal_topics_have_a_rule_in_shape_gentle_alone() -> None:
    kip_435 = default_limits({"shape": "kip-435"})
    assert kip_435.internal is InternalOrder.NONE
    assert parse_limits({"shape": "kip-435"}, default_limits()).internal is InternalOrder.NONE
    assert parse_limits({"internal": "first"}, default_limits()).internal is InternalOrder.FIRST
    assert problem(shape="kip-435", internal="last") == (
        "--internal: it has no effect in shape kip-435. Use --internal none, or --shape gentle"
    )
    assert parse_limits({"shape": "kip-435", "internal": "none"}, kip_435).shape is Shape.KIP_435


def test_a_pace_is_a_word_for_limits_and_what_is_named_beside_it_counts() -> None:
    before = Limits(replicas=2, partitions=7, bytes_in_flight=1)

    assert parse_limits({"pace": "fast"}, before) == Limits(
        replicas=3, partitions=7, bytes_per_broker=512 * 1024 * 1024
    )
    quiet = parse_limits({"--pace": "quiet", "--cuts-per-minute": 5}, Limits())
    assert (quiet.replicas, quiet.cuts_per_minute) == (1, 5)
    assert quiet.bytes_in_flight == 64 * 1024 * 1024
    assert parse_limits({"pace": "balanced"}, default_limits({"pace": "balanced"})) == (
        default_limits()
    )


def test_an_unknown_pace_is_refused_with_the_known_ones() -> None:
    words = "--pace: 'slow' is not a valid value. Use quiet or balanced or fast"
    assert problem(pace="slow") == words
    assert problem(pace=None) == words.replace("'slow'", "None")


@pytest.mark.parametrize("typed", ["none", "64MiB", "50MB", "1001B", "1TiB"])
def test_a_limit_in_bytes_is_shown_as_it_is_typed(typed: str) -> None:
    limits = parse_limits({"bytes-per-broker": typed})

    assert limit_text("bytes-per-broker", limits.bytes_per_broker) == typed


@pytest.mark.parametrize("value", ["64 apples", "", "-1MB", -1, True, "0", "2000PB"])
def test_a_limit_that_is_not_a_size_is_refused_with_its_option(value: object) -> None:
    message = problem(bytes_in_flight=value)

    assert message.startswith("--bytes-in-flight: ")
    assert message.endswith("Use a size such as 64MiB, or none to lift the limit")


@pytest.mark.parametrize("value", ["0", 0, "-1", -3, "2.5", 2.5, "many", "", True, "²"])
def test_a_limit_that_is_not_a_whole_number_from_1_is_refused_with_its_option(
    value: object,
) -> None:
    message = problem(per_broker=value)

    assert message.startswith("--per-broker: ")
    assert message.endswith("Use a whole number from 1, or none to lift the limit")


def test_an_unknown_word_is_refused_with_the_known_ones() -> None:
    assert problem(mode="waves") == ("--mode: 'waves' is not a valid value. Use rolling or wave")
    assert problem(shape=None).startswith("--shape: None is not")


def test_the_shape_of_reassign_cannot_be_chosen_but_its_other_limits_can_be_changed() -> None:
    whole = Limits(partitions=2, shape=Shape.WHOLE)

    assert problem(shape="whole") == "--shape: 'whole' is not a valid value. Use gentle or kip-435"
    assert parse_limits({"partitions": 5}, whole) == Limits(partitions=5, shape=Shape.WHOLE)


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    assert problem(replica=1).startswith(
        "replica: there is no such limit. The limits are --replicas, "
    )


@pytest.mark.parametrize("option", ["extra-replicas", "cut-together"])
def test_a_limit_of_the_gentle_shape_is_refused_with_kip_435(option: str) -> None:
    fix = f"Use --{option} none, or --shape gentle"

    with pytest.raises(LimitsProblem) as raised:
        parse_limits({"shape": "kip-435"}, parse_limits({option: 2}))

    assert raised.value.option == f"--{option}"
    assert raised.value.fix == fix


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
    for one in map(of, names):
        roster.over(one, after(roster.situation(one), roster.in_flight[one].step))


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


MIB = 1024 * 1024


def copies(source: int, *to: int) -> Way:
    return (source,), (source, *to)


def own(broker: int, **limits: int | None) -> BrokerLimits:
    return BrokerLimits(broker=broker, **limits)


def begun(roster: Roster, others: Usage = NOTHING_FOREIGN) -> list[int]:
    """Submit the next decision, and return the numbers of its partitions."""
    return numbers(submit(roster, others))


def one_broker_why(
    roster: Roster, partition: int, others: Usage = NOTHING_FOREIGN
) -> WaitsFor | None:
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
    assert one_broker_why(roster, 1) == Full("per_broker", 1, 1, at=3, own=True)
    assert one_broker_why(roster, 4) == Full("per_leader", 1, 1, at=3, own=True)
    complete(roster, 0)
    assert begun(roster) == [1]
    complete(roster, 3)
    assert begun(roster) == [4]


def test_what_others_add_counts_under_the_limits_of_a_broker() -> None:
    limits = Limits(replicas=1, brokers=(own(3, per_broker=2, per_leader=2),))
    others = foreign_use({3: 1}, {3: 1})
    roster = roster_of(limits, copies(1, 3), copies(1, 3), copies(3, 2), copies(3, 2))

    assert begun(roster, others) == [0, 2]
    assert one_broker_why(roster, 1, others) == Full("per_broker", 2, 2, at=3, others=1, own=True)
    assert one_broker_why(roster, 3, others) == Full("per_leader", 2, 2, at=3, others=1, own=True)


def test_the_bytes_of_one_broker_count_at_both_ends() -> None:
    limits = Limits(replicas=1, brokers=(own(3, bytes_per_broker=MIB),))
    ways = [copies(1, 3), copies(2, 3), copies(3, 2), copies(1, 2), copies(2, 1)]
    roster = roster_of(limits, *ways, sizes=(8 * MIB,) * 5)

    assert begun(roster) == [0, 3, 4]
    assert one_broker_why(roster, 2) == Full("bytes_per_broker", 8 * MIB, MIB, at=3, own=True)


def test_none_lets_one_broker_go_beyond_the_limits_of_the_run() -> None:
    free = own(3, per_broker=None, per_leader=None, bytes_per_broker=None)
    limits = Limits(replicas=1, per_broker=1, per_leader=1, bytes_per_broker=MIB, brokers=(free,))
    ways = [copies(3, 1), copies(3, 2), copies(4, 3), copies(5, 3), copies(4, 6)]
    roster = roster_of(limits, *ways, sizes=(8 * MIB,) * 5)

    assert begun(roster) == [0, 1, 2, 3]
    assert one_broker_why(roster, 4) == Full("per_leader", 1, 1, at=4)


def test_a_partition_begins_with_the_replica_whose_broker_has_room_by_its_own_limit() -> None:
    limits = Limits(replicas=1, brokers=(own(3, per_broker=1),))
    roster = roster_of(limits, copies(1, 3), copies(1, 3, 4))

    decision = submit(roster)
    assert [move.step.adds for move in decision.moves] == [(3,), (4,)]


def test_a_step_that_copies_more_than_its_leaders_own_limit_goes_alone() -> None:
    limits = Limits(replicas=2, brokers=(own(3, per_leader=1),))
    roster = roster_of(limits, copies(1, 4, 5), copies(3, 1, 2), copies(2, 4, 5))

    assert begun(roster) == [0, 2]
    assert one_broker_why(roster, 1) == WaitsToGoAlone(2, 1, "per_leader", 3)
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
