"""The run that the view is attached to, and what is known of it beside what polls see."""

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


class RunDesk:
    """Keeps at most one run attached, and its events among those of the cluster."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.attached: AttachedRun | None = None
        self._live: set[str] = set()
        self._came = 0
        self._merged: tuple[tuple[Event, ...], int, tuple[Event, ...]] = ((), 0, ())

    @property
    def idle(self) -> bool:
        """Whether no run is attached that a process carries on."""
        return self.attached is None or not self.attached.status.owned

    async def newcomers(self, state_dir: StateDir, cluster_id: str) -> list[str]:
        """Give the cluster's live runs that were not live at the last look, but the attached."""
        try:
            live = await asyncio.to_thread(live_runs, state_dir, cluster_id)
        except RunProblem:  # such as one that is just being taken: the next look tells
            return []
        known, self._live = self._live, {run.name for run in live}
        shown = set() if self.attached is None else {self.attached.name}
        return sorted(self._live - known - shown)

    async def attach(self, folder: RunDir) -> set[TopicPartition]:
        """Follow a run from now on, and give its partitions; reads all of its journal first.

        Raises:
            RunProblem: its journal cannot be opened.
        """
        attached, touched = await asyncio.to_thread(_opened, folder, self._clock)
        self.detach()
        self.attached = attached
        self._came += 1
        return touched

    def detach(self) -> None:
        """Follow no run any more."""
        if self.attached is not None:
            self.attached.close()
        self.attached = None
        self._came += 1

    def refresh(self, progress: Progress) -> set[TopicPartition]:
        """Read what is new of the run; give the partitions that stand otherwise."""
        if self.attached is None:
            return set()
        entries, touched = self.attached.refresh()
        self._came += bool(entries)
        self.attached.look(progress)
        return touched

    def among(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """Give the events of the cluster with the run's between them, by time."""
        if self.attached is None:
            return events
        known, came, merged = self._merged
        if known is not events or came != self._came:
            merged = tuple(heapq.merge(self.attached.news, events, key=attrgetter("at")))
            self._merged = (events, self._came, merged)
        return merged


def _opened(folder: RunDir, clock: Clock) -> tuple[AttachedRun, set[TopicPartition]]:
    attached = AttachedRun(folder, clock)
    _, touched = attached.refresh()
    return attached, touched


def unfinished(state_dir: StateDir, cluster_id: str) -> tuple[list[RunSummary], list[RunSummary]]:
    """Give the live runs of a cluster, and those that wait to be resumed.

    Raises:
        RunProblem: the state directory cannot be read.
    """
    runs = [run for run in all_runs(state_dir) if run.cluster_id == cluster_id]
    live = [run for run in runs if run.state in _LIVE]
    return live, [run for run in runs if run.state is RunState.RESUMABLE]
