"""Time processes, functions and coroutines in turn, so that a drifting machine is fair to all."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence

AS_INSTALLED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""The environment of timed commands: an installed ktui does not compile its modules at each start,
as it would here, while the libraries beside it would not."""


def process_seconds(argv: Sequence[str]) -> float:
    """Run a command to its end, without its output, and return the seconds it took.

    Raises:
        CalledProcessError: the command failed.
    """
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=AS_INSTALLED)
    return time.perf_counter() - started


def processes_in_turn(commands: Sequence[Sequence[str]], runs: int) -> list[list[float]]:
    """Run every command once uncounted, then all in turn `runs` times.

    Returns:
        For each command the seconds of each run.
    """
    for command in commands:
        process_seconds(command)
    taken: list[list[float]] = [[] for _ in commands]
    for _ in range(runs):
        for seconds, command in zip(taken, commands, strict=True):
            seconds.append(process_seconds(command))
    return taken


def deeds_in_turn(actions: Sequence[Callable[[], object]], runs: int) -> list[list[float]]:
    """Time functions of this process as `processes_in_turn` times commands."""
    for action in actions:
        action()
    taken: list[list[float]] = [[] for _ in actions]
    for _ in range(runs):
        for seconds, action in zip(taken, actions, strict=True):
            started = time.perf_counter()
            action()
            seconds.append(time.perf_counter() - started)
    return taken


async def calls_in_turn(
    calls: Sequence[Callable[[], Awaitable[object]]], runs: int
) -> list[list[float]]:
    """Time coroutines as `processes_in_turn` times commands."""
    for call in calls:
        await call()
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(runs):
        for seconds, call in zip(taken, calls, strict=True):
            started = time.perf_counter()
            await call()
            seconds.append(time.perf_counter() - started)
    return taken


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the median, over the turns, of the ratio of one's time to the other's."""
    return statistics.median(a / b for a, b in zip(one, other, strict=True))


def milliseconds(seconds: Sequence[float]) -> str:
    """Format a median with its range, in milliseconds."""
    low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
    return f"{middle * 1000:.0f} ms ({low * 1000:.0f}-{high * 1000:.0f})"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
