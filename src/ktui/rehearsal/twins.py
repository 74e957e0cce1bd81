"""Rehearse a plan on the twins of a cluster, and hold what comes of it against thresholds."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager, redirect_stderr
from datetime import datetime
from multiprocessing import resource_tracker
from pathlib import Path

import msgspec

from ktui import __version__
from ktui.cluster.clock import Clock
from ktui.cluster.text import marked
from ktui.execution import RunProblem
from ktui.execution.host.launch import NewRun
from ktui.execution.run.events import Started
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import Plan
from ktui.preview.facts import ClusterFacts
from ktui.preview.preview import PlanPreview
from ktui.quantities import as_bytes, as_duration, as_rate
from ktui.recording.recorder import Recorder
from ktui.rehearsal.aftermath import BrokerUse
from ktui.rehearsal.play import Rehearsal, play
from ktui.rehearsal.summary import Summary, summarise
from ktui.rehearsal.twin import Pace, Twin
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, checked against a twin."""

    preview: PlanPreview
    rehearsal: Rehearsal | None  # None where the plan has problems, or nothing to do


def prepare(wanted: NewRun, twin: Twin) -> Prepared:
    """Check a run against a twin, and return its rehearsal, yet without a fault."""
    seen = asyncio.run(_snapshot(wanted.plan, twin, measure=wanted.options.throttles))
    facts = ClusterFacts(seen=seen, cluster=twin.name, cluster_id=twin.cluster_id)
    preview = wanted.preview_base(facts).under(wanted.terms).with_findings(*wanted.left_out)
    if preview.idle or preview.problems:
        return Prepared(preview=preview, rehearsal=None)
    first = tuple(wanted.first_events(facts))
    rehearsal = Rehearsal(name=wanted.name, first=first, until=wanted.until)
    return Prepared(preview=preview, rehearsal=rehearsal)


async def _snapshot(plan: Plan, twin: Twin, *, measure: bool) -> ClusterSnapshot:
    clock = VirtualClock(leaping=True)
    cluster = SimulatedCluster(twin.cluster(Pace.USUAL), clock)
    return await take_snapshot(cluster.reader(), plan, clock if measure else None)


FEW = 200  # up to here a rehearsal is sooner over than another process has started

_LOST_PROCESS = "the system has ended a process of the rehearsal, perhaps for lack of memory"


class RehearsedTwin(msgspec.Struct, frozen=True, kw_only=True):
    """One twin, and what the plan did to it."""

    pace: Pace
    rate: float  # bytes a second that each broker takes in at most
    summary: Summary
    recording: str | None = None  # its folder
    recording_problem: str | None = None  # why the recording is not whole


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
    """Rehearse on each twin, slowest first, large plans in parallel. Raises RunProblem."""
    tasks = twin_tasks(rehearsal, twin, start=start, record=record)
    if min(cores(), len(tasks)) == 1 or _partitions(rehearsal) <= FEW:
        return tuple(map(play_twin, tasks))
    return asyncio.run(_play_side_by_side(tasks))


def twin_tasks(
    rehearsal: Rehearsal, twin: Twin, *, start: datetime, record: Path | None = None
) -> list[TwinTask]:
    """Return the twins' tasks, from the slowest to the fastest; `record`: the usual's."""
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


async def _play_side_by_side(tasks: Sequence[TwinTask]) -> tuple[RehearsedTwin, ...]:
    loop = asyncio.get_running_loop()
    async with _processes(len(tasks), ". Rehearse one twin at a time, with --rate") as pool:
        return tuple(
            await asyncio.gather(*(loop.run_in_executor(pool, play_twin, t) for t in tasks))
        )


def _ignore_interrupts() -> None:
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
    """Rehearse a plan on one twin. Raises JournalProblem: no temporary journal can be written."""
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


async def rehearse_in_background(
    wanted: NewRun, twin: Twin, *, start: datetime, finished: Callable[[Pace], None]
) -> tuple[Prepared, tuple[RehearsedTwin, ...]]:
    """Check a plan, and rehearse it on each twin, the slowest first, if it may start.

    Cancelling this ends the processes. `start`: the twins' wall time; `finished` is called after
    each twin. Raises RunProblem: the system has ended one of the processes.
    """
    loop = asyncio.get_running_loop()
    async with _processes(min(cores(), len(twin.paces))) as pool:
        prepared = await loop.run_in_executor(pool, prepare, wanted, twin)
        if prepared.rehearsal is None:
            return prepared, ()

        async def play(task: TwinTask) -> RehearsedTwin:
            played = await loop.run_in_executor(pool, play_twin, task)
            finished(task.pace)
            return played

        tasks = twin_tasks(prepared.rehearsal, twin, start=start)
        return prepared, tuple(await asyncio.gather(*map(play, tasks)))


