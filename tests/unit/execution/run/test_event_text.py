"""Every event of a run in words: what happened, and Kafka's own words where it refused."""

from __future__ import annotations

from typing import Any

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Cancel,
    Continued,
    Elect,
    Ended,
    EngineLeft,
    Outage,
    Owned,
    Paused,
    PauseOrigin,
    PlannedPart,
    Recording,
    Recovered,
    Replanned,
    Request,
    StateEntered,
    StepBegun,
    StepGate,
    StepOver,
)
from ktui.execution.run.states import State
from ktui.execution.run.text import describe_event, event_sentence
from support.journals.journals import planned, started, step

TP: dict[str, Any] = {"topic": "orders", "partition": 3}


def a_cut(**more: Any) -> StepBegun:
    fields: dict[str, Any] = {
        "batch": 1_200, "replicas": (4, 5, 6), "adding": (), "removing": (1, 2, 3), "elect": 4,
        "before": (1, 2, 3, 4, 5, 6), "leader": 1, **TP, **more,
    }  # fmt: skip
    return StepBegun(**fields)


def answered(verdict: Verdict, code: str | None = None, message: str = "") -> Answered:
    return Answered(request=Request.ALTER, verdict=verdict, code=code, message=message, **TP)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (step(0), "batch 1: 1,2,3 -> 1,2,3,4 (+4)"),
        (a_cut(), "batch 1,200: 1,2,3,4,5,6 -> 4,5,6 (-1 -2 -3), then elect 4"),
        (a_cut(alters=False), "batch 1,200: elect 4"),
        (
            a_cut(elect=None, alone=True),
            "batch 1,200: 1,2,3,4,5,6 -> 4,5,6 (-1 -2 -3), alone, for it can never fit the limits",
        ),
        (Elect(leader=4, **TP), "electing leader 4"),
        (Cancel(reason="broker 9 is gone", **TP), "step cancelled: broker 9 is gone"),
        (answered(Verdict.ACCEPTED), "Kafka accepted the alter"),
        (
            answered(Verdict.ACCEPTED, "ELECTION_NOT_NEEDED"),
            "Kafka accepted the alter: ELECTION_NOT_NEEDED",
        ),
        (answered(Verdict.UNKNOWN), "the answer to the alter was lost: it may have taken effect"),
        (
            answered(Verdict.REFUSED, "INVALID_REPLICA_ASSIGNMENT", "no broker 9"),
            "the alter was refused: INVALID_REPLICA_ASSIGNMENT: no broker 9",
        ),
        (
            answered(Verdict.REFUSED, None, "connection refused"),
            "the alter could not be sent: connection refused",
        ),
        (StepOver(replicas=(1, 2), leader=1, **TP), "step finished: 1,2, leader 1"),
        (
            StepOver(replicas=(1, 2), leader=None, reached=False, reason="cancelled", **TP),
            "step given up: cancelled; 1,2, no leader",
        ),
        (StateEntered(state=State.DONE, **TP), "done"),
        (
            StateEntered(state=State.CHANGED_ELSEWHERE, reason="it has 1,9", **TP),
            "changed elsewhere: it has 1,9",
        ),
        (
            Replanned(replicas=(1, 9), before=(1, 2), **TP),
            "someone else gave it 1,9 instead of 1,2; it goes on from there",
        ),
    ],
)  # fmt: skip
def test_an_event_of_a_partition_is_described_with_the_partition_named_first(
    event: AnyRunEvent, said: str
) -> None:
    assert describe_event(event) == said
    assert event_sentence(event) == f"{getattr(event, 'tp')}: {said}"  # noqa: B009 - not every event has


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            started(4, "abc"),
            "run of drain.json, 4 partitions of cluster abc; R 1, P 2, gentle, rolling, by topic",
        ),
        (planned(3), "3 partitions of the plan, orders-0 to orders-2"),
        (PlannedPart(partitions=()), "no partitions of the plan"),
        (Owned(pid=7, host="ops1", user="ada"), "process 7 of ada on ops1 runs the engine"),
        (EngineLeft(reason="SIGTERM"), "the engine has exited: SIGTERM"),
        (Paused(by=PauseOrigin.OPERATOR), "paused by an operator"),
        (
            Paused(by=PauseOrigin.UNTIL, reason="nothing more fits before 15:00"),
            "paused by the time given with --until: nothing more fits before 15:00",
        ),
        (
            Paused(
                by=PauseOrigin.OPERATOR, topics=("a", "b"), partitions=(TopicPartition("c", 1),)
            ),
            "paused topic a, topic b and c-1 by an operator",
        ),
        (Continued(by=PauseOrigin.OPERATOR), "continued: an operator"),
        (Continued(by=PauseOrigin.OPERATOR, topics=("a",)), "topic a continues: an operator"),
        (StepGate(shut=True, reason="3 offline"), "the gate is shut: 3 offline"),
        (StepGate(shut=False), "the gate is open again"),
        (Outage(lost=True, reason="no answer"), "the cluster is lost: no answer"),
        (Outage(lost=False), "the cluster answers again"),
        (Recording(on=True), "the engine records what it observes"),
        (Recording(on=False), "the engine does not record what it observes"),
        (Recording(on=False, reason="/x: no space left"), "/x: no space left"),
        (Recovered(lost="event 9"), "the journal was damaged and is recovered: event 9"),
        (
            Ended(counts={State.DONE: 1_000, State.CHANGED_ELSEWHERE: 2, State.FAILED: 0}),
            "ended: 1,000 done, 2 changed elsewhere",
        ),
        (EngineLeft(reason="\x1b[31mred"), "the engine has exited: \\x1b[31mred"),
    ],
)
def test_an_event_of_the_run_is_described(event: AnyRunEvent, said: str) -> None:
    assert describe_event(event) == event_sentence(event) == said
