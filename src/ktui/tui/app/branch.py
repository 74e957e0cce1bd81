"""The app on a branch: a twin of a moment of a recording, beside what was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import BindingType

from ktui.captions import Caption
from ktui.cluster.observer import Observer
from ktui.progress.timeline import Progress
from ktui.tui.app.rehearsal import RehearsalApp
from ktui.tui.run_view.launchers import BranchInView
from ktui.tui.widgets.header import StatusHeader, line_under
from ktui.tui.widgets.lines import BranchLines

_TICK_S = 0.5
"""Real seconds between two redraws of the lines."""


class BranchApp(RehearsalApp):
    """Shows a branch; every screen has what was and what is here under its header.

    Args:
        observer: polls the twin.
        branch: the branch.
        before: what was polled before the moment of the branch.
        how: further arguments of `RehearsalApp`.
    """

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self, observer: Observer, *, branch: BranchInView, before: Progress, **how: Any
    ) -> None:
        super().__init__(observer, rehearsal=branch, **how)
        self._branch, self._before = branch, before
        self.watch_screen.when_quiet = (
            "This cluster is a simulated twin of a moment of a recording.",
            "i  what was, and what is here\nB  break it\nR  go back to the moment",
        )

    def on_ready(self) -> None:
        super().on_ready()
        self.add_history(self._before)
        self.set_interval(_TICK_S, self._draw_lines)

    @property
    def captions(self) -> Sequence[Caption]:
        return ()

    def _draw_lines(self) -> None:
        attached = self.attached
        was, here = self._branch.beside(None if attached is None else attached.run)
        for screen in self.screen_stack:
            for header in screen.query(StatusHeader):
                line_under(header, BranchLines).show(was, here)

    def push_screen(self, *args: Any, **how: Any) -> Any:
        opened = super().push_screen(*args, **how)
        self.call_after_refresh(self._draw_lines)
        return opened

    def action_quit_view(self) -> None:
        self.exit(message=Text(""))
