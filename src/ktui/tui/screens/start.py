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
from ktui.planning.check import check_plan
from ktui.planning.finding import Allowances, ClusterSnapshot, Finding, Kind, Severity
from ktui.planning.plan import Plan
from ktui.planning.planfile import read_plan
from ktui.planning.preflight import Ground
from ktui.planning.preflight_words import lines
from ktui.planning.problem import BadPlan
from ktui.tui.runs.desk import unfinished
from ktui.tui.runs.engines import Engines, NewRun
from ktui.tui.widgets.allowance import Allowance
from ktui.tui.widgets.entry import Entry
from ktui.tui.widgets.keys import Keys
from ktui.tui.widgets.limits_form import LimitsForm
from ktui.tui.widgets.path_suggester import PathSuggester
from ktui.tui.widgets.status_header import StatusHeader

_SIDE_BY_SIDE = 144
"""From this width on the figures stand beside what is typed, else between."""
_SOON_S = 0.2
"""Typing may pause so long before figures are worked out anew."""
_MOST_FINDINGS = 50
_COLOURS = {Severity.PROBLEM: "bold $error", Severity.WARNING: "$warning", Severity.NOTE: "$dim"}
NO_PLAN = (
    "A plan is a JSON file as kafka-reassign-partitions takes it. Nothing is sent before you have"
    " read what it would do, and typed the run's name."
)
_NOT_BESIDE = "Run {} is live on this cluster: no other is started before it has ended."


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
        & .line { height: 1; }
        & .line > Static { width: 16; }
        & .title { color: $header; margin-top: 1; }
        & Checkbox { border: none; height: 1; padding: 0; background: $background; }
        & Checkbox:focus { border: none; background: $cursor; }
        & #start-form, & #start-report { height: auto; width: 1fr; }
        & #start-said { margin-top: 1; height: auto; }
        & #start-live { color: $warning; height: auto; }
        & #start-live.-away { display: none; }
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
        self._plan: Plan | None = None
        self._path = Path()
        self._seen: ClusterSnapshot | None = None
        self._ground: Ground | None = None
        self._findings: Sequence[Finding] = ()
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
                with Vertical(id="start-form"):
                    yield Static("limits", classes="title")
                    yield LimitsForm(None, heading="default", in_use=False, disabled=True)
                    yield Static("allowances", classes="title")
                    yield Allowance("allow replication factor changes", id="allow-factor")
                    yield Allowance(
                        "allow fewer replicas than min.insync.replicas", id="allow-below"
                    )
                    yield Static("start", classes="title")
                    with Horizontal(classes="line"):
                        yield Static("run's name")
                        yield Entry(id="start-name", disabled=True)
                    with Horizontal(classes="line"):
                        yield Static("type it again")
                        yield Entry(id="start-again", placeholder="↵ starts the run", disabled=True)
                    yield Static(id="start-said", markup=False)
        yield Keys()

    def on_mount(self) -> None:
        """Say first what keeps every plan from being started."""
        self.run_worker(self._look_for_live(), group="live", exit_on_error=False)

    async def _look_for_live(self) -> None:
        cluster_id = getattr(self.app, "cluster_id", None) or ""
        try:
            live, _ = await asyncio.to_thread(unfinished, self._state_dir, cluster_id)
        except RunProblem:  # told by whatever is done with the state directory next
            return
        words = _NOT_BESIDE.format(live[0].name) if live else ""
        said = self.query_one("#start-live", Static)
        said.update(Content(words))
        said.set_class(not words, "-away")

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
    def _chosen(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self._path = Path(event.value.strip()).expanduser()
            self.run_worker(self._read(), group="plan", exclusive=True, exit_on_error=False)

    async def _read(self) -> None:
        """Read the plan, and look at what it is about; whatever is wrong is told in full."""
        self._plan = self._ground = None
        await self._look_for_live()
        self._report([(f"Reading {self._path} …", "$dim")])
        try:
            plan = await asyncio.to_thread(read_plan, self._path)
            self._report([("Looking at the cluster …", "$dim")])
            seen = await self._engines.look(plan)
            ground = await asyncio.to_thread(Ground, plan, seen)
        except (BadPlan, ClusterError, RunProblem) as problem:
            self._report([(str(problem), "$error")])
            return
        self._plan, self._seen, self._ground = plan, seen, ground
        self._open_form(seen)
        await self._work_out()

    def _open_form(self, seen: ClusterSnapshot) -> None:
        form = self.query_one(LimitsForm)
        alive = sum(broker.alive for broker in seen.brokers.values())
        form.show(self._engines.limits(alive), None, {})
        name = self.query_one("#start-name", Input)
        name.value = name.value or default_name(self._path)
        for widget in (form, name, self.query_one("#start-again", Input)):
            widget.disabled = False

    @on(LimitsForm.Changed)
    @on(Checkbox.Changed)
    def _soon(self) -> None:
        if self._ground is not None:
            self.run_worker(self._later(), group="figures", exclusive=True, exit_on_error=False)

    async def _later(self) -> None:
        await asyncio.sleep(_SOON_S)
        await self._work_out()

    async def _work_out(self) -> None:
        """Work the figures out under the limits that are typed."""
        limits, ground = self.query_one(LimitsForm).limits(), self._ground
        if limits is None or ground is None or self._plan is None or self._seen is None:
            self._say("", "")  # the form says what is wrong, where it is typed
            return
        allowed = self._allowed
        figures = await asyncio.to_thread(ground.under, limits)
        found = await asyncio.to_thread(check_plan, self._plan, self._seen, allowed)
        self._findings = (*found, *figures.warnings)
        told = [(_told(each), _COLOURS[each.severity]) for each in self._findings]
        more = len(told) - _MOST_FINDINGS
        rest = [(f"and {more:,} more", "$dim")] if more > 0 else []
        words = [*told[:_MOST_FINDINGS], *rest, ("", "")] if told else []
        self._report([*words, *((line, "") for line in lines(figures))])
        self._say("", "")

    @property
    def _allowed(self) -> Allowances:
        return Allowances(
            replication_factor_change=self.query_one("#allow-factor", Checkbox).value,
            below_min_isr=self.query_one("#allow-below", Checkbox).value,
        )

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
    @on(Input.Submitted, "#start-name")
    def _to_the_end(self) -> None:
        """Go to where the run is started, and say how."""
        name = self.query_one("#start-name", Input).value.strip()
        self.set_focus(self.query_one("#start-again", Input))
        self._say(f"Type {name} and press enter to start the run.", "$dim")

    @on(Input.Submitted, "#start-again")
    def _confirmed(self, event: Input.Submitted) -> None:
        name = self.query_one("#start-name", Input).value.strip()
        form = self.query_one(LimitsForm)
        limits = form.limits()
        problem = self._problem(name, event.value.strip()) or form.problem
        if problem or limits is None or self._plan is None:
            self._say(problem, "$error")
            return
        wanted = NewRun(
            name=name,
            plan=self._plan,
            plan_name=self._path.name,
            limits=limits,
            allowed=self._allowed,
        )
        self._starting = True
        self.run_worker(self._start(wanted), group="start", exit_on_error=False)

    def _problem(self, name: str, again: str) -> str | None:
        """Say why the run cannot be started now."""
        if self._starting:
            return "It is being started."
        if any(each.severity is Severity.PROBLEM for each in self._findings):
            return "The plan has problems, which are told above: nothing is sent."
        if any(each.kind is Kind.NOTHING_TO_DO for each in self._findings):
            return "All of it is at its target already: there is nothing to do."
        problem = run_name_problem(name)
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


def _told(finding: Finding) -> str:
    line = "" if finding.place is None else f"line {finding.place.line}: "
    allow = ""
    if finding.option is not None and finding.severity is Severity.PROBLEM:
        allow = " (may be allowed below)"
    return f"{finding.severity}: {line}{finding.sentence}{allow}"
