"""An extra plan in the journal of its run: it counts as a whole or not at all, and is described."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ktui.execution.engine.add_plan import JoinEffect, join_effect, join_effects_text
from ktui.execution.journal.commands import Add
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    Added,
    AnyRunEvent,
    Joined,
    JournalEntry,
    OnConflict,
    Planned,
    PlannedPart,
    Recovered,
    decode,
    encode,
)
from ktui.execution.run.run import Run
from ktui.execution.run.text import event_sentence
from ktui.simulated.clock import VirtualClock
from support.journals.journals import a_start, step
from support.simulated.moving_clusters import tp

AT = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
MORE = tuple(Planned("audit", n, "id", (1, 2, 4), (1, 2, 3), 1, 10) for n in range(3))
AGAIN = Planned("orders", 0, "id", (7, 8, 9), (1, 2, 3), 1, 10)
ADDED = Added(plan="more.json", plan_sha256="", partitions=4, on_conflict=OnConflict.ROLLBACK)
PARTS = (PlannedPart(partitions=MORE[:2]), PlannedPart(partitions=(MORE[2], AGAIN)))


def folded(*events: AnyRunEvent) -> Run:
    entries = (JournalEntry(n, AT, decode(encode(event))) for n, event in enumerate(events, 1))
    return Run("drain").fold(entries)


def test_the_partitions_of_an_extra_plan_count_once_all_of_them_are_there() -> None:
    run = folded(*a_start(3), ADDED, *PARTS)

    assert len(run.tracks) == 6
    assert run.complete
    assert run.tracks[tp("orders-0")].then == AGAIN
    assert [each.added.plan for each in run.additions.plans] == ["more.json"]


@pytest.mark.parametrize("parts", [(), PARTS[:1]])
def test_an_extra_plan_partly_lost_to_damage_does_not_count(
    parts: tuple[PlannedPart, ...],
) -> None:
    run = folded(*a_start(3), ADDED, *parts, Recovered(lost="the end of it"))

    assert len(run.tracks) == 3
    assert run.complete
    assert run.tracks[tp("orders-0")].then is None
    assert not run.additions.plans


def test_an_extra_plan_added_after_a_lost_one_counts() -> None:
    run = folded(*a_start(3), ADDED, PARTS[0], Recovered(lost="the end of it"), ADDED, *PARTS)

    assert len(run.tracks) == 6
    assert len(run.additions.plans) == 1


def test_a_partition_queued_again_comes_after_those_the_run_had() -> None:
    run = folded(*a_start(3), ADDED, *PARTS, Joined(partitions=(tp("orders-0"),)))

    numbers = [track.number for track in run.tracks.values()]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == 6
    assert list(run.tracks)[-1] == tp("orders-0")
    assert run.tracks[tp("orders-0")].planned.target == (7, 8, 9)


def test_a_partition_of_a_recreated_topic_starts_from_its_new_replicas() -> None:
    other = Planned("orders", 0, "another id", (7, 8, 9), (4, 5, 6), 4, 10)
    added = Added(plan="", plan_sha256="", partitions=1, on_conflict=OnConflict.RETARGET)
    joined = Joined(partitions=(other.tp,))

    run = folded(*a_start(3), step(0), added, PlannedPart(partitions=(other,)), joined)

    track = run.tracks[other.tp]
    assert (track.original, track.replicas, track.led) == ((4, 5, 6), (4, 5, 6), 4)


def test_two_hundred_thousand_partitions_are_requested_in_one_row(tmp_path: Path) -> None:
    many = tuple(Planned("orders", n, "id", (1, 2, 4), (1, 2, 3), 1, n) for n in range(200_000))
    with Journal.create(tmp_path / "journal.db", VirtualClock()) as journal:
        journal.ask(Add("more.json", "", many, OnConflict.KEEP), "ada@ops1 (7)")

        (asked,) = journal.asked()

    assert isinstance(asked.command, Add)
    assert asked.command.partitions == many


def test_events_of_an_extra_plan_are_described_in_a_sentence() -> None:
    assert event_sentence(ADDED) == (
        "plan more.json joins the run, 4 partitions; partitions that the run moves elsewhere are "
        "rolled back first"
    )
    assert event_sentence(Joined(partitions=(tp("orders-0"),))) == (
        "orders-0 waits for the target of an extra plan"
    )


def test_the_effects_on_partitions_are_described_with_their_counts() -> None:
    some = [JoinEffect.NEW] * 1200 + [
        JoinEffect.ROLL_BACK,
        JoinEffect.INSTEAD,
        JoinEffect.SAME,
        JoinEffect.SAME,
    ]

    assert join_effects_text(some) == (
        "1,200 join the queue, 1 that waited goes to the new target instead, 1 is rolled back "
        "first, then queued, 2 are at that target or on the way there already"
    )


@pytest.mark.parametrize("on_conflict", OnConflict)
def test_a_partition_the_run_does_not_have_is_new(on_conflict: OnConflict) -> None:
    assert join_effect(None, (1, 2), (3, 4), on_conflict) is JoinEffect.NEW
