"""Each step of a partition from its replicas to its target, when all goes well."""

from __future__ import annotations

import pytest

from ktui.pacing.limits import Limits
from ktui.pacing.situation import DONE
from ktui.pacing.steps import all_steps, next_step
from support.runs.pacing import Brokers, Way, gentle, kip_435, on_the_way, way

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
