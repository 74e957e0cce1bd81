"""CPU time of a poll of a real cluster, its fold and its frame, with 10,000 partitions moving."""

from __future__ import annotations

import asyncio
import statistics
import time

from textual.pilot import Pilot

from bench.checks import check_count
from bench.clusters import moving
from bench.cockpit import Cockpit, settled
from ktui.cli.output.view import rare_collections
from ktui.cluster.clock import SystemClock
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, Observer, SourceWrapper
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.lab.layout import Lab

MOVING = 10_000
POLLS = 10
SIZE = (200, 60)
WAIT_S = 600.0
"""Seconds within which the cluster must have made all the replicas."""


class OnePoll(SourceWrapper):
    """Polls only when the benchmark wants it, and notes the CPU time at the start of each."""

    def __init__(self, observer: Observer) -> None:
        super().__init__(observer)
        self.wanted = asyncio.Event()
        self.began_cpu_s = self.answered_cpu_s = 0.0

    async def poll(self, interest: Interest) -> Observation:
        """Poll once it is wanted.

        Raises:
            ClusterError: the cluster does not answer.
        """
        await self.wanted.wait()
        self.wanted.clear()
        self.began_cpu_s = time.process_time()
        seen = await super().poll(interest)
        self.answered_cpu_s = time.process_time()
        return seen


def run(lab: Lab) -> None:
    """Print the figures."""
    with moving(lab, MOVING):
        taken = asyncio.run(_measure(lab.bootstrap_servers.split(",")[0]))
    polls, frames = zip(*taken, strict=True)
    both = [poll + frame for poll, frame in taken]
    print(
        f"{MOVING:,} moving on a real cluster: a poll {statistics.median(polls):.2f} s of CPU, its "
        f"fold and frame {statistics.median(frames):.2f} s, together "
        f"{statistics.median(both):.2f} s, worst {max(both):.2f} s (aim: at most 1 s); "
        "left out: the brokers' own time, and the wait for their answers"
    )


async def _measure(bootstrap: str) -> list[tuple[float, float]]:
    """Return the CPU seconds of each poll, and of its fold and frame."""
    reader = KafkaReader(Connection.to(bootstrap))
    source = OnePoll(Observer(reader, SystemClock(), patience_s=30.0))
    app = Cockpit(source, clock=SystemClock())
    with rare_collections():
        taken = await _polls(app, source)
    await reader.aclose()
    return taken


async def _polls(app: Cockpit, source: OnePoll) -> list[tuple[float, float]]:
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        async with asyncio.timeout(WAIT_S):
            while _moves(app) < MOVING:
                await _one(app, source, pilot)
                await asyncio.sleep(1)
        taken = []
        for _ in range(POLLS):
            await pilot.pause()
            await asyncio.sleep(1)
            await _one(app, source, pilot)
            check_count("moves in a poll", _moves(app), MOVING)
            check_count("rows", len(app.watch_screen.partition_list.arrangement.rows), MOVING)
            polled_s = source.answered_cpu_s - source.began_cpu_s
            taken.append((polled_s, app.painted_cpu_s - source.answered_cpu_s))
    return taken


def _moves(app: Cockpit) -> int:
    last = app.progress.last
    return 0 if last is None else sum(bool(each.adding) for each in last.partitions.values())


async def _one(app: Cockpit, source: OnePoll, pilot: Pilot[None]) -> None:
    """Poll once, and wait until the poll is on the screen."""
    before = app.progress.last
    source.wanted.set()
    while app.progress.last is before:  # noqa: ASYNC110 - the app sends nothing to the bench
        await asyncio.sleep(0.01)
    await settled(app, pilot)
