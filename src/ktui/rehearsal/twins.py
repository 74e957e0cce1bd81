"""Rehearse a plan on the twins of a cluster: the slow, the usual and the fast one."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from pathlib import Path

import msgspec

from ktui import __version__
from ktui.execution.run.events import Started
from ktui.recording.recorder import Recorder
from ktui.rehearsal.play import Rehearsal, play
from ktui.rehearsal.summary import Summary, summarise
from ktui.rehearsal.twin import SIMULATED, Pace, Twin
from ktui.simulated.clock import VirtualClock

FEW = 200
"""So many partitions are rehearsed sooner than another process has started."""


class RehearsedTwin(msgspec.Struct, frozen=True, kw_only=True):
    """One twin, and what the plan did to it."""

    pace: Pace
    rate: float
    """Bytes a second that each of its brokers takes in at most, over all copies."""
    summary: Summary
    recording: str | None = None
    """The folder of its recording; None if it was not recorded."""
    recording_problem: str | None = None
    """Why the recording is not whole; None if it is."""


class _Task(msgspec.Struct, frozen=True, kw_only=True):
    """One twin to play."""

    rehearsal: Rehearsal
    twin: Twin
    pace: Pace
    start: datetime
    record: Path | None


def rehearse(
    rehearsal: Rehearsal, twin: Twin, *, start: datetime, record: Path | None = None
) -> tuple[RehearsedTwin, ...]:
    """Rehearse a plan on each twin, from the slowest to the fastest.

    Large plans are played in processes of their own, as many at a time as there are cores.

    Args:
        rehearsal: the plan.
        twin: the cluster with its range of copy rates.
        start: the wall time of the twins at the start of the run.
        record: the folder for a recording of the usual twin; None for none.

    Raises:
        JournalProblem: a temporary journal cannot be written.
    """
    tasks = [
        _Task(
            rehearsal=rehearsal,
            twin=twin,
            pace=pace,
            start=start,
            record=record if pace is Pace.USUAL else None,
        )
        for pace in twin.paces
    ]
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if min(cores, len(tasks)) < 2 or _partitions(rehearsal) <= FEW:  # noqa: PLR2004 - more than one at a time
        return tuple(map(_play, tasks))
    return _play_side_by_side(tasks, cores)


def _play_side_by_side(tasks: Sequence[_Task], cores: int) -> tuple[RehearsedTwin, ...]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(cores, len(tasks)), mp_context=context) as pool:
        return tuple(pool.map(_play, tasks))


def _partitions(rehearsal: Rehearsal) -> int:
    return next((e.partitions for e in rehearsal.first if isinstance(e, Started)), 0)


def _play(task: _Task) -> RehearsedTwin:
    clock = VirtualClock(task.start, leaping=True)
    recorder = None
    if task.record is not None:
        recorder = Recorder(
            task.record,
            clock,
            cluster=f"{task.twin.name} ({SIMULATED})",
            program=f"ktui {__version__} rehearse",
        )
    spec = task.twin.cluster(task.pace)
    try:
        played = asyncio.run(play(task.rehearsal, spec, clock, recorder=recorder))
    finally:
        if recorder is not None:
            recorder.close()
    path = None if recorder is None else recorder.path
    return RehearsedTwin(
        pace=task.pace,
        rate=task.twin.rate(task.pace),
        summary=summarise(played),
        recording=None if path is None else str(path),
        recording_problem=None if recorder is None else recorder.problem,
    )
