"""Estimate a run's progress by what its engine has seen, for a process that does not poll."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta

from ktui.cluster.clock import Clock
from ktui.execution.forecast.estimate import Estimate
from ktui.execution.host.history import SeenPoll, replay_recording
from ktui.execution.host.state_dir import RunDir
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.run import Run
from ktui.fileproblem import FileProblem
from ktui.insights.prior import Prior

MOST_SEEN = 10_000
"""The most partition states to fold, the newest: a fraction of a second of work."""
_FORECASTS = timedelta(minutes=1)
"""The period whose forecasts show how certain the last one is; each simulates the run's rest."""
_FRESH = timedelta(seconds=30)
_FRESH_POLLS = 5

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
    try:
        for seen in replay_recording(folder, run, entries, clock, MOST_SEEN):
            estimate.take(seen.entries)
            estimate.update(seen.observation.at, seen.progress.timelines)
            if now - seen.observation.at <= _FORECASTS:
                _ = estimate.copied  # a forecast
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


def _is_fresh(seen: SeenPoll, run: Run, clock: Clock) -> bool:
    usual = timedelta(seconds=_FRESH_POLLS * run.poll_s)
    return clock.now() - seen.observation.at <= max(_FRESH, usual)
