"""Defects in what a screen does in the background."""

from __future__ import annotations

from textual import on
from textual.dom import DOMNode
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
