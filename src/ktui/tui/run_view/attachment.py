"""The run that the view is attached to, and its events among those of the polls."""

from __future__ import annotations

import asyncio
import heapq
from operator import attrgetter

from ktui.cluster.clock import Clock
from ktui.cluster.partition import TopicPartition
from ktui.execution.errors import RunProblem
from ktui.execution.host.catalog import RunState, RunSummary, all_runs
from ktui.execution.host.ownership import live_runs
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.progress.timeline import Event, Progress
from ktui.tui.run_view.attached import AttachedRun

_LIVE = (RunState.RUNNING, RunState.PAUSED, RunState.GATED)


class AttachedRunSlot:
    """Keeps at most one run attached, and merges its events with those of the cluster."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.attached: AttachedRun | None = None
        self._live: set[str] = set()
        self._changes = 0
        self._merged: tuple[tuple[Event, ...], int, tuple[Event, ...]] = ((), 0, ())

    @property
    def idle(self) -> bool:
        """Whether no live run is attached."""
        return self.attached is None or not self.attached.status.owned

    async def newcomers(self, state_dir: StateDir, cluster_id: str) -> list[str]:
        """Return the cluster's runs that went live since the last call, except the attached one."""
        try:
            live = await asyncio.to_thread(live_runs, state_dir, cluster_id)
        except RunProblem:  # such as a run that is just being taken over: the next call finds it
            return []
        known, self._live = self._live, {run.name for run in live}
        shown = set() if self.attached is None else {self.attached.name}
        return sorted(self._live - known - shown)

    async def attach(self, folder: RunDir) -> set[TopicPartition]:
        """Follow a run, and return its partitions, after reading its whole journal.

        Raises:
            RunProblem: its journal cannot be opened.
        """
        attached, touched = await asyncio.to_thread(_open, folder, self._clock)
        self.detach()
        self.attached = attached
        self._changes += 1
        return touched

    def detach(self) -> None:
        """Stop following the run."""
        if self.attached is not None:
            self.attached.close()
        self.attached = None
        self._changes += 1

    def refresh(self, progress: Progress) -> set[TopicPartition]:
        """Read the run's new entries; return the partitions that have changed."""
        if self.attached is None:
            return set()
        entries, touched = self.attached.refresh()
        self._changes += bool(entries)
        self.attached.look(progress)
        return touched

    def among(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """Return the events of the cluster with the run's merged in, by time."""
        if self.attached is None:
            return events
        known, changes, merged = self._merged
        if known is not events or changes != self._changes:
            merged = tuple(heapq.merge(self.attached.news, events, key=attrgetter("at")))
            self._merged = (events, self._changes, merged)
        return merged


def _open(folder: RunDir, clock: Clock) -> tuple[AttachedRun, set[TopicPartition]]:
    attached = AttachedRun(folder, clock)
    _, touched = attached.refresh()
    return attached, touched


def live_and_resumable(
    state_dir: StateDir, cluster_id: str
) -> tuple[list[RunSummary], list[RunSummary]]:
    """Return the live runs of a cluster, and those that wait to be resumed.

    Raises:
        RunProblem: the state directory cannot be read.
    """
    runs = [run for run in all_runs(state_dir) if run.cluster_id == cluster_id]
    live = [run for run in runs if run.state in _LIVE]
    return live, [run for run in runs if run.state is RunState.RESUMABLE]
