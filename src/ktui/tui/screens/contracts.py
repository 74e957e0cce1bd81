"""What screens may offer to the app: it notifies them, and asks them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.tui.run_view.attached import AttachedRun


@runtime_checkable
class ShowsProgress(Protocol):
    """A screen that draws the progress of the polls, which it asks of the `Services`."""

    def show_progress(self) -> None: ...


@runtime_checkable
class ShowsRun(Protocol):
    """A screen that draws a run."""

    def show_run(self, attached: AttachedRun | None, touched: set[TopicPartition]) -> None: ...


@runtime_checkable
class NeedsPolls(Protocol):
    """A screen that needs more from polls than the partitions being reassigned."""

    @property
    def interest(self) -> Interest: ...


@runtime_checkable
class ShowsPartition(Protocol):
    """A screen on which the operator has selected a partition."""

    @property
    def partition(self) -> TopicPartition | None: ...
