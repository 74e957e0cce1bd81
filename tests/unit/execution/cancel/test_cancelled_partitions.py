"""An operator stops partitions, rolls them back or trims them, whatever stage they are at."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.execution.journal.commands import CancelMoves, Pause
from ktui.execution.run.events import StepBegun
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits, Shape
from ktui.simulated.layout import Kill, Start
from support.runs.stories import Story
from support.simulated.moving_clusters import tp

THREE = (1, 2, 3)
MOVED = {"orders-0": (THREE, (4, 5, 6))}
SEVERAL = {
    "orders-0": (THREE, (4, 5, 6)),
    "orders-1": ((2, 3, 1), (5, 6, 4)),
    "orders-2": ((3, 1, 2), (6, 4, 5)),
}
KIP_435 = Limits(replicas=1, partitions=1, shape=Shape.KIP_435)
ADDING_S = 5.0
BETWEEN_S = 25.0


def stop(*names: str) -> CancelMoves:
    return CancelMoves(CancelKind.STOP, partitions=tuple(map(tp, names)))


def roll_back(*names: str) -> CancelMoves:
    return CancelMoves(CancelKind.ROLLBACK, partitions=tuple(map(tp, names)))


def trim(*names: str) -> CancelMoves:
    return CancelMoves(CancelKind.TRIM, partitions=tuple(map(tp, names)))


def test_stopping_a_partition_drops_the_replica_being_added(tmp_path: Path) -> None:
    story = Story(tmp_path, MOVED)
    story.asked(ADDING_S, stop("orders-0"))

    run = story.played()

    assert run.ended
    assert story.state("orders-0") is State.STOPPED
    assert set(story.replicas(tp("orders-0"))) == set(THREE)
    assert story.sent("orders-0") == [(1, 2, 3, 4), None]


def test_stopping_a_partition_during_its_second_copy_keeps_the_first(tmp_path: Path) -> None:
    story = Story(tmp_path, MOVED)
    story.asked(15.0, stop("orders-0"))

    story.played()

    assert story.state("orders-0") is State.STOPPED
    assert set(story.replicas(tp("orders-0"))) == {1, 2, 3, 4}
    assert story.sent("orders-0")[-1] is None


def test_stopping_queued_partitions_dequeues_them_and_sends_nothing(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, SEVERAL)
    story.asked(ADDING_S, stop("orders-1", "orders-2"))

    run = story.played()

    assert run.counts[State.DONE] == 1
    assert run.counts[State.STOPPED] == 2
    assert not story.sent("orders-1")
    assert not story.sent("orders-2")


@pytest.mark.parametrize("limits", [Limits(replicas=1, partitions=1), KIP_435])
@pytest.mark.parametrize("at_s", [2.0, 8.0, 12.0, 18.0, 22.0, 28.0, 34.0, 40.0])
def test_a_rollback_restores_the_original_replicas_in_order_and_their_leader(
    tmp_path: Path, limits: Limits, at_s: float
) -> None:
    story = Story(tmp_path, {"orders-0": ((2, 1, 3), (4, 5, 6))}, limits)
    story.asked(at_s, roll_back("orders-0"))

    story.played()

    if not story.folded.counts[State.DONE]:
        assert story.state("orders-0") is State.ROLLED_BACK
        assert story.replicas(tp("orders-0")) == (2, 1, 3)
        assert story.leader(tp("orders-0")) == 2


def test_a_run_that_has_ended_can_be_rolled_back(tmp_path: Path) -> None:
    story = Story(tmp_path, SEVERAL)
    story.played()

    run = story.reopened(CancelMoves(CancelKind.ROLLBACK))

    assert run.ended
    assert run.counts[State.ROLLED_BACK] == 3
    for name, (original, _) in SEVERAL.items():
        assert story.replicas(tp(name)) == original
        assert story.leader(tp(name)) == original[0]


def test_a_rollback_restores_a_leader_that_was_not_the_preferred_one(tmp_path: Path) -> None:
    story = Story(tmp_path, MOVED)
    story.already(Kill(1))
    story.already(Start(1))
    assert story.leader(tp("orders-0")) == 2
    story.played()

    story.reopened(CancelMoves(CancelKind.ROLLBACK))

    assert story.replicas(tp("orders-0")) == THREE
    assert story.leader(tp("orders-0")) == 2


def test_a_trim_restores_the_original_replica_count_and_keeps_the_leader(tmp_path: Path) -> None:
    story = Story(tmp_path, MOVED)
    story.asked(15.0, trim("orders-0"))

    story.played()

    assert story.state("orders-0") is State.STOPPED
    assert story.replicas(tp("orders-0")) == THREE
    assert story.sent("orders-0")[-2:] == [None, THREE]


def test_a_rollback_continues_while_the_run_is_paused(tmp_path: Path) -> None:
    story = Story(tmp_path, SEVERAL)
    story.asked(15.0, Pause())
    story.asked(30.0, roll_back("orders-0"))

    story.played(100.0)

    assert story.state("orders-0") is State.ROLLED_BACK
    assert story.state("orders-1") is State.QUEUED


def test_a_later_pause_holds_a_rollback(tmp_path: Path) -> None:
    story = Story(tmp_path, MOVED, KIP_435)
    story.asked(22.0, roll_back("orders-0"))
    story.asked(22.5, Pause())

    story.played(200.0)

    assert story.state("orders-0") is State.ROLLING_BACK


def test_a_rollback_does_not_wait_for_another_partition_to_be_cut_with(tmp_path: Path) -> None:
    story = Story(tmp_path, SEVERAL, Limits(replicas=1, partitions=2))
    story.asked(25.0, roll_back("orders-0"))

    story.played()

    back = story.seconds(lambda event: isinstance(event, StepBegun) and event.cut)
    assert story.state("orders-0") is State.ROLLED_BACK
    assert min(back) < 27.0
