"""A screen on which a plan is chosen, and looked at before anything is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key, Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Checkbox, Input, Static

from ktui.cluster.errors import ClusterError
from ktui.execution.engine.add_plan import Extra
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.inputfile import Unreadable, expand_home
from ktui.planning.read.problems import BadPlan
from ktui.tui.run_view import messages
from ktui.tui.run_view.launchers import Engines
from ktui.tui.run_view.plan_choice import ChosenPlan, ColouredLine, choose
from ktui.tui.screens.plan.path_suggester import PathSuggester
from ktui.tui.widgets.choices import Choices, Picked
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.services import services
from ktui.tui.widgets.text_field import TextField

_SIDE_BY_SIDE = 144
"""From this width on the figures stand beside what is typed, else between."""
_SOON_S = 0.2
"""Typing may pause so long before figures are worked out anew."""


class OtherWay(msgspec.Struct, frozen=True):
    """The plan is to be carried out the other way: added to a run, or as a run of its own."""

    path: str
    """Its file, as far as it was typed."""


PlanOutcome = RunDir | Extra | OtherWay
"""The folder of the run that was started; an extra plan that is to be added; or neither yet."""


class PlanScreen(Screen[PlanOutcome | None]):
    """Gives what the operator has decided on; None where it was left.

    Args:
        engines: looks at the cluster.
        state_dir: where runs are remembered.
        taker: the live run that the view is attached to; empty where plans cannot be added.
        path: the file, where it was typed before.
    """

    DEFAULT_CSS = """
    PlanScreen {
        background: $background;
        & > #plan-body { scrollbar-size-vertical: 1; padding: 0 1; }
        & Input { height: 1; border: none; padding: 0 1; background: $cursor; width: 1fr; }
        & Input:focus { border: none; background-tint: $primary 25%; }
        & LimitsForm LimitInput { width: 12; }
        & ThrottleForm RateInput { width: 30; }
        & .line { height: 1; }
        & .line > Static { width: 16; }
        & .title { color: $header; margin-top: 1; }
        & Checkbox { border: none; height: 1; padding: 0; background: $background; }
        & Checkbox:focus { border: none; background: $cursor; }
        & .form, & #plan-report { height: auto; width: 1fr; }
        & #plan-report { margin-top: 1; }
        & #plan-said { margin-top: 1; height: auto; }
        & .warned { color: $warning; height: auto; }
        & .means { color: $dim; height: auto; padding-left: 17; }
        & .-away { display: none; }
        &.-wide #plan-columns { layout: horizontal; height: auto; }
        &.-wide .form { width: 62; margin-right: 2; }
        & #plan-columns { layout: vertical; height: auto; }
    }
    """
    AUTO_FOCUS = "#plan-path"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", key_display="esc", tooltip="Go back; nothing is sent"),
        Binding("tab", "app.focus_next", "next field", tooltip="Go to the next field"),
    ]
    TITLE_WORDS: ClassVar[str]
    """What the screen is for; with the run that is live."""
    BEFORE: ClassVar[str]
    """What is told where the figures will be, before a plan was chosen."""
    ADDS: ClassVar[bool]
    """Whether it is about adding the plan to a run."""

    def __init__(
        self, engines: Engines, state_dir: StateDir, *, taker: str = "", path: str = ""
    ) -> None:
        super().__init__()
        self._engines, self._state_dir, self._taker, self._path = engines, state_dir, taker, path
        self._chosen: ChosenPlan | None = None

    def compose(self) -> ComposeResult:
        """Lay out the file, the figures, what is to be chosen and typed, and the keys."""
        yield StatusHeader()
        yield from self.above()
        with VerticalScroll(id="plan-body", can_focus=False):
            yield Static(self.TITLE_WORDS.format(self._taker), classes="title", markup=False)
            yield Static(id="plan-live", classes="warned -away", markup=False)
            if self._taker:
                ways = [f"in run {self._taker}", "as a run of its own"]
                yield Picked("carry it out", ways, id="plan-way", place=not self.ADDS)
            with Horizontal(classes="line"):
                yield Static("plan's file")
                yield TextField(
                    self._path,
                    id="plan-path",
                    placeholder="a path; → completes it, ↵ reads it",
                    suggester=PathSuggester(),
                )
            yield from self.choices()
            with Vertical(id="plan-columns"):
                yield Static(self.BEFORE, id="plan-report", markup=False)
                yield self.form()
        yield FooterKeys()

    # -------------------------------------------------- what each of the screens tells itself

    def above(self) -> Iterator[Widget]:
        """Give what stands above all that scrolls."""
        yield from ()

    def choices(self) -> Iterator[Widget]:
        """Give what is chosen before the figures are read."""
        yield from ()

    def form(self) -> Widget:
        """Give what is typed and ticked, with the class `form`."""
        raise NotImplementedError

    def open_form(self, chosen: ChosenPlan) -> None:
        """Let it be typed into: a plan was read."""
        raise NotImplementedError

    async def look_around(self) -> None:
        """See what keeps any plan from being carried out, and tell it."""
        raise NotImplementedError

    async def work_out(self) -> None:
        """Work out what the plan does, by what is chosen and typed, and tell it."""
        raise NotImplementedError

    # ------------------------------------------------------------------------- the plan

    def on_mount(self) -> None:
        """Say first what keeps every plan from being carried out; read one that is named."""
        if self._path:
            self._read_soon()
            self.query("#plan-way").focus()  # it was just chosen, and may be once more
        else:
            self.run_worker(self.look_around(), group="live", exit_on_error=False)

    def tell_before(self, words: str) -> None:
        """Say what keeps plans from being carried out, or is to be known before."""
        told = self.query_one("#plan-live", Static)
        told.update(Content(words))
        told.set_class(not words, "-away")

    @property
    def gate_words(self) -> str:
        """Say that the cancel gate is shut; empty while it is open."""
        gate = services(self).cancel_gate
        return messages.GATE_SHUT.format(gate) if gate else ""

    def on_key(self, event: Key) -> None:
        """Let no letter that a field has no use for be a command of the app."""
        if event.character is not None and event.character.isalpha():
            event.stop()

    @on(Resize)
    def _fit(self) -> None:
        wide = self.size.width >= _SIDE_BY_SIDE
        self.set_class(wide, "-wide")
        columns, form = self.query_one("#plan-columns"), self.query_one(".form")
        columns.move_child(form, before=0) if wide else columns.move_child(form, after=-1)

    @on(Choices.Chosen, "#plan-way")
    def _other_way(self, event: Choices.Chosen) -> None:
        if bool(event.place) is self.ADDS:
            self.dismiss(OtherWay(self.query_one("#plan-path", Input).value))

    @on(Input.Submitted, "#plan-path")
    def _read_soon(self) -> None:
        typed = self.query_one("#plan-path", Input).value.strip()
        if typed:
            self.run_worker(self._read(typed), group="plan", exclusive=True, exit_on_error=False)

    async def _read(self, typed: str) -> None:
        """Read the plan, and look at what it is about; whatever is wrong is told in full."""
        self._chosen = None
        await self.look_around()
        self.report([(f"Reading {typed}, and looking at the cluster …", "$dim")])
        cluster_id = services(self).cluster_id or ""
        try:
            chosen = await choose(expand_home(typed), self._engines, self._state_dir, cluster_id)
        except (BadPlan, ClusterError, RunProblem) as problem:
            self.report([(str(problem), "$error")])
            return
        except Unreadable as why:
            self.report([(f"{typed}: {why}", "$error")])
            return
        self._chosen = chosen
        self.open_form(chosen)
        await self.work_out()

    @on(Checkbox.Changed)
    def soon(self) -> None:
        """Work it out anew, once typing pauses."""
        if self._chosen is not None:
            self.run_worker(self._later(), group="figures", exclusive=True, exit_on_error=False)

    async def _later(self) -> None:
        await asyncio.sleep(_SOON_S)
        await self.work_out()

    def measure(self, chosen: ChosenPlan) -> None:
        """Look at what a throttle is held against, and work the figures out anew; once."""
        if not chosen.measured and "measuring" not in {w.group for w in self.workers}:
            self.run_worker(self._measure(chosen), group="measuring", exit_on_error=False)

    async def _measure(self, chosen: ChosenPlan) -> None:
        try:
            measured = await chosen.with_inbound(self._engines)
        except ClusterError as problem:
            self.say(str(problem), "$error")
            return
        if self._chosen is chosen:
            self._chosen = measured
            await self.work_out()

    def report(self, told: Sequence[ColouredLine]) -> None:
        """Tell what was found, and what it comes to."""
        parts = [
            Content.styled(words, colour) if colour else Content(words) for words, colour in told
        ]
        self.query_one("#plan-report", Static).update(Content("\n").join(parts))

    def say(self, words: str, colour: str) -> None:
        """Answer what was asked for, below what is typed."""
        said = Content.styled(words, colour) if words else Content("")
        line = self.query_one("#plan-said", Static)
        line.update(said)
        if words:
            self.call_after_refresh(line.scroll_visible, animate=False)

    def action_leave(self) -> None:
        """Go back; nothing was sent."""
        self.dismiss(None)
