"""The small dialogs of a run: a question, a note, the offer to resume, and tool commands."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from ktui.cluster.text import clean
from ktui.execution.forecast.run_progress import RunProgress
from ktui.execution.host.client import LONGEST_NOTE
from ktui.tui.draw import format as figures
from ktui.tui.screens.copy import copy_text
from ktui.tui.screens.dialog import MOST_CELLS, Dialog
from ktui.tui.widgets.bindings import bind, give_ids
from ktui.tui.widgets.fields import TextField
from ktui.tui.widgets.frame import BoxScreen


class ConfirmScreen(Dialog[bool]):
    """Returns True for y, and False if the operator leaves the screen."""

    DEFAULT_CSS = "ConfirmScreen > .dialog { border: round $warning; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("y", "answer(True)", "yes", "Do it"),
        bind(
            "n,escape,q", "answer(False)", "no", "Leave everything as it is", key_display="n, esc",
        ),
    ]  # fmt: skip
    give_ids("confirm", BINDINGS)

    def __init__(self, title: str, words: str) -> None:
        super().__init__(title)
        self._words = words

    def body(self) -> ComposeResult:
        yield Static(Content(self._words))

    def action_answer(self, yes: bool) -> None:  # noqa: FBT001 - the key's own answer
        self.dismiss(yes)


class NotePrompt(Dialog[str | None]):
    """Returns the note, or None if the operator leaves without one."""

    WIDTH = MOST_CELLS
    ENTER = "write it, with your name"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "leave", "back", "Go back without a note"),
    ]
    give_ids("note", BINDINGS)

    def __init__(self, run: str) -> None:
        super().__init__(f"note on run {clean(run)}")

    def body(self) -> ComposeResult:
        yield TextField(placeholder="what the next one has to know", max_length=LONGEST_NOTE)

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


class ResumeChoice(enum.Enum):
    """What the operator wants to do with the run."""

    RESUME = enum.auto()
    LOOK = enum.auto()
    NOT_NOW = enum.auto()


class ResumeOfferScreen(Dialog[ResumeChoice]):
    """Offers to resume the run that was started last, of those that wait to be resumed."""

    DEFAULT_CSS = "ResumeOfferScreen > .dialog { border: round $warning; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("R", "choose('RESUME')", "resume now", "Start an engine for it"),
        bind("enter", "choose('LOOK')", "show it", "Show it as it was left", key_display="↵"),
        bind("escape,q", "choose('NOT_NOW')", "not now", "Leave it as it is", key_display="esc"),
    ]  # fmt: skip
    give_ids("offer", BINDINGS)

    def __init__(self, waiting: Sequence[RunProgress], problem: str | None) -> None:
        super().__init__(f"Run {waiting[0].name} waits to be resumed")
        self._waiting, self._problem = waiting, problem

    def body(self) -> ComposeResult:
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


class ToolCommandsScreen(BoxScreen[None]):
    """Shows the lines of a shell, each command below its comment, and copies them."""

    CSS = """
    ToolCommandsScreen .comment { color: $dim; margin-top: 1; }
    ToolCommandsScreen .comment:first-of-type { margin-top: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("y", "copy", "copy", "Copy the commands"),
        bind("escape,q", "dismiss", "close", "Close the commands"),
    ]
    give_ids("commands", BINDINGS)

    def __init__(self, lines: Iterable[str]) -> None:
        super().__init__()
        self._lines = tuple(lines)

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as scroll:
            scroll.border_title = "the same by Kafka's tool"
            scroll.border_subtitle = "y copies · esc closes"
            for line in self._lines:
                is_comment = line.startswith("#")
                yield Static(Content(line), classes="comment" if is_comment else "")

    async def action_copy(self) -> None:
        await copy_text(self.app, "\n".join(self._lines))
