"""The screen on which a plan is chosen, looked at, and started."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key, Resize
from textual.screen import Screen
from textual.widgets import Checkbox, Input, Static

from ktui.cluster.errors import ClusterError
from ktui.execution.problem import RunProblem
from ktui.execution.statedir import RunDir, StateDir, default_name, run_name_problem
from ktui.planning.finding import Finding
from ktui.planning.problem import BadPlan
from ktui.planning.throttle_rates import NO_THROTTLE
from ktui.tui.runs.chosen_plan import ChosenPlan, choose, forbids, of_throttle
from ktui.tui.runs.desk import unfinished
from ktui.tui.runs.engines import Engines, NewRun
from ktui.tui.widgets.entry import Entry
from ktui.tui.widgets.keys import Keys
from ktui.tui.widgets.limits_form import LimitsForm
from ktui.tui.widgets.path_suggester import PathSuggester
from ktui.tui.widgets.start_form import StartForm
from ktui.tui.widgets.status_header import StatusHeader
from ktui.tui.widgets.throttle_form import ThrottleForm

_SIDE_BY_SIDE = 144
"""From this width on the figures stand beside what is typed, else between."""
_SOON_S = 0.2
"""Typing may pause so long before figures are worked out anew."""
NO_PLAN = (
    "A plan is a JSON file as kafka-reassign-partitions takes it. Nothing is sent before you have"
    " read what it would do, and typed the run's name."
)
_BESIDE = (
    "Run {} is live on this cluster. Another is started only if that is allowed, for the limits of"
    " runs know nothing of each other: they add up."
)


class StartScreen(Screen[RunDir | None]):
    """Gives the folder of the run that was started; None where it was left.

    Args:
        engines: looks at the cluster, and starts the run.
        state_dir: where the run will be remembered.
    """

    CSS = """
    StartScreen {
        background: $background;
        & > #start-body { scrollbar-size-vertical: 1; padding: 0 1; }
        & Input { height: 1; border: none; padding: 0 1; background: $cursor; width: 1fr; }
        & Input:focus { border: none; background-tint: $primary 25%; }
        & LimitsForm LimitInput { width: 12; }
        & ThrottleForm RateInput { width: 30; }
        & .line { height: 1; }
        & .line > Static { width: 16; }
        & .title { color: $header; margin-top: 1; }
        & Checkbox { border: none; height: 1; padding: 0; background: $background; }
        & Checkbox:focus { border: none; background: $cursor; }
        & #start-form, & #start-report { height: auto; width: 1fr; }
        & #start-said { margin-top: 1; height: auto; }
        & #start-live { color: $warning; height: auto; }
        & .-away { display: none; }
        &.-wide #start-columns { layout: horizontal; height: auto; }
        &.-wide #start-form { width: 62; margin-right: 2; }
        & #start-columns { layout: vertical; height: auto; }
    }
    """
    AUTO_FOCUS = "#start-path"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", key_display="esc", tooltip="Go back; nothing is sent"),
        Binding("tab", "app.focus_next", "next field", tooltip="Go to the next field"),
    ]

    def __init__(self, engines: Engines, state_dir: StateDir) -> None:
        super().__init__()
        self._engines, self._state_dir = engines, state_dir
        self._chosen: ChosenPlan | None = None
        self._findings: Sequence[Finding] = ()
        self._live = ""
        """The run that is live on the cluster."""
        self._starting = False

    def compose(self) -> ComposeResult:
        """Lay out the file, the figures, the limits, what is to be allowed, and the name."""
        yield StatusHeader()
        with VerticalScroll(id="start-body"):
            yield Static("start a plan", classes="title")
            yield Static(id="start-live", classes="-away", markup=False)
            with Horizontal(classes="line"):
                yield Static("plan's file")
                yield Entry(
                    id="start-path",
                    placeholder="a path; → completes it, ↵ reads it",
                    suggester=PathSuggester(),
                )
            with Vertical(id="start-columns"):
                yield Static(NO_PLAN, id="start-report", markup=False)
                yield StartForm(id="start-form")
        yield Keys()

    def on_mount(self) -> None:
        """Say first what keeps every plan from being started."""
        self.run_worker(self._look_for_live(), group="live", exit_on_error=False)

    async def _look_for_live(self) -> None:
        try:
            live, _ = await asyncio.to_thread(unfinished, self._state_dir, self._cluster_id)
        except RunProblem:  # told by whatever is done with the state directory next
            return
        self._live = live[0].name if live else ""
        said = self.query_one("#start-live", Static)
        said.update(Content(_BESIDE.format(self._live) if live else ""))
        for told in (said, self.query_one("#allow-concurrent")):
            told.set_class(not live, "-away")

    @property
    def _cluster_id(self) -> str:
        return getattr(self.app, "cluster_id", None) or ""

    def on_key(self, event: Key) -> None:
        """Let no letter that a field has no use for be a command of the app."""
        if event.character is not None and event.character.isalpha():
            event.stop()

    @on(Resize)
    def _fit(self) -> None:
        wide = self.size.width >= _SIDE_BY_SIDE
        self.set_class(wide, "-wide")
        columns, form = self.query_one("#start-columns"), self.query_one("#start-form")
        columns.move_child(form, before=0) if wide else columns.move_child(form, after=-1)

    @on(Input.Submitted, "#start-path")
    def _typed(self, event: Input.Submitted) -> None:
        if event.value.strip():
            path = Path(event.value.strip()).expanduser()
            self.run_worker(self._read(path), group="plan", exclusive=True, exit_on_error=False)

    async def _read(self, path: Path) -> None:
        """Read the plan, and look at what it is about; whatever is wrong is told in full."""
        self._chosen = None
        await self._look_for_live()
        self._report([(f"Reading {path}, and looking at the cluster …", "$dim")])
        try:
            chosen = await choose(path, self._engines, self._state_dir, self._cluster_id)
        except (BadPlan, ClusterError, RunProblem) as problem:
            self._report([(str(problem), "$error")])
            return
        self._chosen = chosen
        self._open_form(chosen)
        await self._work_out()

    def _open_form(self, chosen: ChosenPlan) -> None:
        engines = self._engines
        limits = engines.limits(chosen.brokers_alive)
        self._form.open(limits, engines.throttle, default_name(chosen.path))

    @property
    def _form(self) -> StartForm:
        return self.query_one(StartForm)

    @on(LimitsForm.Changed)
    @on(ThrottleForm.Changed)
    @on(Checkbox.Changed)
    def _soon(self) -> None:
        if self._chosen is not None:
            self.run_worker(self._later(), group="figures", exclusive=True, exit_on_error=False)

    async def _later(self) -> None:
        await asyncio.sleep(_SOON_S)
        await self._work_out()

    async def _work_out(self) -> None:
        """Work the figures out under the limits and the throttle that are typed."""
        limits, chosen = self.query_one(LimitsForm).limits(), self._chosen
        if limits is None or chosen is None or self._form.problem:
            self._say("", "")  # the form says what is wrong, where it is typed
            return
        rates = self._throttle.rates() or NO_THROTTLE
        leaders = self._throttle.leaders
        allowed = self._form.allowed
        self._findings, told = await chosen.judged(limits, rates, allowed, leaders=leaders)
        self._report(told)
        self._throttle.tell(of_throttle(self._findings))
        self._say("", "")
        if rates and not chosen.measured and "measuring" not in {w.group for w in self.workers}:
            self.run_worker(self._measure(chosen), group="measuring", exit_on_error=False)

    @property
    def _throttle(self) -> ThrottleForm:
        return self.query_one(ThrottleForm)

    async def _measure(self, chosen: ChosenPlan) -> None:
        """Look at what a throttle is held against, and work the figures out anew."""
        try:
            measured = await chosen.with_inbound(self._engines)
        except ClusterError as problem:
            self._say(str(problem), "$error")
            return
        if self._chosen is chosen:
            self._chosen = measured
            await self._work_out()

    def _report(self, told: Sequence[tuple[str, str]]) -> None:
        parts = [
            Content.styled(words, colour) if colour else Content(words) for words, colour in told
        ]
        self.query_one("#start-report", Static).update(Content("\n").join(parts))

    def _say(self, words: str, colour: str) -> None:
        said = Content.styled(words, colour) if words else Content("")
        line = self.query_one("#start-said", Static)
        line.update(said)
        if words:
            self.call_after_refresh(line.scroll_visible, animate=False)

    @on(LimitsForm.Submitted)
    @on(ThrottleForm.Submitted)
    @on(Input.Submitted, "#start-name")
    def _to_the_end(self) -> None:
        """Go to where the run is started, and say how."""
        name = self._form.name_typed
        self.set_focus(self.query_one("#start-again", Input))
        self._say(f"Type {name} and press enter to start the run.", "$dim")

    @on(Input.Submitted, "#start-again")
    def _confirmed(self, event: Input.Submitted) -> None:
        name, form = self._form.name_typed, self._form
        limits = self.query_one(LimitsForm).limits()
        problem = self._problem(name, event.value.strip()) or form.problem
        if problem or limits is None or self._chosen is None:
            self._say(problem or "", "$error")
            return
        wanted = NewRun(
            name=name,
            plan=self._chosen.plan,
            plan_name=self._chosen.path.name,
            limits=limits,
            allowed=form.allowed,
            throttle=self._throttle.rates() or NO_THROTTLE,
            throttle_leaders=self._throttle.leaders,
            concurrent=form.concurrent,
        )
        self._starting = True
        self.run_worker(self._start(wanted), group="start", exit_on_error=False)

    def _problem(self, name: str, again: str) -> str | None:
        """Say why the run cannot be started now."""
        if self._starting:
            return "It is being started."
        problem = forbids(self._findings)
        if problem is None and self._live and not self._form.concurrent:
            problem = (
                f"Run {self._live} is live on this cluster: allow another, or wait for its end."
            )
        problem = problem or run_name_problem(name)
        if problem is not None:
            return problem
        if self._state_dir.run(name).path.exists():
            return f"There is a run {name} already; give this one another name."
        return None if again == name else f"Type {name} to start the run, or esc to leave."

    async def _start(self, wanted: NewRun) -> None:
        self._say(f"Starting {wanted.name} …", "$dim")
        try:
            run = await self._engines.start(wanted)
        except (RunProblem, ClusterError) as problem:
            self._starting = False
            self._say(str(problem), "$error")
            return
        self.dismiss(run)

    def action_leave(self) -> None:
        """Go back; nothing was sent."""
        if not self._starting:
            self.dismiss(None)
