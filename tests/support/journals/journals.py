"""Journals with events in them, also as found after a crash."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ktui.cluster.ports import Verdict
from ktui.execution.errors import JournalProblem
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Ended,
    JournalEntry,
    Owned,
    Planned,
    PlannedPart,
    Request,
    Started,
    StepBegun,
    StepOver,
)
from ktui.execution.run.options import RunOptions
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.simulated.clock import VirtualClock

CLUSTER = "cFlPpHqxRmOaCrPxQZu1bA"


def started(partitions: int, cluster_id: str = CLUSTER) -> Started:
    return Started(
        cluster_id=cluster_id,
        plan="drain.json",
        plan_sha256="0" * 64,
        partitions=partitions,
        limits=Limits(replicas=1, partitions=2),
        options=RunOptions(),
        version="0.1.0",
    )


def planned(partitions: int) -> PlannedPart:
    """Plan `orders-0` and so on, each to be moved from broker 3 to broker 4."""
    return PlannedPart(
        partitions=tuple(
            Planned("orders", n, "id", (1, 2, 4), (1, 2, 3), 1) for n in range(partitions)
        )
    )


def step(partition: int, batch: int = 1) -> StepBegun:
    return StepBegun(
        topic="orders",
        partition=partition,
        batch=batch,
        replicas=(1, 2, 3, 4),
        adding=(4,),
        removing=(),
        elect=None,
        before=(1, 2, 3),
        leader=1,
    )


def accepted(partition: int) -> Answered:
    return Answered(
        topic="orders", partition=partition, request=Request.ALTER, verdict=Verdict.ACCEPTED
    )


def over(partition: int) -> StepOver:
    return StepOver(topic="orders", partition=partition, replicas=(1, 2, 3, 4), leader=1)


def owned() -> Owned:
    return Owned(pid=4711, host="ops1", user="ada")


def ended(done: int) -> Ended:
    return Ended(counts={State.DONE: done})


def a_start(partitions: int = 3) -> list[AnyRunEvent]:
    return [started(partitions), planned(partitions), owned()]


def many_events(count: int) -> list[AnyRunEvent]:
    """Return the events of a run of one step after another."""
    course = [event for n in range(count) for event in (step(n, n + 1), accepted(n), over(n))]
    return [*a_start(count), *course][:count]


def written(path: Path, events: Sequence[AnyRunEvent], *, at_once: int = 7) -> Journal:
    """Write a journal of events, and leave it open, so that the latest events are in the log."""
    journal = Journal.create(path, VirtualClock())
    for n in range(0, len(events), at_once):
        journal.append(events[n : n + at_once])
    return journal


def crashed(journal: Path, folder: Path) -> Path:
    """Return a copy of a journal in use, as a power cut would leave it."""
    folder.mkdir()
    for suffix in ("", "-wal", "-head"):
        shutil.copy(f"{journal}{suffix}", folder)
    return folder / journal.name


def read(path: Path) -> tuple[list[JournalEntry], str | None]:
    """Return the intact entries of a journal, and the problem with the rest."""
    try:
        with Journal.open(path, VirtualClock(), read_only=True) as journal:
            return list(journal.entries()), journal.damage
    except JournalProblem as problem:
        return [], str(problem)
