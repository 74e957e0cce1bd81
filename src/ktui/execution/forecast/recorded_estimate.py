"""Estimate a run's progress by what its engine has seen, for a process that does not poll."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from datetime import timedelta

from ktui.cluster.clock import Clock
from ktui.execution.forecast.estimate import NOT_KNOWN, Estimate
from ktui.execution.forecast.run_progress import RunProgress, run_progress
from ktui.execution.host.client import RunClient
from ktui.execution.host.kept import SeenPoll, replay_recording
from ktui.execution.host.state_dir import RunDir
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.run import Run
from ktui.execution.time_left.forecast import APART
from ktui.inputfile import FileProblem
from ktui.insights.prior import Prior

MOST_SEEN = 10_000
"""The most partition states to fold, the newest: a fraction of a second of work."""
_FORECASTS = timedelta(minutes=1)
"""The period whose forecasts show how certain the last one is; each simulates the run's rest."""
_FRESH = timedelta(seconds=30)
_FRESH_POLLS = 5
_READ_EVERY_S = 5.0

log = logging.getLogger(__name__)


def estimate_as_seen(
    folder: RunDir,
    entries: Sequence[JournalEntry],
    prior_of: Callable[[str], Prior | None],
    clock: Clock,
) -> Estimate:
    """Return the estimate of a run up to now, by its journal and the polls of its engine.

    A view that has watched the run shows the same. Without a recording the journal alone counts.

    Args:
        folder: the run's folder.
        entries: its journal.
        prior_of: returns the rates of earlier runs by cluster id.
        clock: the clock.
    """
    now = clock.now()
    run = Run(folder.name)
    estimate, taken, last = Estimate(run, prior_of), 0, None
    due = now - _FORECASTS
    try:
        for seen in replay_recording(folder, run, entries, clock, MOST_SEEN):
            estimate.take(seen.entries)
            estimate.update(seen.observation.at, seen.progress.timelines)
            if seen.observation.at >= due:
                _ = estimate.copied  # a forecast
                due = seen.observation.at + APART
            taken, last = taken + len(seen.entries), seen
    except FileProblem as problem:
        log.debug("the journal alone is used: %s", problem)
        last = None
    for entry in entries[taken:]:
        run.apply(entry)
    estimate.take(entries[taken:])
    if last is None or not _is_fresh(last, run, clock):
        estimate.update(now)
    else:
        estimate.update(now, last.progress.timelines)
    return estimate


class ProgressAsSeen:
    """The progress of a run, as its engine has seen it; estimated again every few seconds.

    Args:
        client: the run.
        prior_of: returns the rates of earlier runs by cluster id.
        clock: the clock.
    """

    def __init__(
        self, client: RunClient, prior_of: Callable[[str], Prior | None], clock: Clock
    ) -> None:
        self._client, self._prior_of, self._clock = client, prior_of, clock
        self._copied, self._read_s = NOT_KNOWN, -math.inf
        self._progress: RunProgress | None = None

    def of(self, run: Run) -> RunProgress:
        """Return the progress of the run, which is read from the same journal.

        Raises:
            RunProblem: the journal cannot be read.
        """
        if self._clock.monotonic() - self._read_s >= _READ_EVERY_S:
            entries = self._client.read().entries
            seen = estimate_as_seen(self._client.folder, entries, self._prior_of, self._clock)
            self._copied, self._read_s = seen.copied, self._clock.monotonic()
            self._progress = None
        if self._progress is None or self._progress.seq != run.seq:
            self._progress = run_progress(run, self._client.owner, copied=self._copied)
        return self._progress


def _is_fresh(seen: SeenPoll, run: Run, clock: Clock) -> bool:
    usual = timedelta(seconds=_FRESH_POLLS * run.poll_s)
    return clock.now() - seen.observation.at <= max(_FRESH, usual)
