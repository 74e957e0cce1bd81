"""A waiting partition reports why, once, and does not hold up the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.journal.commands import CancelMoves, Continue, Pause, SetLimits
from ktui.execution.run.events import StateEntered, StepBegun, StepOver
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits, Mode, Shape
from ktui.simulated import layout
from support.chaos import stories
from support.runs.stories import Story
from support.simulated.moving_clusters import tp

RF3 = (1, 2, 3)
GENTLE = Limits(replicas=1, partitions=2, cut_together=2, shape=Shape.GENTLE)


@contextmanager
def dies_with_request(story: Story, number: int, name: str, broker: int = 9) -> Iterator[None]:
    """Kill a broker with one request of a partition; requests for others arrive."""
    sending, coming = story.sending.alter_reassignments, [tp(name)] * number

    async def alter(targets: Any, **how: Any) -> Any:
        lost = {each: to for each, to in targets.items() if [each] == coming}
        left = {each: to for each, to in targets.items() if each not in lost}
        del coming[: tp(name) in targets]
        if lost:
            story.cluster.do(layout.Kill(broker))
        results = await sending(left, **how) if left else {}
        return {**results, **dict.fromkeys(lost, WriteResult(Verdict.UNKNOWN, node=broker))}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(story.sending, "alter_reassignments", alter)
        yield


def test_ready_partitions_do_not_wait_to_be_cut_with_a_cancelled_step(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}, GENTLE)
    story.asked(2.0, CancelMoves(CancelKind.STOP, partitions=(tp("orders-1"),)))

    with dies_with_request(story, 1, "orders-1"):
        story.played(until_s=300.0)

    cuts = [entry for entry in story.entries() if _is_cut(entry.event)]
    assert (cuts[0].at - story.told_at(0)).total_seconds() < 60.0
    assert story.at_target("orders-0")
    assert not story.folded.tracks[tp("orders-1")].state.ended


def test_a_blocked_partition_with_an_open_request_reports_one_reason(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})
    story.schedule(40.0, layout.Kill(4))

    with dies_with_request(story, 1, "orders-0"):
        story.played(until_s=60.0)
    story.resumed(until_s=400.0)

    reasons = [event.reason for event in story.events if isinstance(event, StateEntered)]
    assert len(reasons) < 8, reasons


def test_a_wave_continues_without_a_partition_of_a_silent_broker_even_after_a_resume(
    tmp_path: Path,
) -> None:
    ways = dict.fromkeys([f"orders-{number}" for number in range(3)], (RF3, (4, 5, 3)))
    story = Story(tmp_path, ways, Limits(replicas=1, partitions=1, mode=Mode.WAVE))

    with dies_with_request(story, 2, "orders-0"):
        story.played(until_s=45.0)
    story.resumed(until_s=400.0)

    assert story.folded.tracks[tp("orders-0")].open_alter
    assert story.at_target("orders-1", "orders-2")


def test_a_stopped_partition_is_reported_with_the_replicas_a_late_request_gave_it(
    tmp_path: Path,
) -> None:
    stories.a_held_reorder_arrives_before_a_stop(tmp_path)


def test_after_a_pause_begun_partitions_take_the_place_in_order(tmp_path: Path) -> None:
    names = [f"orders-{number}" for number in range(6)]
    both = Limits(replicas=1, partitions=6)
    story = Story(tmp_path, dict.fromkeys(names, (RF3, (4, 5, 3))), both)
    story.asked(2.0, Pause(topics=("orders",)))
    story.asked(100.0, SetLimits({"partitions": 1}), Continue(topics=("orders",)))

    story.played()

    adding = [event.tp for event in story.events if isinstance(event, StepBegun) and event.adding]
    assert adding[6:] == [tp(name) for name in names]


def _is_cut(event: object) -> bool:
    return isinstance(event, StepBegun) and event.cut


@pytest.mark.parametrize("limits", [Limits(per_leader=1), Limits(bytes_per_broker=1_000_000)])
def test_after_a_resume_a_step_in_flight_still_counts_at_the_leader_it_copies_from(
    tmp_path: Path, limits: Limits
) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}, limits)
    story.played(until_s=3.0)
    assert [step.partition for step in story.steps] == [0]

    story.resumed()
    second = next(
        entry
        for entry in story.entries()
        if isinstance(entry.event, StepBegun) and entry.event.partition == 1
    )
    overs = [e for e in story.entries() if isinstance(e.event, StepOver) and not e.event.partition]
    assert second.at >= overs[0].at


def test_a_step_in_flight_counts_at_the_leader_that_has_taken_over(tmp_path: Path) -> None:
    """Broker 1 dies while it sends, so broker 2 sends on: under S it has no room for another."""
    ways = {"orders-0": ((1, 2, 3), (1, 2, 4)), "orders-1": ((2, 3, 5), (2, 3, 6))}
    story = Story(
        tmp_path, ways, Limits(per_leader=1, per_broker=1, partitions=1), {"messages": 30_000}
    )
    story.schedule(5.0, layout.Kill(1))
    story.asked(20.0, SetLimits({"partitions": None}))
    story.played(until_s=25.0)
    assert story.folded.tracks[tp("orders-0")].step is not None
    assert story.leader(tp("orders-0")) == 2
    assert [step.partition for step in story.steps] == [0]


def test_a_partition_called_off_in_its_pause_is_not_judged_by_how_it_stood_before(
    tmp_path: Path,
) -> None:
    ways = {"orders-0": ((1, 2), (3, 2)), "orders-1": ((4, 5), (6, 5))}
    story = Story(tmp_path, ways, GENTLE)
    story.schedule(1.0, layout.Slow(6, 0.0001))
    story.schedule(20.0, layout.Kill(1), layout.Kill(2), layout.Kill(3))
    story.asked(30.0, Pause(partitions=(tp("orders-0"),)))
    story.schedule(40.0, layout.Start(1), layout.Start(2), layout.Start(3))
    story.asked(60.0, CancelMoves(CancelKind.TRIM, partitions=(tp("orders-0"),)))

    story.played(until_s=80.0)

    assert story.said("orders-0", State.BLOCKED) == ["it is offline: no replica leads"]
    assert story.said("orders-0", State.REFUSED) == []
    assert story.state("orders-0") is State.STOPPED
