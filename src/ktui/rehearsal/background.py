"""Rehearse a plan in processes of their own, while a view goes on."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager, redirect_stderr
from datetime import datetime
from multiprocessing import resource_tracker

from ktui.execution.errors import RunProblem
from ktui.execution.host.launch import NewRun
from ktui.rehearsal.prepare import Prepared, prepare
from ktui.rehearsal.twin import Pace, Twin
from ktui.rehearsal.twins import (
    LOST_PROCESS,
    RehearsedTwin,
    TwinTask,
    cores,
    ignore_interrupts,
    play_twin,
    twin_tasks,
)


async def rehearse_in_background(
    wanted: NewRun,
    twin: Twin,
    *,
    start: datetime,
    finished: Callable[[Pace], None],
) -> tuple[Prepared, tuple[RehearsedTwin, ...]]:
    """Check a plan against a twin, and rehearse it on the slow, the usual and the fast one.

    Cancelling this ends the processes.

    Args:
        wanted: the run.
        twin: the cluster with its range of copy rates.
        start: the wall time of the twins at the start of the run.
        finished: is called for each twin that has been played.

    Returns:
        The check, and the twins from the slowest to the fastest; none if a start would be refused.

    Raises:
        RunProblem: the system has ended one of the processes.
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
async def _processes(most: int) -> AsyncIterator[ProcessPoolExecutor]:
    """Make a pool of processes, none of which outlives the block.

    Raises:
        RunProblem: the system has ended one of the processes.
    """
    before = set(multiprocessing.active_children())
    with redirect_stderr(sys.__stderr__):  # a view has put one without a file in its place
        resource_tracker.ensure_running()
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(most, mp_context=context, initializer=ignore_interrupts)
    try:
        yield pool
    except BaseException as error:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise RunProblem(LOST_PROCESS) from None
        if isinstance(error, OSError):
            raise RunProblem(f"the processes of the rehearsal cannot be had: {error}") from None
        raise
    finally:
        await asyncio.to_thread(pool.shutdown, cancel_futures=True)
