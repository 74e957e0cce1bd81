"""Racks and cordoned brokers in the choice of steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ktui.cli.context.terminal import BadInput
from ktui.cli.options.throttle import complete_limits
from ktui.execution.journal.commands import SetLimits
from ktui.execution.run.events import LimitsChanged, StepBegun
from ktui.pacing.choosing import WaitsFor, waiting_for
from ktui.pacing.limits import FIELDS, Full, Limits, Shape
from ktui.pacing.queue import Usage
from ktui.pacing.room import NOTHING_FOREIGN
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Blocked, BlockReason, Done, Situation, WantedPartition
from ktui.pacing.steps import all_steps, next_step, next_steps
from ktui.simulated.layout import Kill, Start
from support.runs.held_to_rules import Rules
from support.runs.pacing import (
    WHOLE,
    Brokers,
    complete,
    gentle,
    kip_435,
    numbers,
    on_the_way,
    step,
    submit,
    tp,
)
from support.runs.stories import Story
from support.simulated.moving_clusters import move

RACKS = {1: "c", 4: "a", 5: "a", 6: "b"}
"""Broker 7 has none."""
ONE = Limits(replicas=1, per_rack=1)
Way = tuple[Brokers, Brokers]


def copies(*to: int) -> Way:
    return (1,), (1, *to)


def a_roster(limits: Limits, *ways: Way) -> Roster:
    roster = Roster(limits, racks=RACKS)
    roster.add(WantedPartition(tp(n), on_the_way(*one)) for n, one in enumerate(ways))
    return roster


def why(roster: Roster, number: int, others: Usage = NOTHING_FOREIGN) -> WaitsFor | None:
    moved = tp(number)
    return waiting_for(roster, moved, roster.situation(moved), roster.choices(moved), others)


@pytest.mark.parametrize("shape", [Shape.GENTLE, Shape.KIP_435])
def test_partitions_add_one_by_one_in_a_rack_and_freely_where_there_is_none(shape: Shape) -> None:
    ways = [copies(4), copies(5), copies(6), copies(7), copies(7)]
    roster = a_roster(replace(ONE, shape=shape), *ways)

    assert numbers(submit(roster)) == [0, 2, 3, 4]
    assert why(roster, 1) == Full("per_rack", 1, 1, "a")
    complete(roster, 0)
    assert numbers(submit(roster)) == [1]


def test_a_partition_counts_once_in_a_rack_and_in_every_rack_it_adds_in() -> None:
    roster = a_roster(Limits(replicas=3, per_rack=2), copies(4, 5, 6), copies(5), copies(4))

    assert numbers(submit(roster)) == [0, 1]
    assert roster.used.taken["per_rack"] == {"a": 2, "b": 1}
    assert why(roster, 2) == Full("per_rack", 2, 2, "a")
    complete(roster)
    assert not any(roster.used.taken["per_rack"].values())


def test_what_others_add_in_a_rack_counts() -> None:
    others = Usage()
    others.taken["per_rack"]["a"] = 1
    roster = a_roster(ONE, copies(4), copies(6))

    assert numbers(submit(roster, others)) == [1]
    waits = why(roster, 0, others)
    assert waits == Full("per_rack", 1, 1, "a", others=1)
    assert isinstance(waits, Full)
    cell, sentence = FIELDS["per_rack"].why_full(waits)
    assert cell == "rack a: 1 of 1 (Z), 1 foreign"
    assert sentence.endswith(
        "Z lets 1 partition be adding in one rack, and 1 is, 1 of them by others."
    )


def test_gentle_adds_the_replica_whose_rack_has_room_with_a_limit_of_brokers() -> None:
    roster = a_roster(replace(ONE, per_broker=9), copies(4), copies(5, 6))

    assert [each.step.adds for each in submit(roster).moves] == [(4,), (6,)]


def test_too_few_in_sync_goes_beyond_the_limit() -> None:
    roster = Roster(ONE, racks=RACKS)
    below = on_the_way((1,), (1, 5), min_isr=2)
    roster.add([WantedPartition(tp(0), on_the_way(*copies(4))), WantedPartition(tp(1), below)])

    assert numbers(submit(roster)) == [0, 1]


def test_a_rack_that_becomes_known_binds_what_waits_and_leaves_what_is_in_flight() -> None:
    roster = Roster(ONE)
    ways = [copies(4), copies(5), copies(7), copies(7)]
    roster.add(WantedPartition(tp(n), on_the_way(*one)) for n, one in enumerate(ways))
    roster.set_limits(replace(ONE, partitions=2))
    assert numbers(submit(roster)) == [0, 1]

    roster.set_limits(ONE)
    roster.set_racks({7: "d"})
    assert numbers(submit(roster)) == [2]


def test_a_run_keeps_the_limit_counts_others_and_takes_another_one_meanwhile(
    tmp_path: Path,
) -> None:
    ways: dict[str, Way] = {f"orders-{n}": ((1, 2, 3), (4 + n % 2, 2, 3)) for n in range(8)}
    racks = {"racks": {4: "a", 5: "a", 6: "a"}, "resting": ["others-0"]}
    story = Story(tmp_path, ways, Limits(replicas=1, per_rack=2), racks)
    Rules(story, 1)
    story.schedule(3.0, move("others-0", 6, 2, 3))
    story.asked(25.0, SetLimits({"per-rack": 1}))

    assert story.played().ended

    (changed,) = [event for event in story.events if isinstance(event, LimitsChanged)]
    assert (changed.old.per_rack, changed.new.per_rack) == (2, 1)
    adds = [event.batch for event in story.events if isinstance(event, StepBegun) and event.adding]
    assert max(map(adds.count, adds)) == 2
    assert {adds.count(batch) for batch in adds if batch > changed.batch} == {1}
    assert story.at_target(*ways)


def test_what_others_add_on_a_broker_that_is_down_counts_in_its_rack(tmp_path: Path) -> None:
    ways: dict[str, Way] = {f"orders-{n}": ((1, 2, 3), (4, 2, 3)) for n in range(4)}
    racks = {"racks": {4: "a", 5: "a", 6: "a"}, "resting": ["others-0"], "version": "3.9"}
    story = Story(tmp_path, ways, ONE, racks)
    Rules(story, 1)
    story.schedule(1.0, move("others-0", 6, 2, 3))
    story.schedule(1.0, Kill(6))
    story.schedule(60.0, Start(6))

    assert story.played().ended

    assert story.at_target(*ways)


def test_a_context_may_name_the_limit_and_an_option_replaces_it() -> None:
    of_context = {"per-rack": 2}
    assert complete_limits(of_context, {}).per_rack == 2
    assert complete_limits(of_context, {"per-rack": "none"}).per_rack is None
    with pytest.raises(BadInput, match="--per-rack: 0 is too small"):
        complete_limits(of_context, {"per-rack": "0"})


def test_the_journal_knows_the_racks_and_a_resumed_run_keeps_to_them(tmp_path: Path) -> None:
    ways: dict[str, Way] = {f"orders-{n}": ((1, 2, 3), (4 + n % 2, 2, 3)) for n in range(4)}
    story = Story(tmp_path, ways, ONE, {"racks": {4: "a", 5: "a"}})
    Rules(story, 1)
    story.played(until_s=12.0)
    assert story.folded.racks == {4: "a", 5: "a"}
    assert story.resumed().ended

    begun = [event.batch for event in story.events if isinstance(event, StepBegun) and event.adding]
    assert sorted(begun) == sorted(set(begun))
    assert story.at_target(*ways)


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
