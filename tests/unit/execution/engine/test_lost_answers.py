"""Lost answers: a request may have taken effect, may yet do so, or may arrive twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktui.execution.journal.commands import Continue, Pause, SetLimits
from ktui.execution.run.events import Answered, Cancel, Request, StepOver
from ktui.execution.run.unanswered import MAY_COME_S
from ktui.simulated import layout
from support.runs.stories import Story, of_request
from support.simulated.moving_clusters import tp

RF3 = (1, 2, 3)
TWO = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}
ONE = {"orders-0": (RF3, (4, 2, 3))}
LATE_S = 40.7
"""Seen on a cluster whose controller was suspended for a while."""


def test_a_step_whose_answer_was_lost_is_settled_by_polling(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO)
    story.schedule(0.0, layout.LoseAnswer())

    assert story.played().ended

    assert story.sent("orders-0") == [(1, 2, 3, 4), (4, 2, 3)]
    unknown = next(e for e in story.events if of_request(Request.ALTER, "orders-0")(e))
    assert isinstance(unknown, Answered)
    assert unknown.verdict.value == "unknown"
    assert story.at_target("orders-0", "orders-1")


def test_a_step_that_never_arrived_is_sent_again(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO)
    story.schedule(0.0, layout.LoseRequest())

    assert story.played().ended

    over = [e for e in story.events if isinstance(e, StepOver) and not e.reached]
    assert [each.reason for each in over] == ["nothing came of the request"]
    assert len(story.begun_at("orders-0")) == 3
    assert story.at_target("orders-0", "orders-1")


@pytest.mark.parametrize("by_s", [0.05, 3.0, 9.9])
def test_a_step_that_arrives_late_is_not_sent_twice(tmp_path: Path, by_s: float) -> None:
    story = Story(tmp_path, TWO)
    story.schedule(0.0, layout.DelayRequest(by_s))

    assert story.played().ended

    assert story.sent("orders-0") == [(1, 2, 3, 4), (4, 2, 3)]
    assert story.at_target("orders-0", "orders-1")


def test_a_step_still_in_flight_after_its_request_timed_out_is_not_sent_twice(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, TWO)
    story.late(8.0)

    assert story.played().ended

    assert story.sent("orders-0") == [(1, 2, 3, 4), (4, 2, 3)]
    assert story.at_target("orders-0", "orders-1")


def test_a_request_sent_long_after_its_intent_is_not_presumed_lost_at_once(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})
    sending, intended_s = story.sending.alter_reassignments, story.clock.monotonic()

    async def slowly(targets: Any, **how: Any) -> Any:
        if story.clock.monotonic() < intended_s + 20.0:
            await story.clock.sleep(20.0)
        return await sending(targets, **how)

    story.late(5.0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(story.sending, "alter_reassignments", slowly)
        assert story.played().ended

    assert story.sent("orders-0") == [(1, 2, 3, 4), (4, 2, 3)]
    assert len(story.begun_at("orders-0")) == 2


@pytest.mark.parametrize("by_s", [14.0, LATE_S, 59.0])
def test_no_other_step_is_sent_while_one_may_still_be_in_flight(
    tmp_path: Path, by_s: float
) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 5, 3))})
    story.late(by_s)
    story.asked(5.0, SetLimits({"replicas": 2}))

    assert story.played().ended

    assert story.sent("orders-0")[0] == (1, 2, 3, 4)
    assert [each.before for each in story.steps][1] == (1, 2, 3, 4)
    assert story.at_target("orders-0")


def test_a_resuming_process_sends_no_other_step_while_one_may_be_in_flight(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 5, 3))})
    story.late(LATE_S)
    story.played(until_s=2.0)
    story.asked(5.0, SetLimits({"replicas": 2}))

    assert story.resumed().ended

    assert story.sent("orders-0")[0] == (1, 2, 3, 4)
    assert story.at_target("orders-0")


def test_a_step_that_arrives_twice_meets_no_later_step(tmp_path: Path) -> None:
    story = Story(tmp_path, ONE)
    story.schedule(0.0, layout.LoseAnswer())
    story.schedule(30.0, layout.Alter({tp("orders-0"): (1, 2, 3, 4)}))  # the broker resends it

    assert story.played().ended

    assert story.sent("orders-0") == [(1, 2, 3, 4), (4, 2, 3)]
    assert story.begun_at("orders-0")[1] >= MAY_COME_S
    assert story.at_target("orders-0")


def test_a_lost_answer_is_not_waited_for_when_no_step_follows(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, {"orders-0": ((1, 2, 3), (1, 3, 2))})
    story.schedule(0.0, layout.LoseAnswer())

    assert story.played(until_s=20.0).ended

    assert story.at_target("orders-0")


def test_a_cancel_that_arrives_twice_meets_no_later_step(tmp_path: Path) -> None:
    story = Story(
        tmp_path, ONE, cluster={"version": "4.2"}, on_stall="cancel", stall_timeout_s=60.0
    )
    story.schedule(2.0, layout.Kill(1))
    story.schedule(20.0, layout.LoseAnswer())
    story.schedule(90.0, layout.Alter({tp("orders-0"): None}))

    assert story.played().ended

    (cancelled,) = story.seconds(lambda event: isinstance(event, Cancel))
    assert 65.0 < cancelled < 75.0, "the second one would come at another moment"
    assert story.begun_at("orders-0")[1] >= cancelled + MAY_COME_S
    assert story.sent("orders-0") == [(1, 2, 3, 4), None, (2, 3, 4), (4, 2, 3)]
    assert story.at_target("orders-0")


def test_an_answered_cancel_delays_nothing(tmp_path: Path) -> None:
    story = Story(
        tmp_path, ONE, cluster={"version": "4.2"}, on_stall="cancel", stall_timeout_s=60.0
    )
    story.schedule(2.0, layout.Kill(1))

    assert story.played().ended

    (cancelled,) = story.seconds(lambda event: isinstance(event, Cancel))
    assert story.begun_at("orders-0")[1] < cancelled + 5.0


def test_a_run_continues_from_a_step_whose_request_was_presumed_lost(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})
    story.late(75.0)
    story.asked(5.0, Pause())
    story.asked(120.0, Continue())
    story.schedule(119.0, layout.LoseRequest())

    assert story.played().ended

    assert story.sent("orders-0") == [(1, 2, 3, 4), (4, 2, 3)]
    assert [e.before for e in story.steps] == [RF3, (1, 2, 3, 4), (1, 2, 3, 4)]
    assert story.at_target("orders-0")


def test_an_election_whose_answer_was_lost_is_settled_by_polling(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (2, 1, 3))})

    def loses(_: object) -> None:
        if not story.witness.elections:
            story.cluster.mishaps.append(layout.LoseAnswer())
            story.witness.watchers.clear()

    story.witness.watchers.append(loses)

    assert story.played().ended

    assert story.witness.elections == [(tp("orders-0"), True)]
    assert story.at_target("orders-0")
