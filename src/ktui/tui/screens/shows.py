"""The data that the app passes to its screens."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Progress
from ktui.tui.poll.outages import ClusterOutage
from ktui.tui.run_view.attached import AttachedRun


@runtime_checkable
class ShowsProgress(Protocol):
    """A screen that draws progress."""

    def show(self, progress: Progress, outage: ClusterOutage | None = None) -> None:
        """Show a new progress, or why the known one is no longer current."""
        ...


@runtime_checkable
class ShowsRun(Protocol):
    """A screen that draws a run."""

    def show_run(self, attached: AttachedRun | None, touched: set[TopicPartition]) -> None:
        """Show the present state of the run; `touched` are the partitions that changed in it."""
        ...
