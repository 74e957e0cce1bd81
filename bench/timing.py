"""Times whole processes and coroutines, in turn, so that a drifting machine is fair to both."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence


def process_seconds(argv: Sequence[str]) -> float:
    """Run a command to its end; its output is thrown away, a failure is an error."""
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=None)
    return time.perf_counter() - started


def processes_in_turn(commands: Sequence[Sequence[str]], runs: int) -> list[list[float]]:
    """Run every command once uncounted, then all in turn `runs` times; seconds per command."""
    for command in commands:
        process_seconds(command)
    taken: list[list[float]] = [[] for _ in commands]
    for _ in range(runs):
        for seconds, command in zip(taken, commands, strict=True):
            seconds.append(process_seconds(command))
    return taken


def deeds_in_turn(deeds: Sequence[Callable[[], object]], runs: int) -> list[list[float]]:
    """The same for what this process does."""
    for deed in deeds:
        deed()
    taken: list[list[float]] = [[] for _ in deeds]
    for _ in range(runs):
        for seconds, deed in zip(taken, deeds, strict=True):
            started = time.perf_counter()
            deed()
            seconds.append(time.perf_counter() - started)
    return taken


async def calls_in_turn(
    calls: Sequence[Callable[[], Awaitable[object]]], runs: int
) -> list[list[float]]:
    """The same for coroutines."""
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
    """The median, over the turns, of one's time to the other's."""
    return statistics.median(a / b for a, b in zip(one, other, strict=True))


def milliseconds(seconds: Sequence[float]) -> str:
    """A median with its range."""
    low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
    return f"{middle * 1000:.0f} ms ({low * 1000:.0f}-{high * 1000:.0f})"


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
