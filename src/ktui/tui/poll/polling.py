"""The one loop that looks at the cluster while the app runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Protocol, runtime_checkable

from textual.message import Message

from ktui.cluster.clock import Clock, wait_for_first
from ktui.cluster.errors import ClusterError, Unreachable
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, ObservationSource
from ktui.cluster.text import clean
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.tui.poll.backfill import joined
from ktui.tui.poll.outages import ClusterOutage
from ktui.tui.poll.overview import Overview, overview

LONGEST_BACKOFF_S = 5.0
_MANY = 200
"""Partitions from which on folding would be felt under the fingers; it goes into a thread."""

log = logging.getLogger(__name__)


class Polled(Message):
    """A poll was answered and folded."""

    def __init__(self, progress: Progress, overview: Overview) -> None:
        super().__init__()
        self.progress = progress
        self.overview = overview


class PollFailed(Message):
    """A poll failed as a whole; the loop goes on trying."""

    def __init__(self, outage: ClusterOutage) -> None:
        super().__init__()
        self.outage = outage


@runtime_checkable
class Looking(Protocol):
    """The loop by which an app sees its cluster."""

    async def run(self) -> None:
        """Go on until cancelled."""
        ...

    def look_now(self) -> None:
        """Look at once: the interest has changed."""
        ...

    def begin_with(self, past: Progress) -> None:
        """Take what was seen before this loop began as what it begins with."""
        ...

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Have the settings of topics and brokers read again in the next look."""
        ...


class Polling:
    """Polls, folds, tells; backs off while the cluster is lost, and never ends by itself."""

    def __init__(
        self,
        source: ObservationSource,
        clock: Clock,
        interval_s: float,
        *,
        interest: Callable[[], Interest],
        tell: Callable[[Message], object],
        informed: Callable[[Progress], Progress] = lambda progress: progress,
    ) -> None:
        self._source = source
        self._clock = clock
        self._interval_s = interval_s
        self._interest = interest
        self._tell = tell
        self._informed = informed
        self._progress = Progress()
        self._first: Observation | None = None
        self._past: Progress | None = None
        self._failures = 0
        self._wake = asyncio.Event()

    def look_now(self) -> None:
        """Poll at once rather than when the interval has passed: the interest has changed."""
        self._wake.set()

    def begin_with(self, past: Progress) -> None:
        """Take what was seen before this loop began as what it begins with, at once."""
        self._past = past
        self.look_now()

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Have the settings of topics and brokers read again in the next poll."""
        self._source.settings_changed(topics, brokers)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            started = self._clock.monotonic()
            self._wake.clear()
            await self._look()
            took = self._clock.monotonic() - started
            await self._wait(max(0.0, self._pause_s - took))

    @property
    def _pause_s(self) -> float:
        """The interval; doubled with each failure up to the longest back-off."""
        return max(
            self._interval_s,
            min(LONGEST_BACKOFF_S, self._interval_s * 2.0 ** min(self._failures, 16)),
        )

    async def _look(self) -> None:
        try:
            observation = await self._source.poll(self._interest())
            self._progress = self._informed(self._with_past())
            polled = await self._taken_in(observation)
        except ClusterError as error:
            self._lost(_reason(error), str(error))
        except Exception as error:  # the view outlives a defect, and names it
            log.exception("the poll failed in a way that was not foreseen")
            words = f"ktui's own error: {type(error).__name__}: {error}"
            self._lost(words, words)
        else:
            self._first = self._first or observation
            self._failures = 0
            self._progress = polled.progress
            self._tell(polled)

    def _with_past(self) -> Progress:
        past, self._past = self._past, None
        return self._progress if past is None else joined(past, self._progress, self._first)

    async def _taken_in(self, observation: Observation) -> Polled:
        if len(observation.partitions) + len(self._progress.timelines) > _MANY:
            return await asyncio.to_thread(_folded, self._progress, observation)
        return _folded(self._progress, observation)

    def _lost(self, reason: str, details: str) -> None:
        self._failures += 1
        self._tell(PollFailed(ClusterOutage(_in_one_line(reason), _in_one_line(details))))

    async def _wait(self, seconds: float) -> None:
        await wait_for_first(self._clock.sleep(seconds), self._wake.wait())


def _reason(error: ClusterError) -> str:
    """Give what tells most and does not change from poll to poll, as the place asked does."""
    if isinstance(error, Unreachable) and error.answer:
        return error.answer
    return ": ".join(filter(None, (error.summary, error.answer)))


def _in_one_line(words: str) -> str:
    return clean(" ".join(words.split()))


def _folded(progress: Progress, observation: Observation) -> Polled:
    folded = fold(progress, observation)
    return Polled(folded, overview(folded))
