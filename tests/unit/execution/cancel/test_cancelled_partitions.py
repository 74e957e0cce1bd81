"""Cancels of a run: which partitions, in which order, and lost answers."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.execution.journal.commands import CancelMoves, Pause, SetLimits, SetThrottle
from ktui.execution.run.events import Cancel, StepBegun
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.unanswered import MAY_COME_S
from ktui.pacing.limits import Limits, Shape
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated.clock import FIRST_MOMENT
from ktui.simulated.layout import Alter, DelayRequest, Hang, Kill, LoseAnswer, LoseRequest, Start
from support.chaos.faults import Call, Interposed
from support.runs.cancel_stories import CalledOffStory, altered, begun, done, nth
from support.runs.engine_runs import OWNER
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


def test_stopping_queued_partitions_dequeues_them_and_sends_nothing(tmp_path: Path) -> None:
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


TWO = {**MOVED, "orders-1": ((2, 3, 1), (5, 6, 4))}
POLL_S = 5.0
NEXT_POLL_S = 0.5  # a waiting engine listens five times a second; then it polls and sends


def back(*names: str) -> CancelMoves:
    return CancelMoves(CancelKind.ROLLBACK, partitions=tuple(map(tp, names)))


@pytest.mark.parametrize("kind", CancelKind)
@pytest.mark.parametrize("at_s", [0.3, 1.7, 3.0, 4.9, 5.05, 6.2, 8.8, 17.4])
def test_a_cancel_is_on_the_wire_long_before_the_next_poll_would_be(
    tmp_path: Path, kind: CancelKind, at_s: float
) -> None:
    story = CalledOffStory(tmp_path, MOVED, cluster={"messages": 60_000}, poll_s=POLL_S)
    story.asked(at_s, CancelMoves(kind))

    story.played()

    (asked,) = story.answers
    cancelled = next(each for each in story.witness.alters if each.target is None)
    asked_s = (asked.at - FIRST_MOMENT).total_seconds()
    assert 0.0 <= cancelled.at_s - asked_s <= NEXT_POLL_S


@pytest.mark.parametrize("at_s", [3.5, 4.0, 6.0, 8.0])
def test_a_broker_that_hangs_on_its_throttle_does_not_delay_a_cancel(
    tmp_path: Path, at_s: float
) -> None:
    limits, slow = Limits(replicas=1, partitions=2), parse_throttle_rates("200kB")
    story = CalledOffStory(tmp_path, TWO, limits, throttle=slow)
    story.schedule(2.5, Hang(5))
    story.asked(3.0, SetThrottle(parse_throttle_rates("300kB")))
    story.asked(at_s, back("orders-0"))

    story.played(until_s=60.0)

    asked_s = (story.answers[-1].at - FIRST_MOMENT).total_seconds()
    cancelled = next(each for each in story.witness.alters if each.target is None)
    assert cancelled.tp == tp("orders-0")
    assert 0.0 <= cancelled.at_s - asked_s <= NEXT_POLL_S


def test_a_cancel_does_not_wait_for_the_rest_of_the_turn_that_sent_its_step(tmp_path: Path) -> None:
    story = CalledOffStory(tmp_path, TWO, poll_s=POLL_S)
    story.called_off(nth(1, altered("orders-1")), back("orders-1"))

    assert story.played().ended

    assert story.sent("orders-1") == [(2, 3, 1, 5), None]
    sent, cancelled = (each.at_s for each in story.witness.alters if each.tp == tp("orders-1"))
    assert cancelled - sent <= NEXT_POLL_S
    assert story.at_target("orders-0")


def test_a_step_prepared_before_a_cancel_uses_what_was_read_for_the_cancel(tmp_path: Path) -> None:
    """The read for the step of orders-1 is slow; meanwhile someone else begins to move it."""
    story = CalledOffStory(tmp_path, TWO, Limits(replicas=3, partitions=1))
    story.then(altered("orders-0"), lambda: story.ask(SetLimits({"partitions": 2})))
    due: list[str] = []
    story.then(begun("orders-1"), lambda: due.append("orders-1"))

    async def slow(call: Call) -> Any:
        answer = await call()
        if due:
            due.clear()
            await story.clock.sleep(0.5)
            story.cluster.do(Alter({tp("orders-1"): (2, 3, 9)}))
            story.ask(back("orders-0"))
            await story.clock.sleep(2.0)
        return answer

    reader: Any = Interposed(story.reader, topic_configs=slow)
    story.reader = reader

    assert story.played().ended

    assert story.sent("orders-1") == []
    assert State.FOREIGN in story.states("orders-1")
    assert story.now(tp("orders-0")) == story.before[tp("orders-0")]


def test_the_first_rollback_step_follows_as_soon_as_the_cancel_is_seen(tmp_path: Path) -> None:
    limits = Limits(replicas=1, partitions=1, shape=Shape.KIP_435)
    story = CalledOffStory(tmp_path, MOVED, limits, poll_s=POLL_S)
    story.called_off(nth(3, altered("orders-0")), CancelMoves(CancelKind.ROLLBACK))

    story.played()

    alters = story.witness.alters
    cancelled = next(n for n, each in enumerate(alters) if each.target is None)
    assert alters[cancelled + 1].at_s - alters[cancelled].at_s <= NEXT_POLL_S


@pytest.mark.parametrize("at_s", [22.0, 40.0])
def test_the_until_time_does_not_hold_back_a_rollback(tmp_path: Path, at_s: float) -> None:
    """Even though its next step forward was held because it would have come too late."""
    ways = {**MOVED, "orders-1": ((2, 3, 1), (9, 8, 7))}
    story = CalledOffStory(tmp_path, ways, Limits(replicas=1, partitions=2))
    story.schedule(1.0, Kill(9))
    story.asked(at_s, back("orders-0"))
    until = FIRST_MOMENT + timedelta(seconds=25)

    story.played_by(msgspec.structs.replace(OWNER, until=until), until_s=100.0)

    assert story.state("orders-0") is State.ROLLED_BACK
    assert story.now(tp("orders-0")) == story.before[tp("orders-0")]


def test_a_partition_cancelled_before_the_first_poll_reports_no_false_state(tmp_path: Path) -> None:
    story = CalledOffStory(tmp_path, MOVED)
    story.asked(5.0, Pause())
    story.played(until_s=20.0)

    assert story.reopened(back()).ended

    assert story.states("orders-0") == [
        State.QUEUED,
        State.ADDING,
        State.QUEUED,
        State.ROLLING_BACK,
        State.ROLLED_BACK,
    ]


ONE = tp("orders-0")
CANCELS_AND_LOST_ANSWERS_POLL_S = 1.0

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
    assert cancelled - arrived <= CANCELS_AND_LOST_ANSWERS_POLL_S + 0.5
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
    assert all(
        c - at <= CANCELS_AND_LOST_ANSWERS_POLL_S + 0.5
        for c, at in zip(cancelled[1:], (20, 22.5, 50), strict=True)
    )
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


def test_a_step_with_a_lost_answer_is_rolled_back_once_no_resend_can_arrive(tmp_path: Path) -> None:
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
