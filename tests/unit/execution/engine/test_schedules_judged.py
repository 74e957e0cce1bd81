"""What the schedules for real brokers contain, and that their judge finds faults."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Cancel,
    Ended,
    JournalEntry,
    OpenRequest,
    Request,
    Started,
    StepBegun,
)
from ktui.pacing.limits import Limits
from support.kafka.throttle_log import ThrottleLog
from support.runs.witnessed import WitnessedRun
from support.schedules.journal_judge import Replayed
from support.schedules.log_judge import (
    TopicLog,
    after_the_end,
    against_intents,
    followed,
    intents,
    lost_in_sync,
    unthrottled,
)
from support.schedules.schedule import COUNT, Asked, Fault, schedule
from support.simulated.moving_clusters import a_cluster

TOPIC, ID = "orders", "some-id"
TP = TopicPartition(TOPIC, 0)
BEGAN = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
MADE = {
    "replicas": [1, 2],
    "isr": [1, 2],
    "leader": 1,
    "addingReplicas": [],
    "removingReplicas": [],
}
ADDING = {"replicas": [1, 2, 3], "addingReplicas": [3]}
Change = tuple[float, dict[str, Any]]


def test_fifty_schedules_cover_every_fault_and_command_and_five_suspend_for_90_s() -> None:
    planned = Counter(event.what for number in range(COUNT) for event in schedule(number).events)
    assert {*planned} == {*Fault, *Asked}
    assert planned[Fault.HOLDER_SUSPENDED] == 5
    assert schedule(17) == schedule(17) != schedule(18)


def log(*changes: Change) -> TopicLog:
    """Build a partition's records, each at its time in seconds after the beginning."""
    records: list[tuple[int, int, dict[str, Any]]] = [
        (0, ms(-60), {"type": "TOPIC_RECORD", "data": {"topicId": ID, "name": TOPIC}}),
        (1, ms(-60), record("PARTITION_RECORD", MADE)),
    ]
    for offset, (at_s, change) in enumerate(changes, start=2):
        records.append((offset, ms(at_s), record("PARTITION_CHANGE_RECORD", change)))
    throttles = ThrottleLog.among([(offset, body) for offset, _, body in records], TOPIC)
    return followed(throttles, {offset: at_ms for offset, at_ms, _ in records})


def record(kind: str, change: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "data": {"topicId": ID, "partitionId": 0, **change}}


def ms(at_s: float) -> int:
    return int((BEGAN.timestamp() + at_s) * 1000)


def written(*events: tuple[float, AnyRunEvent]) -> list[JournalEntry]:
    return [
        JournalEntry(seq, BEGAN + timedelta(seconds=at_s), event)
        for seq, (at_s, event) in enumerate(events, start=1)
    ]


def step(*replicas: int) -> StepBegun:
    return StepBegun(
        topic=TOPIC,
        partition=0,
        batch=1,
        replicas=replicas,
        adding=(),
        removing=(),
        elect=None,
        before=(1, 2),
        leader=1,
    )


def cancel() -> Cancel:
    return Cancel(topic=TOPIC, partition=0, reason="an operator has called it off")


def answer(request: Request, verdict: Verdict) -> Answered:
    return Answered(topic=TOPIC, partition=0, request=request, verdict=verdict)


def found(log: TopicLog, entries: Iterable[JournalEntry]) -> list[str]:
    return against_intents(log, intents(entries))


def test_intended_requests_that_take_effect_in_order_raise_no_problem() -> None:
    moved = log((1.1, ADDING), (3, {"addingReplicas": [], "isr": [1, 2, 3]}))
    entries = written((1, step(1, 2, 3)), (1.2, answer(Request.ALTER, Verdict.ACCEPTED)))
    assert found(moved, entries) == []
    assert lost_in_sync(moved, 2) == ([], [])


@pytest.mark.parametrize(
    ("changes", "events", "words"),
    [
        ([(1, ADDING)], [], "nobody meant to send this"),
        (
            [(1.1, ADDING), (9, {**ADDING, "replicas": [1, 2, 4], "addingReplicas": [4]})],
            [(1, step(1, 2, 3)), (8, step(1, 2, 4))],
            "altered while it moved",
        ),
        (
            [(1.1, ADDING), (9, {"replicas": [1, 2], "addingReplicas": []}), (70, ADDING)],
            [(1, step(1, 2, 3)), (8, cancel()), (8.1, answer(Request.CANCEL, Verdict.ACCEPTED))],
            "took effect after",
        ),
    ],
    ids=["nobody meant it", "it moved", "it came late"],
)
def test_a_request_that_takes_effect_where_it_should_not_is_found(
    changes: list[Change], events: list[tuple[float, AnyRunEvent]], words: str
) -> None:
    (problem,) = found(log(*changes), written(*events))
    assert words in problem


