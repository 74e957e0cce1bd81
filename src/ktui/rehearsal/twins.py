"""Rehearse a plan on the twins of a cluster: the slow, the usual and the fast one."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from datetime import datetime
from pathlib import Path

import msgspec

from ktui import __version__
from ktui.cluster.clock import Clock
from ktui.cluster.simulated_id import marked
from ktui.execution.errors import RunProblem
from ktui.execution.run.events import Started
from ktui.recording.recorder import Recorder
from ktui.rehearsal.play import Rehearsal, play
from ktui.rehearsal.summary import Summary, summarise
from ktui.rehearsal.twin import Pace, Twin
from ktui.simulated.clock import VirtualClock

FEW = 200
"""So many partitions are rehearsed sooner than another process has started, with every poll."""

LOST_PROCESS = "the system has ended a process of the rehearsal, perhaps for lack of memory"


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


class TwinTask(msgspec.Struct, frozen=True, kw_only=True):
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

    Large plans are played in processes of their own, all at a time where there are several cores:
    nobody knows beforehand which twin takes longest.

    Args:
        rehearsal: the plan.
        twin: the cluster with its range of copy rates.
        start: the wall time of the twins at the start of the run.
        record: the folder for a recording of the usual twin; None for none.

    Raises:
        RunProblem: the system has ended one of the processes.
    """
    tasks = twin_tasks(rehearsal, twin, start=start, record=record)
    if min(cores(), len(tasks)) == 1 or _partitions(rehearsal) <= FEW:
        return tuple(map(play_twin, tasks))
    return _play_side_by_side(tasks)


def twin_tasks(
    rehearsal: Rehearsal, twin: Twin, *, start: datetime, record: Path | None = None
) -> list[TwinTask]:
    """Return the task of each twin, from the slowest to the fastest.

    Args:
        rehearsal: the plan.
        twin: the cluster with its range of copy rates.
        start: the wall time of the twins at the start of the run.
        record: the folder for a recording of the usual twin; None for none.
    """
    return [
        TwinTask(
            rehearsal=rehearsal,
            twin=twin,
            pace=pace,
            start=start,
            record=record if pace is Pace.USUAL else None,
        )
        for pace in twin.paces
    ]


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _play_side_by_side(tasks: Sequence[TwinTask]) -> tuple[RehearsedTwin, ...]:
    """Play each twin in a process of its own; none of them outlives an interrupt or an error.

    Raises:
        RunProblem: the system has ended one of the processes.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(len(tasks), mp_context=context, initializer=ignore_interrupts)
    try:
        return tuple(pool.map(play_twin, tasks))
    except BrokenProcessPool:
        raise RunProblem(f"{LOST_PROCESS}. Rehearse one twin at a time, with --rate") from None
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def ignore_interrupts() -> None:
    """Leave an interrupt from the terminal to the process that has started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _partitions(rehearsal: Rehearsal) -> int:
    return next((e.partitions for e in rehearsal.first if isinstance(e, Started)), 0)


def twin_recorder(folder: Path, twin: Twin, clock: Clock) -> Recorder:
    """Return a recorder of a twin, marked as simulated; the caller closes it."""
    return Recorder(
        folder,
        clock,
        cluster=marked(twin.name, twin.cluster_id),
        program=f"ktui {__version__} rehearse",
    )


def play_twin(task: TwinTask) -> RehearsedTwin:
    """Rehearse a plan on one twin.

    Raises:
        JournalProblem: the temporary journal cannot be written.
    """
    clock = VirtualClock(task.start, leaping=True)
    recorder = None
    if task.record is not None:
        recorder = twin_recorder(task.record, task.twin, clock)
    rehearsal, spec = task.rehearsal, task.twin.cluster(task.pace)
    plain = recorder is None and not rehearsal.faults and rehearsal.until is None
    passes_over = plain and _partitions(rehearsal) > FEW
    try:
        played = asyncio.run(
            play(rehearsal, spec, clock, recorder=recorder, passes_over=passes_over)
        )
    finally:
        if recorder is not None:
            recorder.close()
    return rehearsed_twin(task.twin, task.pace, summarise(played), recorder)


def rehearsed_twin(
    twin: Twin, pace: Pace, summary: Summary, recorder: Recorder | None
) -> RehearsedTwin:
    """Return what a plan has done to a twin, with its recording; None where there is none."""
    path = None if recorder is None else recorder.path
    return RehearsedTwin(
        pace=pace,
        rate=twin.rate(pace),
        summary=summary,
        recording=None if path is None else str(path),
        recording_problem=None if recorder is None else recorder.problem,
    )
