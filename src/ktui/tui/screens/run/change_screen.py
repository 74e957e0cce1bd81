"""A dialog that requests changes from the engine of the attached run."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Key
from textual.widgets import Static

from ktui.cluster.partition import TopicPartition
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.catalog import RunState
from ktui.execution.host.undo import Undo
from ktui.execution.journal.commands import Command
from ktui.execution.run.run import Run
from ktui.tui.draw import format as figures
from ktui.tui.run_view.attached import AttachedRun, RunStatus
from ktui.tui.screens.dialog import Dialog
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.off_loop import ReportsOwnErrors
from ktui.tui.widgets.services import services


class RunChangeScreen(Dialog[None], ReportsOwnErrors):
    """Shows a part of the attached run, requests a change of it, and shows the answer.

    The app passes the run to `show_run` after each poll. Answers stand in `#said`.

    Args:
        title: the title, before the run is known.
        write: whether anything may be changed from here.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+z", "undo", "undo", key_display="ctrl+z",
            tooltip="Type what was in force before your last change; enter puts that back",
        ),
        Binding(
            "escape,q", "back", "back", key_display="esc", tooltip="Go back; nothing is changed"
        ),
    ]  # fmt: skip
    give_ids("change", BINDINGS)
    READ_ONLY: ClassVar[str]
    """The sentence for a view that is read-only."""
    ENDED: ClassVar[str]
    """The sentence for a run that has ended."""
    ASKED: ClassVar[str]
    """The sentence to show until the answer has come."""

    def __init__(self, title: str, *, write: bool) -> None:
        super().__init__(title, dense=True)
        self.write = write
        self.attached: AttachedRun | None = None
        self._asking = False
        """Whether a request is being checked and written."""
        self._asked: int | None = None
        self._undo: Undo | None = None
        """The undo whose values were typed; they may have been changed since."""
        self._said = Content("")

    def on_mount(self) -> None:
        super().on_mount()
        self.app.clear_notifications()

    @property
    def status(self) -> RunStatus | None:
        """The status of the attached run; None before the first one."""
        return None if self.attached is None else self.attached.status

    def show_run(self, attached: AttachedRun | None, touched: set[TopicPartition]) -> None:
        del touched
        if attached is None:
            return
        self.attached = attached
        self._read_answer(attached)
        self.draw(attached)
        self.show_said()
        self.refresh_bindings()

    def draw(self, attached: AttachedRun) -> None:
        """Draw the dialog's part of the run."""
        raise NotImplementedError

    def accepted(self) -> None:
        """Clear the fields: what was typed was accepted."""
        raise NotImplementedError

    def standing(self, status: RunStatus) -> str:
        """Return the note to show while a change may be requested."""
        raise NotImplementedError

    def changed(self, run: Run) -> bool:
        """Return whether there is a change that may be undone."""
        raise NotImplementedError

    def undo_of(self, run: Run) -> Undo:
        """Return the undo of the last change.

        Raises:
            RunRefused: there is none, or somebody else has come between.
        """
        raise NotImplementedError

    def type_undo(self, undo: Undo) -> None:
        """Type what was in force before a change."""
        raise NotImplementedError

    def is_typed(self, undo: Undo) -> bool:
        """Return whether that is still what is typed."""
        raise NotImplementedError

    @property
    def undoing(self) -> Undo | None:
        """The undo that is typed; None if something else is."""
        return self._undo if self._undo is not None and self.is_typed(self._undo) else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        attached = self.attached
        return action != "undo" or (
            self.may_ask and attached is not None and self.changed(attached.run)
        )

    def action_undo(self) -> None:
        if not self.may_ask or self.attached is None:
            self.show_said()
            return
        try:
            self._undo = self.undo_of(self.attached.run)
        except RunRefused as why:
            self.say(Content.styled(str(why), "$warning"))
            return
        self._said = Content("")
        self.type_undo(self._undo)
        self.show_said()

    def _read_answer(self, attached: AttachedRun) -> None:
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
                self._undo = None
                self.accepted()

    def say(self, said: Content) -> None:
        """Show a message, and below it the note that holds now."""
        self._said = said
        self.show_said()

    def forget_answer(self) -> None:
        """Forget the last message: something else is typed."""
        self._said = Content("")

    def show_said(self) -> None:
        """Show the last message, and the note that holds now."""
        said = self._said if self._said.plain else self._undo_words
        standing = Content.styled(self._standing(), "$dim")
        self.query_one("#said", Static).update(Content("\n").join([said, standing]))

    @property
    def _undo_words(self) -> Content:
        """What the undo that is typed changes; empty where none is."""
        undo = self.undoing
        if undo is None:
            return Content("")
        when = figures.as_time(undo.change.at)
        return Content.styled(f"Undoes your change of {when}: {undo.words}", "$next-leader")

    def _standing(self) -> str:
        status = self.status
        if not self.write:
            return services(self).why_read_only or self.READ_ONLY
        if status is None or status.state is RunState.ENDED:
            return self.ENDED
        if not status.owned:
            left = status.throttle.stays
            words = "The run has no engine" + (f"; {left}" if left else "")
            return f"{words}. Resume it first: ktui resume {status.name}"
        busy = self._asking or self._asked is not None
        return self.ASKED if busy else self.standing(status)

    @property
    def may_ask(self) -> bool:
        """Whether a change may be requested now."""
        status = self.status
        busy = self._asking or self._asked is not None
        return self.write and status is not None and status.owned and not busy

    def ask(self, command: Command) -> None:
        """Request a change; the answer is shown when it comes."""
        self._asking = True
        self.run_worker(self._ask(command), exit_on_error=False)

    async def _ask(self, command: Command) -> None:
        if self.attached is None:
            return
        try:
            await services(self).check_permitted(self.attached.run, command)
            self._asked = await asyncio.to_thread(self.attached.ask, command)
        except RunProblem as problem:
            self._said = Content.styled(str(problem), "$error")
        finally:
            self._asking = False
        self.show_said()

    async def on_key(self, event: Key) -> None:
        action = None if self.write else services(self).keys_in_dialogs.get(event.key)
        if action is not None:
            event.stop()
            await self.app.run_action(f"app.{action}")

    def action_back(self) -> None:
        self.dismiss()