def test_a_cancel_leaving_none_in_sync_is_a_fault_or_counted_if_the_isr_just_shrank() -> None:
    cancelled = {"replicas": [1, 2], "addingReplicas": [], "isr": [1], "leader": 1}
    shrunk = {"isr": [3], "leader": 3}
    long_ago = log((1, ADDING), (2, {"isr": [1, 2, 3]}), (3, shrunk), (60, cancelled))
    just_before = log((1, ADDING), (2, {"isr": [1, 2, 3]}), (59, shrunk), (60, cancelled))

    assert [len(each) for each in lost_in_sync(long_ago, 1)] == [1, 0]
    assert [len(each) for each in lost_in_sync(just_before, 1)] == [0, 1]


def test_a_drop_below_min_insync_replicas_is_found() -> None:
    more = (1, {"replicas": [1, 2, 3], "isr": [1, 2]})
    dropped = log(more, (60, {"replicas": [2, 3], "isr": [2], "leader": 2}))
    assert lost_in_sync(dropped, 1) == ([], [])
    assert [len(each) for each in lost_in_sync(dropped, 2)] == [1, 0]


def test_an_unclean_leader_is_a_fault_if_a_request_caused_it_and_counted_otherwise() -> None:
    alone = {"isr": [2]}
    elected = {"leader": 1, "isr": [1], "leaderRecoveryState": 1}
    by_kafka = log((1, alone), (2, elected))
    by_us = log((1, alone), (2, {**elected, "replicas": [1]}))

    assert [len(by_kafka.unclean), len(by_kafka.problems)] == [1, 0]
    assert [len(by_us.unclean), len(by_us.problems)] == [0, 1]


def test_an_alter_that_adds_without_its_throttle_is_found() -> None:
    assert len(unthrottled(log((1, ADDING)), ["500000"])) == 1


def test_a_journal_with_more_at_once_than_its_limits_allow_is_found(tmp_path: Path) -> None:
    brokers = range(1, 5)
    cluster = a_cluster({TOPIC: [(1, 2)] * 4}, brokers=brokers, messages=1_000)
    cluster.clock._leaping = True  # type: ignore[attr-defined]  # it is a virtual one
    targets = {TopicPartition(TOPIC, number): (3, 4) for number in range(4)}
    run = WitnessedRun(cluster, tmp_path, targets, Limits(replicas=1, partitions=2))
    polls: list[tuple[datetime, Observation]] = []
    entries: list[JournalEntry] = []

    def is_written(appended: Sequence[JournalEntry]) -> None:
        """Record each write at a moment of its own, as in real time."""
        if appended:
            at = appended[0].at + timedelta(microseconds=appended[0].seq)
            entries.extend(JournalEntry(entry.seq, at, entry.event) for entry in appended)
            if run.seen is not None:
                polls.append((at, run.seen))

    asyncio.run(run.start())
    entries += run.entries()
    run.checks.append(is_written)
    asyncio.run(run.execute())

    replayed = Replayed(entries, polls, brokers, 1)
    assert list(replayed.problems()) == []
    assert replayed.rules.decisions > 4
    fewer = [with_limits(entry, Limits(replicas=1, partitions=1)) for entry in entries]
    assert list(Replayed(fewer, polls, brokers, 1).problems())


def with_limits(entry: JournalEntry, limits: Limits) -> JournalEntry:
    if not isinstance(entry.event, Started):
        return entry
    return JournalEntry(entry.seq, entry.at, msgspec.structs.replace(entry.event, limits=limits))


def test_a_request_after_the_end_is_found_unless_the_end_names_it() -> None:
    late = log((99, ADDING))
    named = OpenRequest(topic=TOPIC, partition=0, node=2)
    assert len(after_the_end(late, written((9, Ended(counts={}))))) == 1
    assert after_the_end(late, written((9, Ended(counts={}, open=(named,))))) == []
