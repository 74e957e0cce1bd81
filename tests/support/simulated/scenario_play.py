"""A scenario played on a virtual clock, with the polls and progress of the demo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ktui.cluster.observer import Observer
from ktui.progress.fold import fold
from ktui.progress.timeline import Phase, Progress
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.scenario.file import Scenario
from ktui.simulated.scenario.submission import Refusals, submit_plan

UNDER_WAY = {Phase.MOVING, Phase.STALLED, Phase.SETTLING}


class Play:
    """A scenario under way."""

    def __init__(self, scenario: Scenario, *, seed: int = 0) -> None:
        assert scenario.plan is not None
        self.scenario = scenario
        self.clock = VirtualClock()
        self.cluster = SimulatedCluster(scenario.spec, self.clock, seed=seed)
        for due in scenario.faults:
            self.cluster.schedule(due)
        self.observer = Observer(self.cluster.reader(), self.clock)
        self.plan: asyncio.Task[Refusals] = asyncio.create_task(
            submit_plan(scenario.plan, scenario.spec, self.cluster.writer(), self.clock)
        )
        self.progress = Progress()

    async def watch(self, real_s: float) -> AsyncIterator[Progress]:
        """Poll once in each of `real_s` seconds of a viewer."""
        until = self.clock.monotonic() + real_s * self.scenario.speed
        while self.clock.monotonic() < until:
            await self.clock.advance(self.scenario.speed)
            self.progress = fold(self.progress, await self.observer.poll())
            yield self.progress

    async def watch_to_the_end(self) -> AsyncIterator[Progress]:
        """Poll until all events have happened and nothing moves any more."""
        last_s = max((due.at_s for due in self.scenario.faults), default=0.0)
        async for progress in self.watch(300):
            yield progress
            begun = bool(progress.timelines) and self.clock.monotonic() > last_s
            if begun and not phases(progress) & UNDER_WAY:
                return
        raise AssertionError(f"something moves for ever: {phases(self.progress)}")


def phases(progress: Progress) -> set[Phase]:
    return {timeline.phase for timeline in progress.timelines.values()}


@asynccontextmanager
async def playing(scenario: Scenario, *, seed: int = 0) -> AsyncIterator[Play]:
    """Play a scenario, and close everything at the end."""
    play = Play(scenario, seed=seed)
    try:
        yield play
    finally:
        play.plan.cancel()
        await play.observer.aclose()
        await asyncio.gather(play.plan, return_exceptions=True)
