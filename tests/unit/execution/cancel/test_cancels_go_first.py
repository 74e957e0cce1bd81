"""Cancels go at once, before everything that waits, whatever else holds the run."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.execution.journal.commands import CancelMoves, Pause, SetLimits, SetThrottle
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits, Shape
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated.clock import FIRST_MOMENT
from ktui.simulated.layout import Alter, Hang, Kill
from support.chaos.interposed import Call, Interposed
from support.runs.cancel_stories import CalledOffStory, altered, begun, nth
from support.runs.engine_runs import OWNER
from support.simulated.moving_clusters import tp

THREE = (1, 2, 3)
MOVED = {"orders-0": (THREE, (4, 5, 6))}
TWO = {**MOVED, "orders-1": ((2, 3, 1), (5, 6, 4))}
POLL_S = 5.0
NEXT_POLL_S = 0.5
"""A waiting engine listens five times a second; then it polls and sends."""


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


def test_a_cancel_does_not_wait_for_the_rest_of_the_turn_that_sent_its_step(
    tmp_path: Path,
) -> None:
    story = CalledOffStory(tmp_path, TWO, poll_s=POLL_S)
    story.called_off(nth(1, altered("orders-1")), back("orders-1"))

    assert story.played().ended

    assert story.sent("orders-1") == [(2, 3, 1, 5), None]
    sent, cancelled = (each.at_s for each in story.witness.alters if each.tp == tp("orders-1"))
    assert cancelled - sent <= NEXT_POLL_S
    assert story.at_target("orders-0")


def test_a_step_prepared_before_a_cancel_uses_what_was_read_for_the_cancel(
    tmp_path: Path,
) -> None:
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


def test_a_partition_cancelled_before_the_first_poll_reports_no_false_state(
    tmp_path: Path,
) -> None:
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
