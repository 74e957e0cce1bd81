"""A screen that leads through the steps of a plan, and previews it before anything is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key, Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Checkbox, Static

from ktui.cluster.errors import ClusterError
from ktui.execution.engine.add_plan import CheckedExtraPlan
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.inputfile import Unreadable
from ktui.planning.check.findings import Finding, Severity
from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.read.problems import BadPlan
from ktui.tui.run_view import messages
from ktui.tui.run_view.generated_plan import GeneratedPlan, generate_plan
from ktui.tui.run_view.launchers import EngineLauncher
from ktui.tui.run_view.plan_choice import (
    ChosenPlan,
    ColouredLine,
    PlanPreview,
    finding_lines,
    plan_problem,
    read_chosen_plan,
)
from ktui.tui.run_view.plan_request import PlanRequest, PlanSource
from ktui.tui.run_view.recent_layout import RecentLayout
from ktui.tui.screens.forms.allowances import PlanAllowances
from ktui.tui.screens.plan.crumbs import Crumbs
from ktui.tui.screens.plan.preview import PreviewPane, coloured
from ktui.tui.screens.plan.preview_lines import EVERYTHING, Section
from ktui.tui.screens.plan.source import SourceForm
from ktui.tui.screens.plan.steps import CHECK, PLAN, Step, findings_of, worst_of
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.choices import Choices, FormChoices
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.own_errors import ReportsOwnErrors
from ktui.tui.widgets.services import services

_SIDE_BY_SIDE = 120
"""The screen width in cells from which the preview stands beside the form; below it otherwise."""
_FORM = 50
"""The width of the form in cells, where the preview stands beside it."""
_SOON_S = 0.2
"""Pause in typing, in seconds, after which the preview is computed again."""
_OTHER_PLAN = "This is the plan that was read before."
_DESCRIBE = (
    "What such a plan does to each broker is shown as you type. Nothing is sent before you have"
    " read what the check finds, and typed the run's name."
)
_MAKING = "Working out the plan …"
_TO_CHECK = "↵ checks this plan against the cluster."
NOT_READ = "No plan was read yet: choose one in step 1, and press enter there."
BEING_COMPUTED = "What it does is being worked out; press enter again."


def enter_bindings(word: str, tooltip: str) -> list[BindingType]:
    """Return the bindings of enter: it goes on, and in the last step it decides.

    Args:
        word: the word in the footer for the decision.
        tooltip: what the decision does.
    """
    return [
        Binding(
            "enter", "forward", "next", key_display="↵", priority=True, id="plan.next",
            tooltip="Go to the next step; what is typed stays",
        ),
        Binding(
            "enter", "decide", word, key_display="↵", priority=True, id=f"plan.{word}",
            tooltip=tooltip,
        ),
    ]  # fmt: skip


class SwitchPlanScreen(msgspec.Struct, frozen=True):
    """The operator chose the other way to execute the plan: in a run, or as a run of its own."""

    request: PlanRequest
    """The plan, as far as it was chosen and typed."""


PlanOutcome = RunDir | CheckedExtraPlan | SwitchPlanScreen
"""The folder of the run that was started; an extra plan to add; or the other screen to open."""


class PlanScreen(Screen[PlanOutcome | None], ReportsOwnErrors):
    """Returns what the operator has decided; None if the operator left the screen.

    One step is shown at a time. What is typed in the others stays.

    Args:
        engines: reads the cluster.
        state_dir: the folder of all runs.
        attached_run: the live run that the view is attached to; empty if plans cannot be added.
        request: the plan, if it was chosen before.
    """

    DEFAULT_CSS = """
    PlanScreen {
        background: $background;
        & > #plan-top { height: 1; padding: 0 2; margin-bottom: 1; }
        & #plan-title { width: auto; max-width: 50%; margin-right: 3; color: $header; }
        & #plan-title { text-wrap: nowrap; text-overflow: ellipsis; }
        & > #plan-body { scrollbar-size-vertical: 1; padding: 0 1 0 2; }
        & Input { height: 1; border: none; padding: 0 1; background: $cursor; width: 1fr; }
        & Input:focus { border: none; background-tint: $primary 25%; }
        & LimitsForm LimitInput { width: 12; }
        & LimitsForm .label, & LimitsForm #limits-hint { padding: 0; }
        & ThrottleForm RateInput { width: 30; }
        & .line { height: 1; }
        & #plan-file { height: auto; margin-bottom: 1; }
        & .line > Static { width: 16; }
        & Checkbox { border: none; height: 1; padding: 0; background: $background; }
        & Checkbox:focus { border: none; background: $cursor; }
        & .form, & .step { height: auto; width: 1fr; }
        & .found, & #plan-read, & #plan-answer { height: auto; }
        & .found { margin-top: 1; }
        & #plan-preview { margin-top: 1; }
        & .warned { color: $warning; height: auto; margin-bottom: 1; }
        & .means { color: $dim; height: auto; padding-left: 17; }
        & #line-by { height: auto; }
        & .-away { display: none; }
        & #plan-columns { layout: vertical; height: auto; }
        &.-wide #plan-columns { layout: horizontal; }
        &.-wide .form { width: 50; margin-right: 2; }
        &.-wide #plan-preview { margin-top: 0; }
    }
    """
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape", "back", "back", key_display="esc",
            tooltip="Go to the step before, or leave the first one; nothing is sent",
        ),
        Binding("tab", "app.focus_next", "next field", tooltip="Go to the next field"),
        Binding(
            "pagedown", "page(1)", "more", key_display="pgdn", priority=True,
            tooltip="Scroll down; pgup scrolls up",
        ),
        Binding("pageup", "page(-1)", "back up", show=False, priority=True),
    ]  # fmt: skip
    give_ids("plan", BINDINGS)
    STEPS: ClassVar[tuple[Step, ...]]
    """The steps, in order: the first reads the plan, and the last decides."""
    TITLE_WORDS: ClassVar[str]
    """The title of the screen; `{}` stands for the live run."""
    BEFORE: ClassVar[str]
    """The text in place of the preview, before a plan was chosen."""
    ADDS: ClassVar[bool]
    """Whether the screen adds the plan to a run."""

    def __init__(
        self,
        engines: EngineLauncher,
        state_dir: StateDir,
        *,
        attached_run: str = "",
        request: PlanRequest | None = None,
    ) -> None:
        super().__init__()
        self._engines, self._state_dir = engines, state_dir
        self._attached_run, self._request = attached_run, request or PlanRequest()
        self._chosen: ChosenPlan | None = None
        self._reading: PlanRequest | None = None
        """What was read last."""
        self._found: Sequence[Finding] = ()
        self._place = 0
        """The index of the step that is shown."""
        self._layout = RecentLayout(engines)
        self._sketches = 0
        """How many times something was typed or chosen that a plan is made from."""
        self._changes = 0
        """How many times something was typed or chosen that the preview depends on."""
        self.previews = 0
        """How many previews were begun; the results of older ones are discarded."""

    def compose(self) -> ComposeResult:
        """Lay out the steps, the fields of each, the preview, and the keys."""
        self.set_class(self._fits_side_by_side, "-wide", update=False)
        yield StatusHeader()
        yield from self.above()
        with Horizontal(id="plan-top"):
            title = self.TITLE_WORDS.format(self._attached_run)
            yield Static(title, id="plan-title", markup=False)
            yield Crumbs([step.name for step in self.STEPS])
        with VerticalScroll(id="plan-body", can_focus=False):
            yield Static(id="plan-live", classes="warned -away", markup=False)
            yield Vertical(*self._plan_fields(), id="plan-file")
            with Vertical(id="plan-columns"):
                with Vertical(classes="form"):
                    for step in self.STEPS:
                        fields = self.fields(step.name)
                        yield Vertical(*fields, id=f"step-{step.name}", classes="step -away")
                    yield Static(id="plan-answer", markup=False)
                yield PreviewPane()
        yield FooterKeys()

    # ----------------------------------------------------- what each of the screens defines

    def above(self) -> Iterator[Widget]:
        """Return the widgets above the steps."""
        yield from ()

    def fields(self, step: str) -> Iterator[Widget]:
        """Return the fields of a step."""
        if step == PLAN:
            yield Static(self.BEFORE, id="plan-read", markup=False)
        elif step == CHECK:
            yield PlanAllowances()
            yield Static(id="plan-findings", classes="found", markup=False)

    def choices(self) -> Iterator[Widget]:
        """Return the choices below the plan's path."""
        yield from ()

    def open_form(self, chosen: ChosenPlan) -> None:
        """Fill the fields with their defaults: a plan was read."""

    answer = ""
    """The answer below the fields of the step."""

    async def show_obstacles(self) -> None:
        """Show what prevents any plan from being executed now."""
        raise NotImplementedError

    async def preview(self) -> None:
        """Preview the plan with what is chosen and typed, and show the result."""
        raise NotImplementedError

    def decide(self) -> None:
        """Do what the screen is for, if the name is typed."""
        raise NotImplementedError

    def entered(self, step: str) -> None:
        """Show what there is to say about a step that is opened, or has changed."""
        del step
        self.show_answer("", "")

    def obstacle(self, step: str) -> str | None:
        """Return why one cannot go on from a step; empty if its form says so, None if one can."""
        return plan_problem(self._found) if step == CHECK else None

    def sections(self, step: str) -> Sequence[Section]:
        """Return the sections of the preview below a step, in a terminal with little room."""
        return EVERYTHING if step in {PLAN, CHECK} else ()

    # ------------------------------------------------------------------------- the steps

    @property
    def step(self) -> Step:
        """The step that is shown."""
        return self.STEPS[self._place]

    def go_to(self, place: int) -> None:
        """Show a step, and focus its first field."""
        self.query_one(f"#step-{self.step.name}").add_class("-away")
        self._place = place
        self.query_one(f"#step-{self.step.name}").remove_class("-away")
        self.entered(self.step.name)
        self._show_step()
        self.query_one("#plan-body").scroll_home(animate=False)
        first = self.step.first_field if self._place else self._source.first_field
        self.set_focus(self.query_one(first))

    def _show_step(self) -> None:
        self.query_one(Crumbs).show(self._place, self._marks())
        self.query_one("#plan-live").set_class(not self._shows_notes, "-away")
        self.query_one("#plan-file").set_class(self._place > 0, "-away")
        sections = EVERYTHING if self.has_class("-wide") else self.sections(self.step.name)
        self.query_one(PreviewPane).show_sections(sections)
        self.call_after_refresh(self.refresh_bindings)

    def _marks(self) -> list[Severity | None]:
        """Return the worst of each step."""
        blocked = [
            Severity.PROBLEM if self._chosen and self.obstacle(step.name) == "" else None
            for step in self.STEPS
        ]
        found = [worst_of(step.name, self._found) for step in self.STEPS]
        return [block or worst for block, worst in zip(blocked, found, strict=True)]

    @property
    def _is_last(self) -> bool:
        return self._place == len(self.STEPS) - 1

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let enter go on in every step but the last, where it decides."""
        del parameters
        if action == "page":
            return self.is_mounted and self.query_one("#plan-body").max_scroll_y > 0
        return {"forward": not self._is_last, "decide": self._is_last}.get(action, True)

    def action_page(self, way: int) -> None:
        """Scroll the step and its preview."""
        body = self.query_one("#plan-body")
        if way > 0:
            body.scroll_page_down(animate=False)
        else:
            body.scroll_page_up(animate=False)

    def action_forward(self) -> None:
        """Go to the next step, or read the plan first."""
        self._enter_once_typed()

    def _enter_once_typed(self) -> None:
        """Act once the field has taken in what was typed before this key, which has priority."""
        (self.focused or self).call_later(self._enter)

    def _enter(self) -> None:
        """Go on from the step that is shown by then."""
        if self._is_last:
            self.decide()
        else:
            self._forward()

    def _forward(self) -> None:
        stale = self._chosen is None or self._source.request != self._reading
        if self._place == 0 and stale:
            self._read_soon()
            return
        if self.step.name == CHECK and self.computes:
            self.show_answer(BEING_COMPUTED, "$dim")
            return
        problem = self.obstacle(self.step.name)
        if problem is None:
            self.go_to(self._place + 1)
        elif problem:
            self.show_answer(problem, "$error")

    def action_decide(self) -> None:
        """Do what the screen is for."""
        self._enter_once_typed()

    def action_back(self) -> None:
        """Go to the step before; from the first one, leave. Nothing is sent."""
        if self._place:
            self.go_to(self._place - 1)
        else:
            self.dismiss(None)

    @on(Crumbs.Asked)
    def _asked_for_step(self, event: Crumbs.Asked) -> None:
        """Go to the step that was clicked, as far as enter would go."""
        if event.place < self._place:
            self.go_to(event.place)
        while self._place < event.place:
            before = self._place
            self._forward()
            if self._place == before:
                return

    # ------------------------------------------------------------------------- the plan

    def _plan_fields(self) -> Iterator[Widget]:
        """Return the fields of the first step, which have the whole width: paths are long."""
        if self._attached_run:
            ways = [f"in run {self._attached_run}", "as a run of its own"]
            yield FormChoices("carry it out", ways, id="plan-way", place=not self.ADDS)
        yield SourceForm(self._request)
        yield from self.choices()

    def on_mount(self) -> None:
        """Show what prevents any plan from being executed; read the plan if its path is known."""
        self.go_to(0)
        if self._request.words:
            self._read_soon()
        else:
            self.run_worker(self.show_obstacles(), group="live", exit_on_error=False)
        if self._request != PlanRequest():
            # the operator has just used this choice, and may change it back
            self.query("#plan-way").focus()

    @property
    def form_width(self) -> int:
        """The width of the fields in cells."""
        return _FORM if self._fits_side_by_side else max(_FORM, self.app.size.width - 4)

    def show_notes(self, words: str) -> None:
        """Show what prevents plans from being executed, or a note to read before."""
        self.query_one("#plan-live", Static).update(Content(words))
        self._notes = words
        self._show_step()

    _notes = ""

    @property
    def _shows_notes(self) -> bool:
        """Notes are for the first step and for the last one."""
        return bool(self._notes) and (self._place == 0 or self._is_last)

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
        self.set_class(self._fits_side_by_side, "-wide")
        self._show_step()

    @on(Choices.Chosen, "#plan-way")
    def _other_way(self, event: Choices.Chosen) -> None:
        if bool(event.place) is self.ADDS:
            self.dismiss(SwitchPlanScreen(self._source.request))

    @property
    def _source(self) -> SourceForm:
        return self.query_one(SourceForm)

    def _read_soon(self) -> None:
        request = self._source.request
        if empty := self._source.empty_field:
            self.set_focus(self.query_one(empty))
            return
        reads = "plan" in {worker.group for worker in self.workers}
        if not (reads and request == self._reading):
            self._reading = request
            self.show_answer("", "")
            self.run_worker(self._read(request), group="plan", exclusive=True, exit_on_error=False)

    async def _read(self, request: PlanRequest) -> None:
        """Read or generate the plan, and read the cluster; show any error in full."""
        self._chosen = None
        self._source.show_problem(None)
        self.show_preview(None)
        await self.show_obstacles()
        self._show_read([(f"Reading {request.words}, and looking at the cluster …", "$dim")])
        cluster_id = services(self).cluster_id or ""
        try:
            chosen = await read_chosen_plan(request, self._engines, self._state_dir, cluster_id)
        except CannotMake as problem:
            self._show_no_plan(problem)
            return
        except (BadPlan, ClusterError, RunProblem) as problem:
            self._show_read([(str(problem), "$error")])
            return
        except Unreadable as why:
            self._show_read([(f"{request.words}: {why}", "$error")])
            return
        self._chosen = chosen
        self.open_form(chosen)
        await self.preview()
        if self._source.request != request:
            self._another_plan()

    # ---------------------------------------------------------- a plan that is made while one types

    def _sketch_soon(self) -> None:
        """Make the plan once typing pauses, and show what it does; nothing is checked yet."""
        self._sketches += 1
        if "sketch" not in {worker.group for worker in self.workers}:
            self.run_worker(self._sketch_later(), group="sketch", exit_on_error=False)

    async def _sketch_later(self) -> None:
        """Make the plan that is typed, one at a time, until nothing more has been typed."""
        made = -1
        while made != self._sketches:
            made = self._sketches
            await asyncio.sleep(_SOON_S)
            if made == self._sketches:
                await self._sketch()

    async def _sketch(self) -> None:
        request = self._source.request
        if request.source is PlanSource.FILE or self._source.empty_field:
            return
        if self._is_checked(request):
            return
        self._show_read([(_MAKING, "$dim")])
        sketch: GeneratedPlan | None = None
        problem: CannotMake | ClusterError | None = None
        try:
            layout = await self._layout.read()
            sketch = await asyncio.to_thread(generate_plan, request, layout)
        except (CannotMake, ClusterError) as why:
            problem = why
        if request != self._source.request or self._is_checked(request):
            return  # what was typed has changed, or enter was pressed in the meantime
        if isinstance(problem, CannotMake):
            self._show_no_plan(problem)
            return
        self.query_one(PreviewPane).show_sketch(sketch)
        self._show_read([(str(problem), "$error") if problem else (_TO_CHECK, "$dim")])

    def _is_checked(self, request: PlanRequest) -> bool:
        """Return whether enter was pressed for just this plan, and there is none newer."""
        reads = "plan" in {worker.group for worker in self.workers}
        return request == self._reading and (reads or self._chosen is not None)

    def _show_no_plan(self, problem: CannotMake) -> None:
        """Show at its field why there is no such plan."""
        self._source.show_problem(problem)
        self.query_one(PreviewPane).show_sketch(None)
        self._show_read([])

    def _show_read(self, lines: Sequence[ColouredLine]) -> None:
        show_lines(self, "#plan-read", lines)

    # ---------------------------------------------------------------------- the preview

    @on(Checkbox.Changed, "PlanAllowances AllowanceBox")
    def preview_soon(self) -> None:
        """Preview the plan again once typing pauses; the last answer is about what was before."""
        self.show_answer("", "")
        self._changes += 1
        if self._chosen is not None and not self.computes:
            self.run_worker(self._preview_later(), group="figures", exit_on_error=False)

    async def _preview_later(self) -> None:
        """Preview what is typed, one preview at a time, until nothing more has been typed."""
        previewed = -1
        while previewed != self._changes:
            previewed = self._changes
            await asyncio.sleep(_SOON_S)
            if previewed == self._changes:
                await self.preview()

    @property
    def computes(self) -> bool:
        """Whether the preview does not show yet what is typed."""
        return bool({"figures", "plan"} & {worker.group for worker in self.workers})

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

    def show_preview(self, preview: PlanPreview | None) -> None:
        """Show what the plan would do, and each finding in its step; None for no plan."""
        self._found = () if preview is None else preview.findings
        self.query_one(PreviewPane).show(preview)
        lines = [] if preview is None else preview.lines()
        show_lines(self, "#plan-findings", lines or [("No problem was found.", "$dim")])
        if preview is not None:
            self._show_found()
        if self.answer == BEING_COMPUTED:
            self.entered(self.step.name)
        self._show_step()

    def _show_found(self) -> None:
        """Show what is wrong with the plan that was read, or what ktui could not plan."""
        problems = finding_lines(findings_of(PLAN, self._found))
        undone = [] if self._chosen is None else self._chosen.undone
        self._show_read([*(problems or [(self._is_read, "$dim")]), *undone])

    @property
    def _is_read(self) -> str:
        later = [
            f"{place} {step.name}"
            for place, step in enumerate(self.STEPS, 1)
            if place > 1 and worst_of(step.name, self._found) is not None
        ]
        where = f" Read what is found in step {' and '.join(later)}." if later else ""
        return f"The plan is read; ↵ goes on.{where}"

    def show_outdated(self, why: str) -> None:
        """Show why the preview is not of what is typed now; empty if it is."""
        self.query_one(PreviewPane).show_outdated(why)
        self._show_step()

    @on(SourceForm.Changed)
    def _another_plan(self) -> None:
        """Show that what was read is not the plan that is typed, and what that one would do."""
        request = self._source.request
        self._source.show_problem(None)
        is_read = self._chosen is not None and request == self._reading
        makes = request.source is not PlanSource.FILE
        if is_read or not makes or self._source.empty_field:
            self.query_one(PreviewPane).show_sketch(None)
        if self._chosen is not None:
            self.show_outdated("" if is_read else _OTHER_PLAN)
        if is_read:
            self._show_found()
        elif makes:
            self._show_read([(_DESCRIBE if self._source.empty_field else _MAKING, "$dim")])
            self._sketch_soon()
        elif self._chosen is not None:
            self._show_read([("Press ↵ to read it.", "$dim")])
        elif not self._is_checked(request):
            self._show_read([(self.BEFORE, "")])

    def show_answer(self, words: str, colour: str) -> None:
        """Show an answer below the fields of the step."""
        self.answer = words
        line = show_lines(self, "#plan-answer", [(words, colour)] if words else [])
        if words:
            self.call_after_refresh(line.scroll_visible, animate=False)


def show_lines(screen: Screen[Any], selector: str, lines: Sequence[ColouredLine]) -> Static:
    """Show lines in their colours; without any, the widget takes no room."""
    widget = screen.query_one(selector, Static)
    widget.update(Content("\n").join(map(coloured, lines)))
    widget.set_class(not lines, "-away")
    return widget