@asynccontextmanager
async def _processes(most: int, advice: str = "") -> AsyncIterator[ProcessPoolExecutor]:
    """No process outlives the block. Raises RunProblem, with advice: the system has ended one."""
    before = set(multiprocessing.active_children())
    with redirect_stderr(sys.__stderr__):  # a view has put one without a file in its place
        resource_tracker.ensure_running()
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(most, mp_context=context, initializer=_ignore_interrupts)
    try:
        yield pool
    except BaseException as error:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise RunProblem(f"{_LOST_PROCESS}{advice}") from None
        if isinstance(error, OSError):
            raise RunProblem(
                f"the rehearsal could not start its worker processes: {error}"
            ) from None
        raise
    finally:
        await asyncio.to_thread(pool.shutdown, cancel_futures=True)


MAX_TIME, MAX_INFLOW, MIN_ROOM = "--max-time", "--max-inflow", "--min-room"
TO_THE_END = "to the end"  # the threshold that always holds: every partition comes to its target


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds that were named; None for those that were not."""

    max_time_s: float | None = None
    max_inflow: float | None = None  # bytes a second copied into any broker
    min_room: int | None = None  # free bytes on disks of the plan's brokers, or of receivers
    min_room_share: float | None = None  # the same as a share of the disk


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One threshold, with the twin that comes closest to it."""

    threshold: str  # the option, or `to the end`
    holds: bool
    pace: Pace
    found: str  # by the twin, for people


def check(twins: Sequence[RehearsedTwin], thresholds: Thresholds) -> tuple[Checked, ...]:
    """Hold a rehearsal against thresholds. A threshold holds if it does on each twin."""
    return tuple(_checks(twins, thresholds))


def _checks(twins: Sequence[RehearsedTwin], wanted: Thresholds) -> Iterator[Checked]:
    yield _to_the_end(twins)
    if (longest := wanted.max_time_s) is not None:
        slowest = max(twins, key=lambda twin: twin.summary.time_s)
        time_s = slowest.summary.time_s
        found = f"{as_duration(time_s)}, at most {as_duration(longest)}"
        yield Checked(
            threshold=MAX_TIME,
            holds=slowest.summary.complete and time_s <= longest,
            pace=slowest.pace,
            found=found if slowest.summary.complete else f"not done after {as_duration(time_s)}",
        )
    if (most := wanted.max_inflow) is not None:
        twin, broker = _worst(twins, lambda use: -use.inflow)
        found = f"{as_rate(broker.inflow)} into broker {broker.broker}, at most {as_rate(most)}"
        holds = broker.inflow <= most * _ROUNDING
        yield Checked(threshold=MAX_INFLOW, holds=holds, pace=twin.pace, found=found)
    if (least := wanted.min_room) is not None:
        twin, broker = _worst(twins, lambda use: float(use.room))
        found = f"{as_bytes(broker.room)} on broker {broker.broker}, at least {as_bytes(least)}"
        yield Checked(threshold=MIN_ROOM, holds=broker.room >= least, pace=twin.pace, found=found)
    if (share := wanted.min_room_share) is not None:
        twin, broker = _worst(twins, _room_share)
        has = _room_share(broker)
        found = f"{has:.1%} of broker {broker.broker}'s disk, at least {share:.1%}"
        yield Checked(threshold=MIN_ROOM, holds=has >= share, pace=twin.pace, found=found)


_ROUNDING = 1 + 1e-9


def _to_the_end(twins: Sequence[RehearsedTwin]) -> Checked:
    worst = min(twins, key=lambda twin: twin.summary.done)
    summary = worst.summary
    found = f"{summary.done:,} of {summary.partitions:,} partitions at their target"
    why = f": {'; '.join(summary.why)}" if summary.why else ""
    return Checked(
        threshold=TO_THE_END, holds=summary.complete, pace=worst.pace, found=f"{found}{why}"
    )


def _room_share(use: BrokerUse) -> float:
    return use.room / use.disk if use.disk else 0.0


def _worst(
    twins: Sequence[RehearsedTwin], rank: Callable[[BrokerUse], float]
) -> tuple[RehearsedTwin, BrokerUse]:
    return min(
        ((twin, use) for twin in twins for use in twin.summary.brokers),
        key=lambda pair: rank(pair[1]),
    )
