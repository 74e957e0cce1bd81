"""Steps in trouble, the shapes of steps, and their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ktui.cluster.partition import TopicPartition
from ktui.pacing.choosing import decide_steps
from ktui.pacing.limits import Limits, LimitsProblem, Order, Shape, default_limits, parse_limits
from ktui.pacing.queue import Copies, bytes_ahead, put_long_first
from ktui.pacing.room import NOTHING_FOREIGN
from ktui.pacing.roster import Roster
from ktui.pacing.situation import DONE, Blocked, BlockReason, Situation, Step, WantedPartition
from ktui.pacing.steps import all_steps, next_step
from support.runs.pacing import (
    WHOLE,
    Brokers,
    Way,
    gentle,
    kip_435,
    numbers,
    on_the_way,
    roster_of,
    step,
    submit,
    way,
)

BOTH = pytest.mark.parametrize("limits", [kip_435(), gentle()])
ALL = pytest.mark.parametrize("limits", [kip_435(), gentle(), kip_435(None)])


def refusal(now: Situation, limits: Limits) -> tuple[BlockReason, tuple[int, ...]]:
    given = next_step(now, limits)
    assert isinstance(given, Blocked), given
    return given.why, given.brokers


@BOTH
def test_a_partition_below_min_isr_adds_all_lacking_replicas_at_once(
    limits: Limits,
) -> None:
    now = on_the_way((0, 1, 2, 3), (4, 5, 6, 7), isr=(0,), min_isr=3)

    given = step(next_step(now, limits))

    assert (given.adds, given.drops, given.urgent) == ((4, 5), (), True)


def test_kip_435_below_min_isr_elects_the_new_leader_if_it_is_added() -> None:
    now = on_the_way((0, 1, 2), (3, 4, 5), isr=(0,), min_isr=2)

    assert step(next_step(now, kip_435(2))).target == (3, 4, 0, 1, 2)
    assert step(next_step(now, kip_435(2))).elects == 3
    assert step(next_step(now, gentle(2))).target == (0, 1, 2, 3, 4)
    assert step(next_step(now, gentle(2))).elects is None


def test_a_limit_on_extra_replicas_does_not_keep_a_partition_below_min_isr() -> None:
    now = on_the_way((0, 1, 2), (3, 4, 5), isr=(0,), min_isr=3)

    assert step(next_step(now, gentle(extra=1))).adds == (3, 4)


def test_min_isr_never_exceeds_the_replicas_the_plan_leaves() -> None:
    now = on_the_way((0, 1, 2), (0,), min_isr=2)

    assert step(next_step(now, kip_435(2))).target == (0,)


@ALL
def test_the_first_step_drops_a_dead_brokers_replica_beyond_the_limit(
    limits: Limits,
) -> None:
    now = on_the_way((0, 1, 2), (3, 0, 4), isr=(0, 1), offline=(2,), before_4_3=True)

    assert 2 in step(next_step(now, limits)).drops


def test_only_the_dead_brokers_replica_is_dropped_where_there_is_one_too_many() -> None:
    now = on_the_way((0, 1, 2), (0, 1), isr=(0, 1), offline=(2,))

    assert step(next_step(now, kip_435())).target == (0, 1)
    assert step(next_step(now, gentle())).target == (0, 1)


@BOTH
def test_a_dead_brokers_replica_stays_while_nothing_can_replace_it(limits: Limits) -> None:
    now = on_the_way((0, 1, 2), (0, 1, 3), isr=(0, 1), offline=(2, 3))

    assert refusal(now, limits) == (BlockReason.TARGET_OFFLINE, (3,))


@ALL
def test_before_4_3_a_kept_replica_that_is_offline_blocks(limits: Limits) -> None:
    now = on_the_way((0, 1, 2), (0, 1, 3), isr=(0, 2), offline=(1,), before_4_3=True)

    assert refusal(now, limits) == (BlockReason.KEPT_OFFLINE, (1,))


@ALL
def test_from_4_3_a_step_that_adds_proceeds_with_a_kept_replica_offline(limits: Limits) -> None:
    now = on_the_way((0, 1, 2), (0, 1, 3), isr=(0, 2), offline=(1,))

    assert step(next_step(now, limits)).adds == (3,)


def test_from_4_3_a_step_that_drops_more_than_it_adds_waits_for_every_kept_replica() -> None:
    now = on_the_way((0, 1, 2, 3), (0, 1), isr=(0, 2, 3), offline=(1,))

    assert refusal(now, kip_435()) == (BlockReason.KEPT_OFFLINE, (1,))


def test_from_4_3_dead_replicas_stay_where_dropping_them_would_make_the_step_wait() -> None:
    now = on_the_way((0, 1, 2, 3), (0, 1, 4), isr=(0,), offline=(1, 2, 3))

    given = step(next_step(now, gentle()))

    assert (given.target, given.drops) == ((0, 1, 2, 3, 4), ())


def test_a_replica_that_min_isr_needs_is_passed_over_for_the_next() -> None:
    now = on_the_way((0, 3, 1, 2), (0, 3), isr=(0, 1), min_isr=2)

    assert step(next_step(now, kip_435())).drops == (2,)


def test_no_drop_leaves_fewer_in_sync_than_min_isr() -> None:
    now = on_the_way((0, 1, 2), (0, 1), isr=(0, 2), min_isr=2)

    assert refusal(now, kip_435()) == (BlockReason.BELOW_MIN_ISR, (2,))
    assert refusal(now, gentle()) == (BlockReason.TARGET_NOT_IN_SYNC, (1,))


@ALL
def test_the_leader_stays_while_its_successor_is_not_in_sync(limits: Limits) -> None:
    now = on_the_way((0, 1, 2), (1, 2), isr=(0, 2))

    assert refusal(now, limits)[1] == (1,)


def test_with_a_target_down_the_others_go_first_and_the_refusal_names_it() -> None:
    now = on_the_way((0, 1, 2), (3, 1, 4), offline=(3,))

    given = step(next_step(now, kip_435()))
    later = replace(now, replicas=given.target, isr=given.target)

    assert given.target == (0, 1, 4)
    assert refusal(later, kip_435()) == (BlockReason.TARGET_OFFLINE, (3,))


@ALL
def test_nothing_is_dropped_for_a_target_that_is_down(limits: Limits) -> None:
    assert refusal(on_the_way((0, 1), (0, 2), offline=(2,)), limits) == (
        BlockReason.TARGET_OFFLINE,
        (2,),
    )


@ALL
def test_a_partition_without_a_leader_waits(limits: Limits) -> None:
    assert refusal(on_the_way((0, 1), (2, 3), leader=None), limits) == (
        BlockReason.PARTITION_OFFLINE,
        (),
    )
    assert refusal(on_the_way((0, 1), (2, 3), isr=()), limits) == (
        BlockReason.PARTITION_OFFLINE,
        (),
    )


@ALL
def test_an_offline_partition_names_the_eligible_leader_that_is_not_a_replica(
    limits: Limits,
) -> None:
    offline = replace(on_the_way((1, 2), (4, 5), leader=None), isr=(), eligible=(3,))

    found = next_step(offline, limits)

    assert isinstance(found, Blocked)
    assert (found.why, found.brokers) == (BlockReason.ELIGIBLE_GONE, (3,))
    assert "waits for broker 3, no longer among its replicas" in found.sentence
    among_replicas = replace(offline, eligible=(2, 3))
    assert refusal(among_replicas, limits) == (BlockReason.PARTITION_OFFLINE, ())


@ALL
def test_a_partition_being_reassigned_is_never_altered(limits: Limits) -> None:
    now = replace(on_the_way((0, 1), (2, 3)), reassigning=True)

    assert refusal(now, limits) == (BlockReason.REASSIGNING, ())


@ALL
def test_a_new_leader_that_is_not_in_sync_blocks_the_end(limits: Limits) -> None:
    now = on_the_way((3, 4), (3, 4), isr=(4,), leader=4)

    assert refusal(now, limits) == (BlockReason.FIRST_NOT_IN_SYNC, (3,))


def test_a_cut_waits_until_every_target_is_in_sync() -> None:
    now = on_the_way((0, 3, 4), (3, 4), isr=(0, 3))

    assert refusal(now, gentle()) == (BlockReason.TARGET_NOT_IN_SYNC, (4,))


def test_a_reorder_does_not_wait_for_an_offline_replica() -> None:
    now = on_the_way((3, 5, 4), (3, 4, 5), isr=(3, 5), offline=(4,), before_4_3=True)

    assert step(next_step(now, kip_435())).target == (3, 4, 5)


def test_the_current_replica_order_stays_until_the_new_leader_can_lead() -> None:
    now = on_the_way((0, 1, 2), (3, 1, 4), offline=(3,))
    assert step(next_step(now, kip_435())).target[0] == 0

    back = on_the_way((0, 1, 4), (3, 1, 4))
    assert step(next_step(back, kip_435())).target == (3, 1, 4, 0)


def test_every_refusal_is_a_sentence_that_names_the_brokers() -> None:
    assert Blocked(BlockReason.TARGET_OFFLINE, (3,)).sentence == "broker 3 of its target is down"
    assert (
        Blocked(BlockReason.TARGET_NOT_IN_SYNC, (3, 4)).sentence
        == "brokers 3, 4 of its target are not in sync"
    )
    assert (
        Blocked(BlockReason.BELOW_MIN_ISR, (1,)).sentence
        == "dropping broker 1 would leave fewer in sync than min.insync.replicas"
    )
    assert all("{" not in Blocked(why, (1,)).sentence for why in BlockReason)


RF3 = (0, 1, 2)


@pytest.mark.parametrize(
    "target",
    [(3, 4, 5), (0, 1, 3), (2, 1, 0), (0, 1, 2, 3), (2,), (4, 0)],
    ids=["all others", "one other", "another order", "one more", "fewer", "fewer, and another"],
)
def test_one_request_without_an_election_asks_for_the_target_in_its_order(target: Brokers) -> None:
    assert way(RF3, target, WHOLE) == [(target, None)]


def test_the_step_names_what_it_adds_and_drops_and_whether_the_leader_goes() -> None:
    leader_goes = step(next_step(on_the_way(RF3, (3, 1, 4)), WHOLE))
    leader_stays = step(next_step(on_the_way(RF3, (3, 0, 4)), WHOLE))

    assert leader_goes == Step(
        target=(3, 1, 4), adds=(3, 4), drops=(0, 2), alters=True, moves_leader=True
    )
    assert leader_stays == Step(target=(3, 0, 4), adds=(3, 4), drops=(1, 2), alters=True)


def test_a_partition_below_min_isr_is_moved_like_any_other() -> None:
    now = on_the_way(RF3, (3, 4, 5), isr=(0,), min_isr=3)

    assert step(next_step(now, WHOLE)).target == (3, 4, 5)
    assert not step(next_step(now, WHOLE)).urgent


def test_replicas_out_of_sync_are_dropped_down_to_one_that_lags() -> None:
    now = on_the_way(RF3, (2,), isr=(0, 1), min_isr=2)

    assert step(next_step(now, WHOLE)).target == (2,)


def test_a_kept_replica_whose_broker_is_down_does_not_hold_the_step_back() -> None:
    now = on_the_way(RF3, (0, 2, 3), isr=(0, 1), offline=(2,))

    assert step(next_step(now, WHOLE)).target == (0, 2, 3)


def test_a_partition_waits_for_the_brokers_of_its_added_replicas() -> None:
    now = on_the_way(RF3, (3, 4, 5), offline=(3, 5, 2))

    assert next_step(now, WHOLE) == Blocked(BlockReason.TARGET_OFFLINE, (3, 5))


def test_a_partition_that_somebody_reassigns_waits() -> None:
    now = replace(on_the_way(RF3, (3, 4, 5)), reassigning=True)

    assert next_step(now, WHOLE) == Blocked(BlockReason.REASSIGNING)


def test_a_partition_at_its_target_is_done_whoever_leads_it() -> None:
    assert next_step(on_the_way(RF3, RF3, leader=2), WHOLE) == DONE
    assert next_step(on_the_way(RF3, RF3, leader=None), WHOLE) == DONE


def test_a_rollback_elects_the_leader_that_the_partition_had() -> None:
    back = replace(on_the_way((3, 4, 5), RF3), lead=1)
    at_its_replicas = replace(on_the_way(RF3, RF3, leader=0), lead=1)

    assert step(next_step(back, WHOLE)).elects == 1
    assert step(next_step(at_its_replicas, WHOLE)).elects == 1


def test_without_limits_all_partitions_are_submitted_together() -> None:
    ways = [(RF3, (3, 4, 5)), (RF3, (2, 1, 0)), ((0, 1), (2, 3))]

    assert numbers(submit(roster_of(WHOLE, *ways))) == [0, 1, 2]
    assert numbers(submit(roster_of(replace(WHOLE, partitions=2), *ways))) == [0, 1]


@pytest.mark.parametrize("more", [{"replicas": 1}, {"replicas": 2}, {"replica_movements": 1}])
def test_limits_on_replicas_do_not_cut_the_step(more: dict[str, int]) -> None:
    limits: Limits = replace(WHOLE, **more)

    assert way(RF3, (3, 4, 5), limits) == [((3, 4, 5), None)]


FIVE, OTHER_FIVE = (0, 1, 2, 3, 4), (5, 6, 7, 8, 9)


def test_the_example_of_kip_435_takes_the_steps_it_shows() -> None:
    assert way(FIVE, OTHER_FIVE, kip_435(2)) == [
        ((5, 0, 1, 2, 3, 4), 5),
        ((5, 6, 2, 3, 4), None),
        ((5, 6, 7, 8, 4), None),
        ((5, 6, 7, 8, 9), None),
    ]


def test_with_one_replica_at_a_time_the_leader_moves_first() -> None:
    assert way((0, 1, 2), (3, 4, 5), kip_435()) == [
        ((3, 0, 1, 2), 3),
        ((3, 1, 2), None),
        ((3, 4, 2), None),
        ((3, 4, 5), None),
    ]


def test_kip_435_adds_replicas_one_by_one() -> None:
    assert way((0, 1), (0, 1, 2, 3), kip_435()) == [((0, 1, 2), None), ((0, 1, 2, 3), None)]


def test_kip_435_drops_replicas_one_by_one() -> None:
    assert way((0, 1, 2, 3), (0, 1), kip_435()) == [((0, 1, 3), None), ((0, 1), None)]


def test_gentle_adds_one_by_one_and_drops_all_at_once() -> None:
    steps: Way = [
        ((0, 1, 2, 3), None),
        ((0, 1, 2, 3, 4), None),
        ((0, 1, 2, 3, 4, 5), None),
        ((3, 4, 5), None),
    ]
    assert way((0, 1, 2), (3, 4, 5), gentle()) == steps


def test_gentle_with_room_for_one_extra_replica_adds_and_drops_in_turn() -> None:
    assert way((0, 1, 2), (3, 4, 5), gentle(extra=1)) == [
        ((0, 1, 2, 3), None),
        ((0, 2, 3), None),
        ((0, 2, 3, 4), None),
        ((0, 3, 4), None),
        ((0, 3, 4, 5), None),
        ((3, 4, 5), None),
    ]


def test_gentle_drops_several_replicas_in_one_cut() -> None:
    assert way((0, 1, 2, 3), (0, 1), gentle()) == [((0, 1), None)]


def test_gentle_leaves_a_kept_leader_alone() -> None:
    assert way((1, 2, 3), (1, 2, 4), gentle()) == [((1, 2, 3, 4), None), ((1, 2, 4), None)]


def test_gentle_elects_when_the_old_leader_stays_as_a_follower() -> None:
    assert way((0, 1), (2, 0), gentle()) == [((0, 1, 2), None), ((2, 0), 2)]


@pytest.mark.parametrize("limits", [kip_435(), gentle(), kip_435(None), gentle(None)])
def test_a_reorder_takes_one_alter_and_an_election(limits: Limits) -> None:
    assert way((0, 1, 2), (2, 0, 1), limits) == [((2, 0, 1), 2)]


@pytest.mark.parametrize("limits", [kip_435(), gentle(), kip_435(None), gentle(None)])
def test_a_partition_with_only_the_wrong_leader_needs_an_election_and_no_alter(
    limits: Limits,
) -> None:
    steps = all_steps(on_the_way((2, 0, 1), (2, 0, 1), leader=0), limits)

    assert [(step.alters, step.elects) for step in steps] == [(False, 2)]


@pytest.mark.parametrize("limits", [kip_435(None), gentle(None)])
@pytest.mark.parametrize("replicas", [(0, 1, 2), (3, 0, 1, 2), (5,)])
def test_without_a_replica_limit_everything_moves_in_one_step(
    limits: Limits, replicas: Brokers
) -> None:
    elected = None if replicas[0] == 3 else 3
    assert way(replicas, (3, 4, 5), limits) == [((3, 4, 5), elected)]


def test_each_step_lists_its_adds_and_drops_and_whether_the_leader_moves() -> None:
    steps = all_steps(on_the_way((0, 1), (2, 3)), kip_435())

    assert [(step.adds, step.drops, step.moves_leader) for step in steps] == [
        ((2,), (), True),
        ((), (0,), False),
        ((3,), (1,), False),
    ]


def test_a_cut_that_drops_the_leader_moves_leadership_without_an_election() -> None:
    cut = all_steps(on_the_way((0, 1), (2, 3)), gentle())[-1]

    assert (cut.cut, cut.elects, cut.moves_leader) == (True, None, True)


@pytest.mark.parametrize("limits", [kip_435(), gentle(), gentle(None)])
def test_a_partition_at_its_target_is_done(limits: Limits) -> None:
    assert next_step(on_the_way((3, 4), (3, 4)), limits) is DONE


MIB, GIB = 1024**2, 1024**3
PLAN = {"audit-0": (60 * MIB, 2), "orders-0": (GIB, 2), "orders-1": (500 * MIB, 2),
        "orders-2": (10 * GIB, 3)}  # fmt: skip
"""The example of docs/pacing.md: sizes and the new broker, all led by broker 1."""


def in_order(order: Order) -> list[str]:
    """Return how the partitions of the example begin."""
    roster = Roster(Limits(replicas=1, order=order))
    roster.add(put_long_first([wanted(*each) for each in PLAN.items()]))
    return [str(move.tp) for move in decide_steps(roster, NOTHING_FOREIGN).steps]


def wanted(name: str, way: tuple[int, int]) -> WantedPartition:
    size, to = way
    topic, number = name.rsplit("-", 1)
    return WantedPartition(TopicPartition(topic, int(number)), on_the_way((1,), (1, to)), size)


def test_partitions_of_more_than_a_twentieth_of_the_busiest_broker_go_first() -> None:
    assert in_order(Order.LONG_FIRST) == ["orders-2", "orders-0", "audit-0", "orders-1"]
    assert in_order(Order.TOPIC) == list(PLAN)


def test_gentle_begins_with_long_partitions_by_default_and_kip_435_by_topic() -> None:
    assert default_limits().order is Order.LONG_FIRST
    assert default_limits({"shape": "kip-435"}).order is Order.TOPIC
    assert parse_limits({"shape": "kip-435"}, default_limits()).order is Order.TOPIC
    with pytest.raises(LimitsProblem, match="--order topic, or --shape gentle"):
        parse_limits({"shape": "kip-435", "order": "long-first"})
    assert parse_limits({"shape": Shape.KIP_435, "order": "plan"}).order is Order.PLAN


copies = st.builds(
    lambda leader, receivers, size: Copies(leader, tuple(receivers - {leader}), size),
    st.integers(1, 6),
    st.frozensets(st.integers(1, 6), max_size=3),
    st.integers(0, 10 * GIB),
)


@given(st.lists(copies, max_size=60))
def test_few_go_ahead_of_a_leaders_partitions_and_none_that_copies_less_than_one_that_does_not(
    partitions: list[Copies],
) -> None:
    ahead = bytes_ahead(partitions)
    for leader in {each.leader for each in partitions}:
        of_leader = [n for n, each in enumerate(partitions) if each.leader == leader]
        assert sum(ahead[n] > 0 for n in of_leader) < 20
    behind = max((p.bytes for p, n in zip(partitions, ahead, strict=True) if not n), default=0)
    assert all(n >= behind for n in ahead if n)
