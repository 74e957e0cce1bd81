"""Answers that are refusals, late or lost."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution import JournalProblem
from ktui.execution.journal.commands import Continue, Pause, SetLimits
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Cancel,
    JournalEntry,
    Paused,
    Request,
    StepOver,
)
from ktui.execution.run.states import State
from ktui.execution.run.unanswered import MAY_COME_S
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from ktui.simulated import layout as acts
from support.chaos.faults import Call, Interposed
from support.runs.stories import Story, of_request, refuses
from support.runs.witnessed import WitnessedJournal
from support.simulated.moving_clusters import tp

RF3 = (1, 2, 3)
TWO = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}
ONE = {"orders-0": (RF3, (4, 2, 3))}
LATE_S = 40.7  # seen on a cluster whose controller was suspended for a while


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


def test_a_request_sent_long_after_its_intent_is_not_presumed_lost_at_once(tmp_path: Path) -> None:
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


def test_a_lost_answer_is_not_waited_for_when_no_step_follows(tmp_path: Path) -> None:
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


def test_a_refused_step_is_retried_with_backoff_and_then_fails_quoting_the_broker(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, TWO, Limits(replicas=1, partitions=2))
    refuses(story)

    run = story.played()

    assert run.ended
    assert story.state("orders-0") is story.state("orders-1") is State.FAILED
    assert story.reason("orders-0") == "refused 5 times: not today (POLICY_VIOLATION)"
    tries = story.begun_at("orders-0")
    waits = [later - sooner for sooner, later in pairwise(tries)]
    assert [round(wait) for wait in waits] == [1, 2, 4, 8]


def test_a_step_refused_for_a_while_still_completes(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO)
    refuses(story, for_s=5.0)

    assert story.played().ended

    assert story.at_target("orders-0", "orders-1")


def test_a_retried_step_keeps_its_place(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO)
    refuses(story)

    story.played(until_s=14.0)

    assert len(story.begun_at("orders-0")) == 4
    assert story.begun_at("orders-1") == []


def test_a_refused_election_fails_its_partition_quoting_the_broker(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (2, 1, 3))})
    refuses(story, "elect_preferred_leaders")

    assert story.played().ended

    assert story.state("orders-0") is State.FAILED
    assert story.reason("orders-0") == "its election was refused: not today (POLICY_VIOLATION)"


def test_a_run_that_stops_on_failure_begins_nothing_and_finishes_steps_in_flight(
    tmp_path: Path,
) -> None:
    ways = {
        "orders-0": (RF3, (2, 1, 3)),
        "orders-1": (RF3, (5, 2, 3)),
        "orders-2": (RF3, (6, 2, 3)),
    }
    limits = Limits(replicas=1, partitions=2)
    story = Story(tmp_path, ways, limits, stop_on_failure=True)
    refuses(story, "elect_preferred_leaders")

    run = story.played()

    assert not run.ended
    assert run.left == "orders-0 has failed"
    assert story.state("orders-0") is State.FAILED
    assert story.state("orders-1") is State.READY
    assert story.begun_at("orders-2") == []
    assert [event.reason for event in story.events if isinstance(event, Paused)] == [run.left]


def test_a_run_stopped_by_a_failure_continues_when_resumed(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO, stop_on_failure=True)
    refuses(story, for_s=60.0)
    story.played()
    story.clock.pass_time(60.0)

    run = story.resumed()

    assert run.ended
    assert story.state("orders-0") is State.FAILED
    assert story.at_target("orders-1")


def test_a_step_that_makes_the_controller_fail_is_retried_only_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path, TWO)
    sending, broken = story.sending.alter_reassignments, tp("orders-0")
    failure = WriteResult(Verdict.UNKNOWN, "UNKNOWN_SERVER_ERROR", "it failed")

    async def failing(targets: Any, **how: Any) -> Any:
        others = {each: to for each, to in targets.items() if each != broken}
        results = dict(await sending(others, **how)) if others else {}
        return {**results, **({broken: failure} if broken in targets else {})}

    monkeypatch.setattr(story.sending, "alter_reassignments", failing)

    assert story.played().ended

    assert story.state("orders-0") is State.FAILED
    assert story.reason("orders-0") == "refused 5 times: it failed (UNKNOWN_SERVER_ERROR)"
    assert len(story.begun_at("orders-0")) == 5
    assert story.at_target("orders-1")


def test_the_cluster_is_read_for_each_request_however_long_the_last_one_took(
    tmp_path: Path,
) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (2, 1, 3))}
    story = Story(tmp_path, ways, Limits(replicas=1, partitions=2))
    story.schedule(0.0, acts.LoseAnswer())

    assert story.played().ended

    cut = next(e for e in story.events if of_request(Request.ALTER, "orders-1")(e))
    assert isinstance(cut, Answered)
    assert cut.verdict is Verdict.ACCEPTED
    assert story.sent("orders-1") == [(2, 1, 3)]
    assert story.at_target(*ways)


def test_no_request_is_sent_on_the_basis_of_a_reading_that_is_too_old(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})

    async def slow(call: Call) -> Any:
        answer = await call()
        await story.clock.sleep(6.0 if story.clock.monotonic() < 30.0 else 0.0)
        return answer

    reader: Any = Interposed(story.reader, list_reassignments=slow)
    story.reader = reader
    assert story.played().ended

    first = next(e for e in story.events if isinstance(e, Answered))
    assert (first.verdict, first.code) == (Verdict.REFUSED, None)
    assert "the cluster took 12.0 s to answer" in first.message  # its list is read twice
    assert min(each.at_s for each in story.witness.alters) >= 30.0
    assert story.at_target("orders-0")


class _Full(WitnessedJournal):
    """A journal on a disk that is full from its n-th write on."""

    left = 0

    def append(self, events: list[AnyRunEvent]) -> list[JournalEntry]:  # type: ignore[override]
        if events:
            type(self).left -= 1
        if events and type(self).left < 0:
            raise JournalProblem(f"{self.path}: cannot be written: the disk is full")
        return super().append(events)


class _OnAFullDisk(Story):
    full = True

    def opened(self) -> Journal:
        if self.full:
            return _Full.watched(self.path, self.clock, self.written)
        return super().opened()


@pytest.mark.parametrize("writes", range(12))
def test_with_a_full_disk_only_requests_in_the_journal_are_sent(
    tmp_path: Path, writes: int
) -> None:
    story = _OnAFullDisk(tmp_path, {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (3, 2, 1))})
    _Full.left = writes

    with pytest.raises(JournalProblem, match="the disk is full"):
        story.played()

    story.check_requests()
    asyncio.run(story.clock.sleep(30.0))
    story.full = False
    assert story.resumed().ended
    assert story.at_target("orders-0", "orders-1")
    assert story.sent("orders-0") == [(1, 2, 3, 4), (4, 2, 3)]
