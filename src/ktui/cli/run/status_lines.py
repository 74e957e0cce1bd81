"""Follow a run in plain lines, one a change: for screen readers and logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

import click

from ktui.cli.context.errors import FAILED
from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.ports import Verdict
from ktui.cluster.text import clean
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.forecast.progress_text import end_lines, progress_line
from ktui.execution.forecast.recorded_estimate import ProgressAsSeen
from ktui.execution.host.client import RunClient
from ktui.execution.journal.journal import RunFollower
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Configure,
    Configured,
    Elect,
    Ended,
    EngineLeft,
    JournalEntry,
    PlannedPart,
    SettingsFound,
)
from ktui.execution.run.text import event_sentence

_POLL_S = 0.5
PROGRESS_S = 30.0
"""Seconds between two lines of progress, at least."""


class RunLines:
    """A run in lines: each change of it once, and its progress now and then."""

    def __init__(self, client: RunClient, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._follower = RunFollower(client.folder.journal, self._clock)
        earlier = EarlierRuns.beside(client.folder)
        self._seen = ProgressAsSeen(client, earlier, self._clock)
        self._progress, self._progress_s = "", 0.0
        self._over = False

    @property
    def died(self) -> bool:
        """Whether the run has no engine, and its last engine gave no reason."""
        run = self._follower.run
        return self._over and not run.ended and run.left is None

    def begin(self) -> list[str]:
        """Return how the run stands, in a line; what has happened so far is not repeated."""
        self._read()
        self._progress_s = self._clock.monotonic()
        self._progress = self._progress_now()
        return [self._timed(self._progress)]

    def next(self) -> list[str]:
        """Return the lines of what has changed; those of the end once no engine has the run."""
        alive = self._client.owner is not None  # asked first: its last words come before
        lines = [_line(entry) for entry in self._read() if _is_change(entry.event)]
        if not alive:
            self._over = True
            return lines + self._end()
        if self._clock.monotonic() - self._progress_s >= PROGRESS_S:
            self._progress_s = self._clock.monotonic()
            before, self._progress = self._progress, self._progress_now()
            lines += [self._timed(self._progress)] if self._progress != before else []
        return lines

    @property
    def over(self) -> bool:
        """Whether nothing more follows."""
        return self._over

    def close(self) -> None:
        """Close the journal."""
        self._follower.close()

    def _read(self) -> list[JournalEntry]:
        return self._follower.refresh()

    def _progress_now(self) -> str:
        return progress_line(self._seen.of(self._follower.run))

    def _timed(self, words: str) -> str:
        return f"{self._clock.now().astimezone():%H:%M:%S} {clean(words)}"

    def _end(self) -> list[str]:
        run = self._follower.run
        died = [f"the engine of run {run.name} has died"] if self.died else []
        resume = [] if run.ended else [f"to resume it: ktui resume {run.name}"]
        return [*died, *map(clean, end_lines(run)), *resume]


def follow_lines(client: RunClient) -> int:
    """Print the lines of a run until no engine has it, and return the exit code."""
    lines = RunLines(client)
    try:
        _print(lines.begin())
        _print(lines.next())
        while not lines.over:
            time.sleep(_POLL_S)
            _print(lines.next())
    finally:
        lines.close()
    return FAILED if lines.died else 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)
    sys.stdout.flush()


def _line(entry: JournalEntry) -> str:
    return f"{entry.at.astimezone():%H:%M:%S} {event_sentence(entry.event)}"


def _is_change(event: AnyRunEvent) -> bool:
    """Whether an event is worth a line: intents, and requests that were accepted, are not.

    The end is told in lines of its own.
    """
    match event:
        case Answered() | Configured():
            return event.verdict is not Verdict.ACCEPTED
        case PlannedPart() | Elect() | SettingsFound() | Configure() | EngineLeft() | Ended():
            return False
    return True
