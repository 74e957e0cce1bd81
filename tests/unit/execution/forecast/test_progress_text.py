"""A run without the live view: a line of progress, and its end in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from ktui.cluster.partition import TopicPartition
from ktui.execution.forecast.estimate import NOT_KNOWN, CopiedBytes
from ktui.execution.forecast.progress_text import RunEnding, end_lines, progress_line, run_ending
from ktui.execution.forecast.run_progress import run_progress
from ktui.execution.host.ownership import this_process
from ktui.execution.run.events import (
    AnyRunEvent,
    CancelAsked,
    CancelGate,
    Ended,
    EngineLeft,
    JournalEntry,
    Paused,
    PauseOrigin,
    Planned,
    PlannedPart,
    StateEntered,
    StepGate,
)  # fmt: skip
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.speed.answer import Basis, Source, Span
from support.journals.journals import a_start, ended, over, owned, started, step, written

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
GIB = 1024**3


def a_run(*events: AnyRunEvent, size: int = GIB) -> Run:
    parts = tuple(Planned("orders", n, "id", (1, 2, 4), (1, 2, 3), 1, size=size) for n in range(4))
    first: list[AnyRunEvent] = [started(4), PlannedPart(partitions=parts), owned()]
    entries = (
        JournalEntry(seq, AT + timedelta(seconds=seq), event)
        for seq, event in enumerate([*first, *events], start=1)
    )
    return Run("drain").fold(entries)


def now_in(partition: int, state: State, reason: str = "") -> StateEntered:
    return StateEntered(topic="orders", partition=partition, state=state, reason=reason)


def line(run: Run, copied: CopiedBytes = NOT_KNOWN) -> str:
    """The line of progress of a run with an engine."""
    return progress_line(run_progress(run, this_process(), copied=copied))


LEFT = CopiedBytes(left_s=Span(120.0, 130.0, 140.0))
ALL_DONE = tuple(now_in(n, State.DONE) for n in range(4))
ONE_FAILED = (*ALL_DONE[:3], now_in(3, State.FAILED, "refused 5 times: no"))


def test_the_progress_line_tells_what_moves_from_what_waits_for_a_broker_that_is_down() -> None:
    down = now_in(1, State.ADDING, "broker 4 is down")
    run = a_run(step(0, 7), step(1, 7), down)

    assert line(run).startswith("drain: 0 of 4 done, 1 held up, 1 copying, 2 queued, batch 7")
    assert "left" not in line(run, LEFT)


def test_the_progress_line_shows_how_far_the_run_is() -> None:
    run = a_run(now_in(0, State.DONE), step(1, 7), step(2, 7))

    assert line(run, LEFT) == (
        "drain: 1 of 4 done, 2 copying, 1 queued, batch 7, 1.0 GiB of 4.0 GiB copied, "
        "about 2.2 min left (2 to 2.3), by this run"
    )
    blocked = a_run(step(1, 7), now_in(3, State.BLOCKED))
    assert line(blocked, LEFT) == (
        "drain: 0 of 4 done, 1 blocked, 1 copying, 2 queued, batch 7, 0 B of 4.0 GiB copied"
    )


def test_the_progress_line_counts_what_steps_in_flight_have_copied() -> None:
    copied = msgspec.structs.replace(LEFT, done=3 * 2**30)
    assert ", 3.0 GiB of 4.0 GiB copied, " in line(a_run(step(1, 7)), copied)


def test_the_progress_line_marks_a_time_left_based_on_earlier_runs() -> None:
    reported = msgspec.structs.replace(LEFT, basis=Basis(Source.EARLIER_RUNS, 2))
    shown = line(a_run(step(1, 7)), reported)
    assert shown.endswith(", about 2.2 min left (2 to 2.3), by 2 earlier runs")


def test_a_partition_given_up_does_not_count_as_done() -> None:
    run = a_run(*ONE_FAILED[2:], now_in(0, State.CHANGED_ELSEWHERE), EngineLeft(reason="told to"))

    assert line(run).startswith("drain: 1 of 4 done, 1 failed, 1 left out, ")
    assert "1 of 4 partitions done" in end_lines(run)[0]


def test_the_progress_line_shows_why_the_run_is_held() -> None:
    gate = StepGate(shut=True, reason="2 partitions outside the run are offline")

    assert line(a_run(gate)).endswith("gate shut: 2 partitions outside the run are offline")
    assert line(a_run(gate, Paused(by=PauseOrigin.OPERATOR))).endswith("paused: by the operator")


def test_cancelled_partitions_are_counted_separately_and_never_as_done() -> None:
    some = tuple(TopicPartition("orders", n) for n in (1, 2))
    run = a_run(
        now_in(0, State.DONE),
        CancelAsked(kind=CancelKind.STOP, partitions=some),
        step(3),
        CancelAsked(kind=CancelKind.ROLLBACK, partitions=(TopicPartition("orders", 3),)),
        over(3),
    )

    assert line(run).startswith("drain: 1 of 4 done, 3 called off (1 rolling back, 2 stopped), ")

    for event in (now_in(3, State.DONE), Ended(counts={})):
        run.apply(JournalEntry(run.seq + 1, AT, event))
    assert end_lines(run)[0].startswith(
        "run drain has ended: 2 stopped, 1 rolled back, 1 done, after"
    )
    assert run_ending(run) is RunEnding.SOME_NOT_DONE


def test_the_progress_line_names_who_shut_the_cancel_gate() -> None:
    run = a_run(CancelGate(shut=True, reason="ada@ops1 (1) at 14:00, to stop all of run drain"))

    assert line(run, LEFT).endswith(
        "cancel gate shut by ada@ops1 (1) at 14:00, to stop all of run drain"
    )


def test_each_added_replica_counts_as_copied_when_its_step_completes() -> None:
    two = Planned("orders", 0, "id", (1, 4, 5), (1, 2, 3), 1, size=GIB)
    events: list[AnyRunEvent] = [started(1), PlannedPart(partitions=(two,)), owned()]
    run = Run("drain").fold(
        JournalEntry(seq, AT, event) for seq, event in enumerate(events, start=1)
    )
    assert (run.copies.done, run.copies.whole) == (0, 2 * GIB)

    run.apply(JournalEntry(4, AT, step(0)))
    assert run.copies.done == 0
    run.apply(JournalEntry(5, AT, over(0)))
    assert (run.copies.done, run.copies.whole) == (GIB, 2 * GIB)
    assert "1.0 GiB of 2.0 GiB copied" in line(run)

    run.apply(JournalEntry(6, AT, now_in(0, State.DONE)))
    assert (run.copies.done, run.copies.whole) == (2 * GIB, 2 * GIB)


def test_a_partition_changed_elsewhere_is_neither_copied_nor_left_to_copy() -> None:
    elsewhere = StateEntered(
        topic="orders",
        partition=1,
        state=State.CHANGED_ELSEWHERE,
        reason="someone else gave it brokers 1, 2, 4",
        replicas=(1, 2, 4),
    )
    run = a_run(now_in(0, State.DONE), elsewhere)

    assert (run.copies.done, run.copies.whole) == (GIB, 3 * GIB)
    assert run.tracks[elsewhere.tp].replicas == (1, 2, 4)


def test_the_progress_line_names_what_interrupted_the_run() -> None:
    reported = line(a_run(Paused(by=PauseOrigin.SIGNAL)))

    assert reported.endswith("paused: by an interrupt (Ctrl-C)")


@pytest.mark.parametrize(
    ("events", "how"),
    [
        ((*ALL_DONE, Ended(counts={State.DONE: 4})), RunEnding.ALL_DONE),
        ((*ONE_FAILED, Ended(counts={State.DONE: 3, State.FAILED: 1})), RunEnding.SOME_NOT_DONE),
        ((Paused(by=PauseOrigin.SIGNAL), EngineLeft(reason="paused by a signal")), RunEnding.LEFT),
        ((EngineLeft(reason="its process got SIGTERM"),), RunEnding.LEFT),
        ((Paused(by=PauseOrigin.UNTIL), EngineLeft(reason="too late")), RunEnding.SOME_NOT_DONE),
        (
            (Paused(by=PauseOrigin.FAILURE), EngineLeft(reason="orders-1 has failed")),
            RunEnding.FAILED,
        ),
        (
            (Paused(by=PauseOrigin.FAILURE), Paused(by=PauseOrigin.SIGNAL), EngineLeft(reason="")),
            RunEnding.LEFT,
        ),
        ((step(0),), RunEnding.FAILED),
    ],
)
def test_the_ending_of_a_run_follows_from_its_events(
    events: tuple[AnyRunEvent, ...], how: RunEnding
) -> None:
    assert run_ending(a_run(*events)) is how


def test_the_end_lines_name_partitions_that_are_not_done_and_why() -> None:
    run = a_run(*ONE_FAILED, Ended(counts={State.DONE: 3, State.FAILED: 1}))

    assert end_lines(run) == [
        "run drain has ended: 3 done, 1 failed, after 7 s",
        "  orders-3: failed: refused 5 times: no",
    ]


def test_the_end_lines_count_all_partitions_or_just_one(tmp_path: Path) -> None:
    many = a_run(*ALL_DONE, Ended(counts={State.DONE: 4}))
    one = written(tmp_path / "one.db", [*a_start(1), ALL_DONE[0], ended(1)])

    assert end_lines(many) == ["run drain has ended: all 4 partitions done, after 7 s"]
    assert end_lines(Run("one").fold(one.entries())) == [
        "run one has ended: 1 partition done, after 0 s"
    ]


def test_the_end_lines_of_a_left_run_name_the_steps_that_go_on_in_kafka() -> None:
    run = a_run(
        now_in(0, State.DONE), step(1), step(2), EngineLeft(reason="its process got SIGTERM")
    )

    (reported,) = end_lines(run)
    assert "left (its process got SIGTERM): 1 of 4 partitions done" in reported
    assert "2 steps in flight go on in Kafka" in reported
