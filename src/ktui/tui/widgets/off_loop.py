"""Work beside the event loop, and ktui's own errors in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from textual import on
from textual.dom import DOMNode
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from ktui.tui.widgets.services import services


class ReportsOwnErrors(DOMNode):
    """A screen whose failed workers the app reports like its own.

    Textual sends a worker's changes to the node that has started it, and to no other. This is the
    last base of the screen: Textual looks for styles along the first one.
    """

    @on(Worker.StateChanged)
    def _report_own_error(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            services(self).report_own_error(event.worker)


C = TypeVar("C")
R = TypeVar("R")

FEW = 1_000  # with more partitions than this, working on all of them delays keys


class OffLoop(Generic[C, R]):
    """Computes what a widget shows after each change, and shows it on the loop.

    One change is worked on at a time. Those that come meanwhile wait, and are united. `compute`
    alters nothing that the loop reads.
    """

    def __init__(
        self,
        widget: Widget,
        compute: Callable[[C], R],
        show: Callable[[C, R], None],
        unite: Callable[[C, C], C],
    ) -> None:
        self._widget, self._compute, self._show, self._unite = widget, compute, show, unite
        self._under_way: C | None = None
        self._waiting: C | None = None

    @property
    def busy(self) -> bool:
        return self._under_way is not None

    @property
    def not_shown(self) -> tuple[C, ...]:
        return tuple(each for each in (self._under_way, self._waiting) if each is not None)

    def submit(self, change: C, partitions: int) -> None:
        if self.busy:
            waiting = self._waiting
            self._waiting = change if waiting is None else self._unite(waiting, change)
        elif partitions > FEW:
            self._under_way = change
            self._widget.run_worker(self._work(), group="off-loop")
        else:
            self._show(change, self._compute(change))

    async def _work(self) -> None:
        while (change := self._under_way) is not None:
            result = await asyncio.to_thread(self._compute, change)
            self._under_way, self._waiting = self._waiting, None
            self._show(change, result)
