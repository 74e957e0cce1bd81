"""Late requests for a cancelled partition are cancelled again; no answer is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.execution.journal.commands import CancelMoves, SetLimits
from ktui.execution.run.events import Cancel
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.unanswered import MAY_COME_S
from ktui.pacing.limits import Limits, Shape
from ktui.simulated.layout import Alter, DelayRequest, LoseAnswer, LoseRequest
from support.runs.cancel_stories import CalledOffStory, altered, begun, done, nth
from support.simulated.moving_clusters import tp

THREE = (1, 2, 3)
MOVED = {"orders-0": (THREE, (4, 5, 6))}
ONE = tp("orders-0")
KIP_435 = Limits(replicas=1, partitions=1, shape=Shape.KIP_435)
POLL_S = 1.0

Mishap = LoseAnswer | LoseRequest | DelayRequest
MISHAPS = pytest.mark.parametrize(
    "mishap", [LoseAnswer(), LoseRequest(), DelayRequest(4.0), DelayRequest(30.0)]
)
KINDS = pytest.mark.parametrize("kind", [CancelKind.STOP, CancelKind.ROLLBACK])


def ends(kind: CancelKind) -> State:
    return State.STOPPED if kind is CancelKind.STOP else State.ROLLED_BACK


@KINDS
@pytest.mark.parametrize("by_s", [0.5, 9.0, 14.0, 40.7, 59.0])
def test_a_step_that_arrives_after_its_cancel_is_cancelled_at_once(
    tmp_path: Path, kind: CancelKind, by_s: float
) -> None:
    story = CalledOffStory(tmp_path, MOVED)
    story.late(by_s)
    story.called_off(nth(1, begun("orders-0")), CancelMoves(kind))

    assert story.played().ended

    assert story.state("orders-0") is ends(kind)
    assert set(story.replicas(ONE)) == set(THREE)
    assert story.leader(ONE) == 1


@KINDS
@pytest.mark.parametrize("by_s", [9.0, 14.0, 40.7, 59.0])
def test_a_step_in_flight_when_its_partition_is_cancelled_is_cancelled_on_arrival(
    tmp_path: Path, kind: CancelKind, by_s: float
) -> None:
    story = CalledOffStory(tmp_path, MOVED)
    story.late(by_s)
    story.asked(5.0, CancelMoves(kind))

    assert story.played().ended

    assert story.state("orders-0") is ends(kind)
    assert set(story.replicas(ONE)) == set(THREE)
    arrived, cancelled = (each.at_s for each in story.witness.alters[:2])
    assert cancelled - arrived <= POLL_S + 0.5
    assert story.sent("orders-0")[:2] == [(1, 2, 3, 4), None]


@KINDS
def test_a_step_resent_by_a_broker_is_cancelled_every_time_it_arrives(
    tmp_path: Path, kind: CancelKind
) -> None:
    story = CalledOffStory(tmp_path, MOVED, cluster={"messages": 60_000})
    story.schedule(0.0, LoseAnswer())
    story.called_off(nth(1, altered("orders-0")), CancelMoves(kind))
    for at_s in (20.0, 22.5, 50.0):
        story.schedule(at_s, Alter({ONE: (1, 2, 3, 4)}))

    run = story.played()

    assert run.ended
    assert story.state("orders-0") is ends(kind)
    assert set(story.replicas(ONE)) == set(THREE)
    assert story.sent("orders-0")[:5] == [(1, 2, 3, 4), None, None, None, None]
    cancelled = story.seconds(lambda event: isinstance(event, Cancel))
    assert all(c - at <= POLL_S + 0.5 for c, at in zip(cancelled[1:], (20, 22.5, 50), strict=True))
    assert run.at is not None
    assert (run.at - story.told_at(0)).total_seconds() >= MAY_COME_S


@KINDS
@pytest.mark.parametrize("limits", [Limits(replicas=1, partitions=1), KIP_435])
@MISHAPS
def test_a_cancel_whose_answer_is_lost_is_settled_by_polling(
    tmp_path: Path, kind: CancelKind, limits: Limits, mishap: Mishap
) -> None:
    story = CalledOffStory(tmp_path, MOVED, limits, {"messages": 40_000})
    story.schedule(5.0, mishap)
    story.asked(6.0, CancelMoves(kind))

    assert story.played().ended

    assert story.state("orders-0") is ends(kind)
    assert set(story.replicas(ONE)) == set(THREE)
    if kind is CancelKind.ROLLBACK:
        assert story.now(ONE) == story.before[ONE]


@pytest.mark.parametrize("limits", [Limits(replicas=1, partitions=1), KIP_435])
@MISHAPS
def test_a_rollback_step_whose_answer_is_lost_is_settled_by_polling(
    tmp_path: Path, limits: Limits, mishap: Mishap
) -> None:
    story = CalledOffStory(tmp_path, MOVED, limits)
    story.played()
    story.cluster.mishaps.append(mishap)

    assert story.reopened(CancelMoves(CancelKind.ROLLBACK)).ended

    assert story.now(ONE) == story.before[ONE]


def test_a_step_with_a_lost_answer_is_rolled_back_once_no_resend_can_arrive(
    tmp_path: Path,
) -> None:
    """Otherwise a broker's resend of the last step would meet the first rollback step."""
    ways = {"orders-0": (THREE, (1, 2)), "orders-1": (THREE, (4, 5, 6))}
    story = CalledOffStory(tmp_path, ways, cluster={"messages": 30_000})
    story.schedule(0.0, LoseAnswer())
    story.then(done("orders-0"), lambda: story.ask(SetLimits({"partitions": 2})))
    story.called_off(done("orders-0"), CancelMoves(CancelKind.ROLLBACK, partitions=(ONE,)))
    story.schedule(30.0, Alter({ONE: (1, 2)}))

    assert story.played().ended

    assert story.state("orders-0") is State.ROLLED_BACK
    story.assert_as_foreseen()
    assert story.begun_at("orders-0")[1] >= MAY_COME_S


def test_a_rollback_that_is_stopped_stays_where_it_is(tmp_path: Path) -> None:
    story = CalledOffStory(tmp_path, MOVED, KIP_435)
    story.played()
    story.called_off(nth(1, altered("orders-0")), CancelMoves(CancelKind.STOP))

    assert story.reopened(CancelMoves(CancelKind.ROLLBACK)).ended

    assert story.state("orders-0") is State.STOPPED
    story.assert_as_foreseen()


@KINDS
def test_a_cancelled_partition_can_be_rolled_back_later(tmp_path: Path, kind: CancelKind) -> None:
    story = CalledOffStory(tmp_path, MOVED)
    story.called_off(nth(2, altered("orders-0")), CancelMoves(kind))
    story.played()

    assert story.reopened(CancelMoves(CancelKind.ROLLBACK)).ended

    assert story.now(ONE) == story.before[ONE]
    assert story.state("orders-0") is State.ROLLED_BACK
