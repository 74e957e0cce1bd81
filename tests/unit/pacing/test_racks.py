"""Z: partitions with a replica being added in one rack, of others too."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ktui.cli.context.errors import BadInput
from ktui.cli.options.limits import complete_limits
from ktui.execution.journal.commands import SetLimits
from ktui.execution.run.events import LimitsChanged, StepBegun
from ktui.pacing.choosing import WaitsFor, waiting_for
from ktui.pacing.limits import FIELDS, Full, Limits, Shape
from ktui.pacing.queue import Usage
from ktui.pacing.room import NOTHING_FOREIGN
from ktui.pacing.roster import Roster
from ktui.pacing.situation import WantedPartition
from ktui.simulated.layout import Kill, Start
from support.runs.held_to_rules import Rules
from support.runs.pacing import Brokers, complete, numbers, on_the_way, submit, tp
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
    assert cell == "Z 1 of 1, rack a, 1 foreign"
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
