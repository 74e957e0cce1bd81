"""The Limits screen: what binds the run now, and what is to bind it from the next step on."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from ktui.cluster.partition import TopicPartition
from ktui.execution.commands import SetLimits
from ktui.execution.problem import RunProblem
from ktui.execution.runs import RunState
from ktui.tui import figures
from ktui.tui.runs.attached import AttachedRun, RunStatus
from ktui.tui.runs.in_flight import in_flight
from ktui.tui.widgets.keys import Keys
from ktui.tui.widgets.limits_form import LimitsForm
from ktui.tui.widgets.run_lines import RunLines
from ktui.tui.widgets.status_header import StatusHeader


class LimitsScreen(Screen[None]):
    """Shows the limits of the attached run; the app hands it the run after each poll.

    Args:
        write: whether they may be changed from here.
    """

    CSS = """
    LimitsScreen {
        background: $background;
        & > #limits-title { height: 1; padding: 0 1; text-style: bold; }
        & > #limits-said { padding: 0 1; height: auto; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape,q", "back", "back", key_display="esc", tooltip="Go back; nothing is changed"
        ),
        Binding(
            "enter", "apply", "apply", show=False,
            tooltip="Put the limits that are typed in force at the next step",
        ),
    ]  # fmt: skip

    def __init__(self, *, write: bool) -> None:
        super().__init__()
        self._write = write
        self._attached: AttachedRun | None = None
        self._status: RunStatus | None = None
        self._asked: int | None = None
        self._said = Content("")

    def compose(self) -> ComposeResult:
        """Lay out the run, its limits, what is said of them, and the keys."""
        yield StatusHeader()
        yield RunLines()
        yield Static(id="limits-title", markup=False)
        attached = getattr(self.app, "attached", None)
        limits = attached.run.limits if attached is not None else None
        if limits is not None:
            yield LimitsForm(limits, disabled=not self._write)
        yield Static(id="limits-said", markup=False)
        yield Keys()

    def on_mount(self) -> None:
        """Leave nothing over the sentence that says why nothing can be changed."""
        if not self._write:
            self.app.clear_notifications()

    def show_run(self, attached: AttachedRun | None, touched: set[TopicPartition]) -> None:
        """Take in how the run is now."""
        del touched
        if attached is None:
            return
        self._attached, self._status = attached, attached.status
        self._take_answer(attached)
        self.query_one(RunLines).show(self._status)
        form = self.query_one(LimitsForm)
        form.show(self._status.limits, self._status.coming, in_flight(attached.run))
        self.query_one("#limits-title", Static).update(f"limits of run {self._status.name}")
        self._say()

    def _take_answer(self, attached: AttachedRun) -> None:
        if self._asked is None:
            return
        try:
            answer = attached.answer_to(self._asked).answer
        except RunProblem as problem:
            self._said, self._asked = Content.styled(str(problem), "$error"), None
            return
        if answer is not None:
            colour = "$success" if answer.accepted else "bold $error"
            self._said, self._asked = Content.styled(answer.words, colour), None
            if answer.accepted:
                self.query_one(LimitsForm).clear()

    def _say(self) -> None:
        self.query_one("#limits-said", Static).update(
            Content("\n").join([self._said, Content.styled(self._standing(), "$dim")])
        )

    def _standing(self) -> str:
        status = self._status
        if not self._write:
            return (
                "This view is read-only; limits are changed in one that is opened with"
                " ktui watch --write, or with ktui limits."
            )
        if status is None or status.state is RunState.ENDED:
            return "The run has ended: its limits bind nothing any more."
        if not status.owned:
            return f"No process carries the run on. Resume it first: ktui resume {status.name}"
        if self._asked is not None:
            return "Asked for; it takes effect at the next decision."
        flying = figures.as_count(status.in_flight, "step")
        return (
            f"Binds at the next step: {flying} in flight stay as they are."
            " A field that is empty stays as it is."
        )

    @on(LimitsForm.Changed)
    def _typed(self) -> None:
        if self.query_one(LimitsForm).typed:  # not when it is emptied, for what is said is of that
            self._said = Content("")
            self._say()

    @on(LimitsForm.Submitted)
    def _submitted(self) -> None:
        self.action_apply()

    def action_apply(self) -> None:
        """Ask for the limits that are typed."""
        form, status = self.query_one(LimitsForm), self._status
        if not self._write or status is None or not status.owned or self._asked is not None:
            self._say()
            return
        limits = form.limits()
        if limits is None:
            return
        if limits == (status.coming or status.limits):
            self._said = Content("These limits are in force already.")
            self._say()
            return
        self.run_worker(self._ask(SetLimits(form.typed)), exit_on_error=False)

    async def _ask(self, command: SetLimits) -> None:
        if self._attached is None:
            return
        try:
            self._asked = await asyncio.to_thread(self._attached.ask, command)
        except RunProblem as problem:
            self._said = Content.styled(str(problem), "$error")
        self._say()

    def action_back(self) -> None:
        """Go back to where this was opened."""
        self.dismiss()
