"""The offer to resume a run that has not ended and has no engine."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from ktui.execution.forecast.run_progress import RunProgress
from ktui.tui.draw import format as figures
from ktui.tui.screens.dialog import Dialog
from ktui.tui.widgets.bindings import give_ids


class ResumeChoice(enum.Enum):
    """What the operator wants to do with the run."""

    RESUME = enum.auto()
    LOOK = enum.auto()
    NOT_NOW = enum.auto()


class ResumeOfferScreen(Dialog[ResumeChoice]):
    """Offers to resume the run that was started last.

    Args:
        waiting: the runs that wait to be resumed, the last one started first.
        problem: why no run can be resumed from here; None if one can.
    """

    DEFAULT_CSS = "ResumeOfferScreen > .dialog { border: round $warning; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "choose('RESUME')", "resume now", tooltip="Start an engine for it"),
        Binding(
            "enter", "choose('LOOK')", "show it", key_display="↵",
            tooltip="Show it as it was left",
        ),
        Binding(
            "escape,q", "choose('NOT_NOW')", "not now", key_display="esc",
            tooltip="Leave it as it is",
        ),
    ]  # fmt: skip
    give_ids("offer", BINDINGS)

    def __init__(self, waiting: Sequence[RunProgress], problem: str | None) -> None:
        super().__init__(f"Run {waiting[0].name} waits to be resumed")
        self._waiting, self._problem = waiting, problem

    def body(self) -> ComposeResult:
        """Lay out the waiting run, the number of others, and why it cannot be resumed here."""
        yield Static(Content("\n\n".join(self._paragraphs())))

    def _paragraphs(self) -> Iterator[str]:
        run, more = self._waiting[0], len(self._waiting) - 1
        yield _words(run)
        if run.extra_replicas is not None:
            yield f"{run.extra_replicas}."
        if more:
            others = figures.as_count(more, "other run")
            wait = "waits" if more == 1 else "wait"
            yield f"{others} of this cluster {wait}, too: r shows all runs."
        if self._problem:
            yield f"{self._problem}\nktui resume {run.name} resumes it."

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "choose" or parameters != ("RESUME",) or self._problem is None

    def action_choose(self, choice: str) -> None:
        self.dismiss(ResumeChoice[choice])


def _words(run: RunProgress) -> str:
    since = "" if run.started_at is None else f", started at {figures.as_time(run.started_at)}"
    return (
        f"{run.over:,} of its {figures.as_count(run.partitions, 'partition')} have ended{since}."
        " It has no engine; Kafka goes on only with what was in flight."
    )
