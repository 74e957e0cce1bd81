"""A partition's next step where a cordoned broker may be named in no target (Kafka 4.4)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ktui.pacing.limits import Limits
from ktui.pacing.situation import Blocked, BlockReason, Done, Situation
from ktui.pacing.steps import all_steps, next_step, next_steps
from support.runs.pacing import WHOLE, Brokers, gentle, kip_435, on_the_way, step

EVERY = pytest.mark.parametrize("limits", [gentle(), kip_435(), kip_435(None)])
STEPWISE = pytest.mark.parametrize("limits", [gentle(), kip_435()])


def cordoned(now: Situation, *brokers: int) -> Situation:
    return replace(now, closed=frozenset(brokers))


def blocked(now: Situation, limits: Limits) -> tuple[BlockReason, Brokers]:
    given = next_step(now, limits)
    assert isinstance(given, Blocked), given
    return given.why, given.brokers


def targets(now: Situation, limits: Limits) -> list[Brokers]:
    return [each.target for each in all_steps(now, limits)]


@EVERY
def test_a_target_that_names_a_cordoned_broker_waits_and_says_how_it_goes_on(
    limits: Limits,
) -> None:
    now = on_the_way((1, 2, 3), (5, 4, 3))

    waiting = next_step(cordoned(now, 4), limits)

    assert isinstance(waiting, Blocked)
    assert waiting.sentence == (
        "broker 4 of its target is cordoned, and Kafka refuses every target that names it: "
        "`ktui broker uncordon 4`"
    )
    assert step(next_step(now, limits))


@EVERY
@pytest.mark.parametrize("target", [(4, 1, 2), (1, 4), (2, 1, 4), (1, 2, 4, 5)])
def test_a_cordoned_replica_that_stays_blocks_reorders_drops_and_adds(
    limits: Limits, target: Brokers
) -> None:
    now = cordoned(on_the_way((1, 2, 4), target), 4)

    assert blocked(now, limits) == (BlockReason.CORDONED, (4,))


def test_shape_whole_waits_for_a_cordoned_broker_of_its_target_too() -> None:
    assert blocked(cordoned(on_the_way((1, 2), (4, 2)), 4), WHOLE) == (BlockReason.CORDONED, (4,))
    assert step(next_step(cordoned(on_the_way((4, 2), (1, 2)), 4), WHOLE)).target == (1, 2)


@EVERY
def test_an_election_names_no_replicas_and_goes_beside_a_cordoned_one(limits: Limits) -> None:
    now = cordoned(on_the_way((1, 2, 4), (1, 2, 4), leader=4), 4)

    given = step(next_step(now, limits))

    assert (given.alters, given.elects) == (False, 1)
    assert isinstance(next_step(replace(now, leader=1), limits), Done)


@EVERY
def test_a_cordoned_follower_is_replaced_in_one_step(limits: Limits) -> None:
    now = cordoned(on_the_way((1, 2, 4), (1, 2, 3)), 4)

    assert targets(now, limits) == [(1, 2, 3)]


@EVERY
def test_a_cordoned_leader_is_replaced_in_one_step_by_the_one_that_leads_in_the_end(
    limits: Limits,
) -> None:
    for target in ((3, 1, 2), (1, 2, 3)):
        now = cordoned(on_the_way((4, 1, 2), target), 4)

        given = step(next_step(now, limits))

        assert (given.target, given.adds, given.drops) == (target, (3,), (4,))
        assert given.moves_leader


@STEPWISE
def test_the_only_replica_leaves_its_cordoned_broker_in_one_step(limits: Limits) -> None:
    assert targets(cordoned(on_the_way((4,), (1,)), 4), limits) == [(1,)]


def test_only_what_has_to_leave_goes_straight_and_the_rest_as_ever() -> None:
    now = cordoned(on_the_way((1, 2, 4), (5, 6, 7)), 4)

    assert targets(now, gentle()) == [
        (1, 2, 5),
        (1, 2, 5, 6),
        (1, 2, 5, 6, 7),
        (5, 6, 7),
    ]
    assert targets(now, kip_435()) == [(1, 2, 5), (5, 1, 2), (5, 6, 2), (5, 6, 7)]


def test_a_cordon_amid_a_gentle_move_changes_the_steps_that_are_left_only_if_they_name_it() -> None:
    ready = on_the_way((4, 1, 2, 3), (3, 1, 2))
    one_missing = on_the_way((4, 1, 2, 3), (3, 1, 5))

    assert targets(cordoned(ready, 4), gentle()) == [(3, 1, 2)]
    assert targets(cordoned(one_missing, 4), gentle()) == [(3, 1, 2), (3, 1, 2, 5), (3, 1, 5)]


def test_two_cordoned_brokers_are_replaced_at_once_beyond_r() -> None:
    now = cordoned(on_the_way((1, 4, 5), (1, 2, 3)), 4, 5)

    assert targets(now, gentle(1)) == [(1, 2, 3)]


@STEPWISE
def test_a_cordoned_replica_leaves_only_while_the_others_in_sync_are_enough(
    limits: Limits,
) -> None:
    now = cordoned(on_the_way((1, 2, 4), (3, 1, 2), isr=(1, 4), min_isr=2), 4)

    waiting = next_step(now, limits)

    assert isinstance(waiting, Blocked)
    assert waiting.sentence == (
        "broker 4 is cordoned: no target may name it, and dropping it would leave fewer in sync "
        "than min.insync.replicas: `ktui broker uncordon 4`"
    )
    assert step(next_step(replace(now, isr=(1, 2, 4)), limits)).drops == (4,)


@EVERY
def test_it_leaves_too_where_the_replicas_that_are_added_are_enough_by_themselves(
    limits: Limits,
) -> None:
    now = on_the_way((1, 2, 4), (3, 5, 6), isr=(4,), leader=4, min_isr=2)

    given = step(next_step(cordoned(now, 4), limits))

    assert {3, 5} <= {*given.adds}
    assert given.urgent or limits.replicas is None


@STEPWISE
def test_a_cordoned_replica_out_of_sync_takes_nothing_away_when_it_leaves(limits: Limits) -> None:
    now = cordoned(on_the_way((1, 2, 4), (1, 2, 3), isr=(1,), min_isr=2), 4)

    assert step(next_step(now, limits)).target == (1, 2, 3)


@STEPWISE
def test_a_dead_broker_that_is_cordoned_goes_with_the_step_that_replaces_it(
    limits: Limits,
) -> None:
    now = cordoned(on_the_way((1, 2, 4), (1, 2, 3), isr=(1, 2), offline=(4,)), 4)

    assert targets(now, limits) == [(1, 2, 3)]


@STEPWISE
def test_nothing_leaves_a_cordoned_broker_for_a_target_that_is_down(limits: Limits) -> None:
    now = cordoned(on_the_way((1, 2, 4), (1, 2, 3), offline=(3,)), 4)

    assert blocked(now, limits) == (BlockReason.TARGET_OFFLINE, (3,))


@STEPWISE
def test_a_cordoned_leader_stays_until_its_successor_is_in_sync(limits: Limits) -> None:
    now = cordoned(on_the_way((4, 1, 2), (1, 2, 3), isr=(4, 2)), 4)

    assert blocked(now, limits) == (BlockReason.FIRST_NOT_IN_SYNC, (1,))


def test_any_missing_replica_may_replace_a_cordoned_one_but_for_a_new_leader() -> None:
    limits = Limits(replicas=1, bytes_per_broker=1)
    follower = cordoned(on_the_way((1, 2, 4), (1, 5, 6)), 4)
    leader = cordoned(on_the_way((4, 1, 2), (5, 6, 1)), 4)

    assert [each.target for each in next_steps(follower, limits)] == [(1, 5, 2), (1, 6, 2)]
    assert [each.target for each in next_steps(leader, limits)] == [(5, 1, 2)]
