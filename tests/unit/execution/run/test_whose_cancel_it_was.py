"""A step that was cancelled: by the run itself, or by somebody else."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.errors import Unreachable
from ktui.cluster.ports import Verdict
from ktui.execution.run.events import Answered, AnyRunEvent, Cancel, JournalEntry, Request
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.unanswered import left_open
from ktui.simulated import layout as acts
from ktui.simulated.clock import FIRST_MOMENT
from support.journals.journals import a_start, step
from support.runs.stories import Story
from support.simulated.moving_clusters import cancel, tp

RF3 = (1, 2, 3)
ACCEPTED = Answered(topic="orders", partition=0, request=Request.ALTER, verdict=Verdict.ACCEPTED)


def test_an_unsent_cancel_does_not_claim_the_cancel_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3))}
    story = Story(tmp_path, ways, on_stall="cancel", stall_timeout_s=60.0)
    story.schedule(5.0, acts.Kill(4))
    story.schedule(100.0, cancel("orders-0"))
    sending = story.sending.alter_reassignments

    async def but_no_cancel(targets: Any, **how: Any) -> Any:
        if None in targets.values():
            raise Unreachable("altering reassignments")
        return await sending(targets, **how)

    monkeypatch.setattr(story.sending, "alter_reassignments", but_no_cancel)

    assert story.played().ended

    assert len(story.seconds(lambda e: isinstance(e, Cancel))) > 1
    assert story.state("orders-0") is State.CHANGED_ELSEWHERE
    assert story.reason("orders-0") == "someone else cancelled its step"


def test_a_cancel_counts_as_the_runs_own_unless_it_was_refused() -> None:
    def answer(verdict: Verdict) -> Answered:
        return Answered(topic="orders", partition=0, request=Request.CANCEL, verdict=verdict)

    def cancelled(*events: AnyRunEvent) -> bool:
        numbered = enumerate([*a_start(), step(0), *events], start=1)
        run = Run("run").fold(JournalEntry(n, FIRST_MOMENT, event) for n, event in numbered)
        flying = run.tracks_in_flight[tp("orders-0")].step
        return flying is not None and flying.cancelled

    asked = Cancel(topic="orders", partition=0, reason="broker 4 offline for 60 s")
    refused, unknown = answer(Verdict.REFUSED), answer(Verdict.UNKNOWN)
    assert not cancelled()
    assert cancelled(asked)  # its process died before there was an answer
    assert cancelled(asked, answer(Verdict.ACCEPTED))
    assert cancelled(asked, unknown)
    assert not cancelled(asked, refused)
    assert cancelled(asked, unknown, asked, refused)
    assert not cancelled(asked, refused, asked, refused)


def test_a_process_that_takes_over_knows_a_lost_cancel_though_a_later_one_was_answered() -> None:
    asked = Cancel(topic="orders", partition=0, reason="broker 4 offline for 60 s")
    what = partial(Answered, topic="orders", partition=0, request=Request.CANCEL)
    lost, answered = what(verdict=Verdict.UNKNOWN, node=6), what(verdict=Verdict.ACCEPTED)

    def known(*events: AnyRunEvent) -> dict[Any, Any]:
        numbered = enumerate([*a_start(), step(0), ACCEPTED, *events], start=1)
        return left_open(
            Run("run").fold(JournalEntry(n, FIRST_MOMENT, event) for n, event in numbered)
        )

    assert known(asked, answered) == {}
    assert known(asked, lost, asked, answered) == {tp("orders-0"): (6,)}
    assert known(asked, lost, asked, answered, step(0), ACCEPTED) == {}
