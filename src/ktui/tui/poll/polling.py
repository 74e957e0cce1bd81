"""The one loop that polls the cluster while the app runs."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import chain
from typing import Protocol, runtime_checkable

from textual.message import Message

from ktui.cluster.asking import LONGEST_BACKOFF_S
from ktui.cluster.clock import Clock, wait_for_first
from ktui.cluster.errors import ClusterError, Unreachable
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, ObservationSource
from ktui.cluster.text import clean
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.tui.poll.backfill import merge_history
from ktui.tui.poll.outages import ClusterOutage, Outages
from ktui.tui.poll.overview import Overview, overview

_MANY = 200
"""With more partitions than this a fold would delay key presses, so it runs in a thread."""

_MOST_KEPT = 300
"""The most polls kept while a history is read."""

log = logging.getLogger(__name__)


class Polled(Message):
    """A poll was folded, or has failed as a whole; the loop has the result."""


@runtime_checkable
class PollLoop(Protocol):
    """The loop by which an app polls its cluster, and the only holder of what it has found."""

    @property
    def progress(self) -> Progress:
        """Everything that the polls have shown, up to the last one."""
        ...

    @property
    def overview(self) -> Overview:
        """The summary of that progress."""
        ...

    @property
    def outages(self) -> Outages:
        """The outages of the cluster, with the present one."""
        ...

    async def run(self) -> None:
        """Run until cancelled."""
        ...

    def poll_now(self) -> None:
        """Poll at once: the interest has changed."""
        ...

    def expect_history(self) -> None:
        """Keep the polls from now on for a history that is being read."""
        ...

    def add_history(self, past: Progress | None) -> None:
        """Start the history with what was seen before this loop started; None for nothing."""
        ...

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Read the settings of these topics and brokers again in the next poll."""
        ...


class Polling:
    """Polls, folds, and posts a message after each poll.

    The loop backs off while the cluster is lost, and never ends by itself.

    Args:
        source: the source of observations.
        clock: the clock.
        interval_s: seconds between the starts of two polls.
        interest: returns what the next poll is to include.
        post: receives a `Polled` after each poll.
        complete: completes a progress before the next fold with what only a run knows.
    """

    def __init__(
        self,
        source: ObservationSource,
        clock: Clock,
        interval_s: float,
        *,
        interest: Callable[[], Interest],
        post: Callable[[Message], object],
        complete: Callable[[Progress], Progress] = lambda progress: progress,
    ) -> None:
        self._source = source
        self._clock = clock
        self._interval_s = interval_s
        self._interest = interest
        self._post = post
        self._complete = complete
        self.progress, self.overview, self.outages = Progress(), Overview(), Outages()
        self._first: Observation | None = None
        self._past: Progress | None = None
        self._kept: deque[Observation] | None = None
        """The polls since a history is being read; None while none is."""
        self._failures = 0
        self._wake = asyncio.Event()

    def poll_now(self) -> None:
        """Poll at once instead of after the interval: the interest has changed."""
        self._wake.set()

    def expect_history(self) -> None:
        """Keep the polls from now on for a history that is being read."""
        if self._kept is None:
            last = self.progress.last
            self._kept = deque(() if last is None else (last,), maxlen=_MOST_KEPT)

    def add_history(self, past: Progress | None) -> None:
        """Start the history with what was seen before this loop started, and poll at once."""
        if past is None:
            self._kept = None
            return
        self._past = past
        self.poll_now()

    def poll_every(self, interval_s: float) -> None:
        """Poll at another interval from now on."""
        self._interval_s = interval_s
        self.poll_now()

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Read the settings of these topics and brokers again in the next poll."""
        self._source.settings_changed(topics, brokers)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            started = self._clock.monotonic()
            self._wake.clear()
            await self._poll_once()
            took = self._clock.monotonic() - started
            await self._wait(max(0.0, self._pause_s - took))

    @property
    def _pause_s(self) -> float:
        """The interval; doubled with each failure up to the longest back-off."""
        return max(
            self._interval_s,
            min(LONGEST_BACKOFF_S, self._interval_s * 2.0 ** min(self._failures, 16)),
        )

    async def _poll_once(self) -> None:
        try:
            observation = await self._source.poll(self._interest())
            past = self._past
            before = self._complete(await self._merged(past))
            folded = await self._fold(before, observation)
        except ClusterError as error:
            self._lose(_reason(error), str(error))
        except Exception as error:  # a defect does not end the view, which reports it
            log.exception("the poll failed in a way that was not foreseen")
            words = f"ktui's own error: {type(error).__name__}: {error}"
            self._lose(words, words)
        else:
            self._first = self._first or observation
            if past is not None and self._past is past:
                self._past = self._kept = None
            elif self._kept is not None:  # a history is being read, or came during this poll
                self._kept.append(observation)
            self._failures = 0
            self.progress, self.overview = folded
            self.outages.answered(observation.at, observation.monotonic_s)
            self._post(Polled())

    async def _merged(self, past: Progress | None) -> Progress:
        if past is None:
            return self.progress
        polls = tuple(self._kept or ())
        merged = partial(
            merge_history, past, self.progress, self._first, polls, complete=self._complete
        )
        if len(polls) * len(past.timelines) > _MANY:
            return await asyncio.to_thread(merged)
        return merged()

    @staticmethod
    async def _fold(before: Progress, observation: Observation) -> tuple[Progress, Overview]:
        if len(observation.partitions) + len(before.timelines) > _MANY:
            return await asyncio.to_thread(_fold_poll, before, observation)
        return _fold_poll(before, observation)

    def _lose(self, reason: str, details: str) -> None:
        self._failures += 1
        last = self.progress.last
        self.outages.lost(
            ClusterOutage(_in_one_line(reason), _in_one_line(details)),
            self._clock.now(),
            None if last is None else last.monotonic_s,
            self._clock.monotonic(),
        )
        self._post(Polled())

    async def _wait(self, seconds: float) -> None:
        await wait_for_first(self._clock.sleep(seconds), self._wake.wait())


def _reason(error: ClusterError) -> str:
    """Return the most specific part that stays the same from poll to poll, unlike the address."""
    if isinstance(error, Unreachable) and error.answer:
        return error.answer
    return ": ".join(filter(None, (error.summary, error.answer)))


def _in_one_line(words: str) -> str:
    return clean(" ".join(words.split()))


def _fold_poll(progress: Progress, observation: Observation) -> tuple[Progress, Overview]:
    folded = fold(progress, observation)
    return folded, overview(folded)


def unite(interests: Iterable[Interest]) -> Interest:
    """Return the interest in everything that any of these covers."""
    every = list(interests)
    return Interest(
        topics=frozenset(chain.from_iterable(each.topics for each in every)),
        partitions=frozenset(chain.from_iterable(each.partitions for each in every)),
        fresh=any(each.fresh for each in every),
        unhealthy=any(each.unhealthy for each in every),
        census=any(each.census for each in every),
        log_dirs=any(each.log_dirs for each in every),
        health=any(each.health for each in every),
    )
