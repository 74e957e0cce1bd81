"""The offer to resume a run that has not ended and has no engine."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ktui.execution.host.catalog import RunSummary
from ktui.tui.draw import format as figures
from ktui.tui.widgets.bindings import give_ids


class ResumeChoice(enum.Enum):
    """What the operator wants to do with the run."""

    RESUME = enum.auto()
    LOOK = enum.auto()
    NOT_NOW = enum.auto()


class ResumeOfferScreen(ModalScreen[ResumeChoice]):
    """Offers to resume the run that was started last.

    Args:
        waiting: the runs that wait to be resumed, the last one started first.
        problem: why no run can be resumed from here; None if one can.
    """

    CSS = """
    ResumeOfferScreen {
        align: center middle;
        & > Vertical {
            width: 76%; min-width: 60; max-width: 90; height: auto; padding: 1 2;
            border: round $warning; background: $surface;
        }
        & #offer-title { text-style: bold; margin-bottom: 1; }
        & #offer-keys { color: $dim; margin-top: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "choose('RESUME')", "resume now", tooltip="Start an engine for it"),
        Binding("enter", "choose('LOOK')", "show it", tooltip="Show it as it was left"),
        Binding("escape,q", "choose('NOT_NOW')", "not now", tooltip="Leave it as it is"),
    ]
    give_ids("offer", BINDINGS)

    def __init__(self, waiting: Sequence[RunSummary], problem: str | None) -> None:
        super().__init__()
        self._waiting, self._problem = waiting, problem

    def compose(self) -> ComposeResult:
        """Lay out the waiting run, the number of others, and the keys."""
        run, more = self._waiting[0], len(self._waiting) - 1
        with Vertical():
            yield Static(Content(f"Run {run.name} waits to be resumed"), id="offer-title")
            yield Static(Content(_words(run)))
            if more:
                others = figures.as_count(more, "other run")
                yield Static(Content(f"{others} of this cluster wait, too: r shows them."))
            if self._problem:
                yield Static(Content(f"\n{self._problem}\nktui resume {run.name} resumes it."))
            resume = "" if self._problem else "R  resume now      "
            yield Static(f"{resume}enter  show it      esc  not now", id="offer-keys")

    def action_choose(self, choice: str) -> None:
        """Return the answer, unless it is to resume and that is not possible here."""
        chosen = ResumeChoice[choice]
        if chosen is not ResumeChoice.RESUME or self._problem is None:
            self.dismiss(chosen)


def _words(run: RunSummary) -> str:
    since = "" if run.started_at is None else f", started at {figures.as_time(run.started_at)}"
    return (
        f"{run.over:,} of its {figures.as_count(run.partitions, 'partition')} have ended{since}."
        " It has no engine; Kafka goes on only with what was in flight."
    )
