"""A screen to choose a plan, and preview it before anything is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key, Resize
from textual.screen import Screen
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Checkbox, Input, Static

from ktui.cluster.errors import ClusterError
from ktui.execution.engine.add_plan import CheckedExtraPlan
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.inputfile import Unreadable, expand_home
from ktui.planning.read.problems import BadPlan
from ktui.tui.run_view import messages
from ktui.tui.run_view.launchers import EngineLauncher
from ktui.tui.run_view.plan_choice import ChosenPlan, ColouredLine, read_chosen_plan
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.choices import Choices, FormChoices
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.services import services
from ktui.tui.widgets.text_field import TextField

_SIDE_BY_SIDE = 144
"""The screen width in cells from which the figures stand beside the form; above it otherwise."""
_SOON_S = 0.2
"""Pause in typing, in seconds, after which the figures are computed again."""


class SwitchPlanScreen(msgspec.Struct, frozen=True):
    """The operator chose the other way to execute the plan: in a run, or as a run of its own."""

    path: str
    """The plan's file, as far as it was typed."""


PlanOutcome = RunDir | CheckedExtraPlan | SwitchPlanScreen
"""The folder of the run that was started; an extra plan to add; or the other screen to open."""


class PlanScreen(Screen[PlanOutcome | None]):
    """Returns what the operator has decided; None if the operator left the screen.

    Args:
        engines: reads the cluster.
        state_dir: the folder of all runs.
        attached_run: the live run that the view is attached to; empty if plans cannot be added.
        path: the plan's file, if it was typed before.
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
        & #plan-answer { margin-top: 1; height: auto; }
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
    give_ids("plan", BINDINGS)
    TITLE_WORDS: ClassVar[str]
    """The title of the screen; `{}` stands for the live run."""
    BEFORE: ClassVar[str]
    """The text in place of the figures, before a plan was chosen."""
    ADDS: ClassVar[bool]
    """Whether the screen adds the plan to a run."""

    def __init__(
        self,
        engines: EngineLauncher,
        state_dir: StateDir,
        *,
        attached_run: str = "",
        path: str = "",
    ) -> None:
        super().__init__()
        self._engines, self._state_dir = engines, state_dir
        self._attached_run, self._path = attached_run, path
        self._chosen: ChosenPlan | None = None

    def compose(self) -> ComposeResult:
        """Lay out the file, the figures, the choices, the form, and the keys."""
        self.set_class(self._fits_side_by_side, "-wide", update=False)
        yield StatusHeader()
        yield from self.above()
        with VerticalScroll(id="plan-body", can_focus=False):
            yield Static(self.TITLE_WORDS.format(self._attached_run), classes="title", markup=False)
            yield Static(id="plan-live", classes="warned -away", markup=False)
            if self._attached_run:
                ways = [f"in run {self._attached_run}", "as a run of its own"]
                yield FormChoices("carry it out", ways, id="plan-way", place=not self.ADDS)
            with Horizontal(classes="line"):
                yield Static("plan's file")
                yield TextField(
                    self._path,
                    id="plan-path",
                    placeholder="a path; → completes it, ↵ reads it",
                    suggester=PathSuggester(),
                )
            yield from self.choices()
            columns = Static(self.BEFORE, id="plan-report", markup=False), self.form()
            with Vertical(id="plan-columns"):
                yield from reversed(columns) if self.has_class("-wide") else columns
        yield FooterKeys()

    # ----------------------------------------------------- what each of the screens defines

    def above(self) -> Iterator[Widget]:
        """Return the widgets above the scrolling part."""
        yield from ()

    def choices(self) -> Iterator[Widget]:
        """Return the choices that stand above the figures."""
        yield from ()

    def form(self) -> Widget:
        """Return the form, with the CSS class `form`."""
        raise NotImplementedError

    def open_form(self, chosen: ChosenPlan) -> None:
        """Enable the form: a plan was read."""
        raise NotImplementedError

    async def show_obstacles(self) -> None:
        """Show what prevents any plan from being executed now."""
        raise NotImplementedError

    async def preview(self) -> None:
        """Preview the plan with what is chosen and typed, and show the result."""
        raise NotImplementedError

    # ------------------------------------------------------------------------- the plan

    def on_mount(self) -> None:
        """Show what prevents any plan from being executed; read the plan if its path is known."""
        if self._path:
            self._read_soon()
            self.query(
                "#plan-way"
            ).focus()  # the operator has just used this choice, and may change it back
        else:
            self.run_worker(self.show_obstacles(), group="live", exit_on_error=False)

    def show_notes(self, words: str) -> None:
        """Show what prevents plans from being executed, or a note to read before."""
        note = self.query_one("#plan-live", Static)
        note.update(Content(words))
        note.set_class(not words, "-away")

    @property
    def gate_words(self) -> str:
        """The sentence that the cancel gate is shut; empty while it is open."""
        gate = services(self).cancel_gate
        return messages.GATE_SHUT.format(gate) if gate else ""

    def on_key(self, event: Key) -> None:
        """Stop letters that no field uses, so that they do not become commands of the app."""
        if event.character is not None and event.character.isalpha():
            event.stop()

    @property
    def _fits_side_by_side(self) -> bool:
        return self.app.size.width >= _SIDE_BY_SIDE

    @on(Resize)
    def _fit(self) -> None:
        wide = self._fits_side_by_side
        if wide != self.has_class("-wide"):
            self.set_class(wide, "-wide")
            columns, form = self.query_one("#plan-columns"), self.query_one(".form")
            columns.move_child(form, before=0) if wide else columns.move_child(form, after=-1)

    @on(Choices.Chosen, "#plan-way")
    def _other_way(self, event: Choices.Chosen) -> None:
        if bool(event.place) is self.ADDS:
            self.dismiss(SwitchPlanScreen(self.query_one("#plan-path", Input).value))

    @on(Input.Submitted, "#plan-path")
    def _read_soon(self) -> None:
        typed = self.query_one("#plan-path", Input).value.strip()
        if typed:
            self.show_answer("", "")
            self.run_worker(self._read(typed), group="plan", exclusive=True, exit_on_error=False)

    async def _read(self, typed: str) -> None:
        """Read the plan and the cluster; show any error in full."""
        self._chosen = None
        await self.show_obstacles()
        self.report([(f"Reading {typed}, and looking at the cluster …", "$dim")])
        cluster_id = services(self).cluster_id or ""
        try:
            chosen = await read_chosen_plan(
                expand_home(typed), self._engines, self._state_dir, cluster_id
            )
        except (BadPlan, ClusterError, RunProblem) as problem:
            self.report([(str(problem), "$error")])
            return
        except Unreadable as why:
            self.report([(f"{typed}: {why}", "$error")])
            return
        self._chosen = chosen
        self.open_form(chosen)
        await self.preview()

    @on(Checkbox.Changed)
    def preview_soon(self) -> None:
        """Preview the plan again once typing pauses; the last answer is about what was before."""
        self.show_answer("", "")
        if self._chosen is not None:
            self.run_worker(
                self._preview_later(), group="figures", exclusive=True, exit_on_error=False
            )

    async def _preview_later(self) -> None:
        await asyncio.sleep(_SOON_S)
        await self.preview()

    def measure(self, chosen: ChosenPlan) -> None:
        """Measure the inbound rates that limit a throttle, and preview again. This happens once."""
        if not chosen.measured and "measuring" not in {w.group for w in self.workers}:
            self.run_worker(self._measure(chosen), group="measuring", exit_on_error=False)

    async def _measure(self, chosen: ChosenPlan) -> None:
        try:
            measured = await chosen.with_inbound(self._engines)
        except ClusterError as problem:
            self.show_answer(str(problem), "$error")
            return
        if self._chosen is chosen:
            self._chosen = measured
            await self.preview()

    def report(self, lines: Sequence[ColouredLine]) -> None:
        """Show the preview: findings and figures."""
        parts = [
            Content.styled(words, colour) if colour else Content(words) for words, colour in lines
        ]
        self.query_one("#plan-report", Static).update(Content("\n").join(parts))

    def show_answer(self, words: str, colour: str) -> None:
        """Show an answer below the form."""
        said = Content.styled(words, colour) if words else Content("")
        line = self.query_one("#plan-answer", Static)
        line.update(said)
        if words:
            self.call_after_refresh(line.scroll_visible, animate=False)

    def action_leave(self) -> None:
        """Go back; nothing was sent."""
        self.dismiss(None)


class PathSuggester(Suggester):
    """Suggests the first folder or JSON file whose path begins with the text typed."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """Return the completed path; None if no path begins with `value`."""
        return await asyncio.to_thread(_completed, value) if value else None


def _completed(value: str) -> str | None:
    folder, _, start = value.rpartition("/")
    try:
        entries = sorted(Path(f"{folder}/" if "/" in value else ".").expanduser().iterdir())
    except (OSError, RuntimeError):  # no such folder; no such user's home
        return None
    for path in entries:
        if path.name.startswith(start) and (start or not path.name.startswith(".")):
            if path.is_dir():
                return f"{value[: len(value) - len(start)]}{path.name}/"
            if path.suffix == ".json":
                return f"{value[: len(value) - len(start)]}{path.name}"
    return None
