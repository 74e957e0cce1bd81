"""The rates of earlier runs on a cluster: what its last runs have shown, or insights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import msgspec

from ktui.cluster.clock import SystemClock
from ktui.execution import RunProblem
from ktui.execution.host.kept import read_kept
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry, Started, StepOver
from ktui.execution.run.run import Run
from ktui.execution.time_left.rest import leader_of
from ktui.insights import Prior, insights_of
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.speed.capacity import Capacity, CapacityMemory
from ktui.speed.copies import Pair
from ktui.speed.shown import SpeedShown, prior_of, received_by

LAST = 5
"""So many runs of a cluster count, the last ones. On the labs of `bench/forecast` one run alone
gives twice the error of three, and more than five change nothing."""
_MOST_BYTES = 16 * 1024**2  # larger journals (20,000 partitions) would take seconds to read
_MOST_COPIES = 2_000  # the last copies of a journal that count: a fraction of a second of work


class EarlierRuns:
    """Look up earlier runs' rates by cluster id, without those of the run `without`."""

    def __init__(self, state: StateDir, without: str | None = None) -> None:
        self._state = state
        self._without = without

    @classmethod
    def beside(cls, run: RunDir) -> EarlierRuns:
        return cls(StateDir(run.path.parent.parent), without=run.name)

    def __call__(self, cluster_id: str) -> Prior | None:
        """Return the rates of earlier runs on a cluster; None if there are none.

        The last runs show more of the next one than insights do (docs/insights.md), unless they
        lack what insights have: newer moves, or copies that no throttle held up.
        """
        insights = insights_of(self._state.path, cluster_id)
        runs = prior_of(list(self._last_runs(cluster_id)))
        prior = None if insights is None else insights.prior
        if insights is None or prior is None:
            return runs
        return runs if runs and not _lacks(runs, prior, insights.ended) else prior

    def _last_runs(self, cluster_id: str) -> Iterator[SpeedShown]:
        try:
            folders = [run for run in self._state.run_dirs() if run.name != self._without]
        except RunProblem:
            return
        left = LAST
        for run in sorted(folders, key=_changed_ns, reverse=True):
            shown = read_kept(run.speed) or _by_journal(run.journal, cluster_id, _changed_ns(run))
            if shown is not None and shown.cluster_id == cluster_id and shown.received:
                yield shown
                left -= 1
            if not left:
                return


def _lacks(runs: Prior, prior: Prior, ended: datetime | None) -> bool:
    newer = ended is not None and runs.at is not None and ended > runs.at
    return newer or (prior.curve.known_to is None and runs.curve.known_to is not None)


def _changed_ns(run: RunDir) -> int:
    """When a run has last changed what its folder has of it; 0 for no run."""
    for path in (run.speed, run.journal):
        try:
            return path.stat().st_mtime_ns
        except OSError:
            continue
    return 0


@lru_cache(64)
def _by_journal(path: Path, cluster_id: str, _changed: int) -> SpeedShown | None:
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        with Journal.open(path, SystemClock(), read_only=True) as journal:
            first = journal.first()
            if first is None or not isinstance(first.event, Started):
                return None
            if first.event.cluster_id != cluster_id:
                return None
            return shown_by_journal(path.parent.name, journal.entries())
    except (OSError, RunProblem, LookupError):
        return None


def shown_by_journal(name: str, entries: Iterable[JournalEntry]) -> SpeedShown | None:
    """Return what a journal alone shows, each copy as if it had gone on evenly."""
    run, copies = Run(name), list[_Copy]()
    throttles: list[tuple[datetime, ThrottleRates]] = []
    for entry in entries:
        copies += _ended_copies(entry, run)
        run.apply(entry)
        if not throttles or run.throttled.in_force != throttles[-1][1]:
            throttles.append((entry.at, run.throttled.in_force))
    if run.started is None or not copies:
        return None
    copies = copies[-_MOST_COPIES:]
    memory = CapacityMemory()
    _learn(Capacity(memory=memory), copies, throttles)
    return SpeedShown(
        cluster_id=run.started.cluster_id,
        at=copies[-1].ended,
        received=received_by(memory),
        largest=max(copy.size for copy in copies),
    )


class _Copy(msgspec.Struct, frozen=True):
    began: datetime
    ended: datetime
    pair: Pair
    size: int

    @property
    def bytes_s(self) -> float:
        return self.size / (self.ended - self.began).total_seconds()


def _ended_copies(entry: JournalEntry, run: Run) -> Iterator[_Copy]:
    """Yield the copies of a step that an event ends, which the run has not applied yet."""
    event, at = entry.event, entry.at
    if not isinstance(event, StepOver) or not event.reached:
        return
    track = run.tracks[event.tp]
    if track.step is not None and track.step.at < at:
        for broker in track.step.begun.adding:
            pair = leader_of(track.step), broker
            yield _Copy(track.step.at, at, pair, track.planned.size)


def _learn(
    capacity: Capacity, copies: Iterable[_Copy], throttles: list[tuple[datetime, ThrottleRates]]
) -> None:
    waiting = sorted(copies, key=lambda copy: copy.began, reverse=True)
    moments = sorted({moment for copy in waiting for moment in (copy.began, copy.ended)})
    going: list[_Copy] = []
    for since, until in pairwise(moments):
        going = [copy for copy in going if copy.ended > since]
        while waiting and waiting[-1].began <= since:
            going.append(waiting.pop())
        seconds = (until - since).total_seconds()
        throttle = next((rates for at, rates in reversed(throttles) if at <= since), NO_THROTTLE)
        capacity.learn([(copy.pair, copy.bytes_s * seconds) for copy in going], seconds, throttle)
