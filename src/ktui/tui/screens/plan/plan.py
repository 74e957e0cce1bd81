"""A screen that leads through the steps of a plan, and previews it before anything is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key, Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Checkbox, ContentSwitcher, Static

from ktui.cluster.errors import ClusterError
from ktui.execution import RunProblem
from ktui.execution.engine.add_plan import CheckedExtraPlan
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.inputfile import Unreadable
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Finding, FindingKind, NeededPermission, Severity
from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.intents.registry import INTENTS
from ktui.planning.json_cursor import BadPlan
from ktui.planning.plan import Plan
from ktui.preview.facts import Terms
from ktui.preview.preview import PlanPreview, start_findings
from ktui.tui.run_view import messages
from ktui.tui.run_view.launchers import EngineLauncher, RecentLayout
from ktui.tui.run_view.plan_request import (
    FILE,
    ChosenPlan,
    ColouredLine,
    GeneratedPlan,
    PlanRequest,
    finding_lines,
    generate_plan,
    plan_problem,
    read_chosen_plan,
)
from ktui.tui.screens.forms import PlanAllowances
from ktui.tui.screens.plan.panes import Crumbs, OnceTyped, PreviewPane, SourceForm, show_lines
from ktui.tui.screens.plan.preview_lines import (
    CHECK,
    EVERYTHING,
    PLAN,
    PlanStep,
    PreviewSection,
    findings_of,
    worst_of,
)
from ktui.tui.screens.watch.run_banner import RunBanner
from ktui.tui.widgets.bindings import bind, give_ids, hidden
from ktui.tui.widgets.fields import Choices, FormChoices
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.services import ReportsOwnErrors, services

_OTHER_PLAN = "This is the plan that was read before."
_DESCRIBE = (
    "What such a plan does to each broker is shown as you type. Nothing is sent before you have"
    " read what the check finds, and typed the run's name."
)
_MAKING = "Working out the plan …"
_TO_CHECK = "↵ checks this plan against the cluster."
NO_PLAN = Plan(())
_AT_OPENING = (FindingKind.NOT_PERMITTED, FindingKind.OWNER)
NOT_READ = "No plan was read yet: choose one in step 1, and press enter there."
BEING_COMPUTED = "What it does is being worked out; press enter again."
_READS, _MEASURES = "plan", "measuring"
"""The groups of the workers that read the plan, and measure what a throttle is compared with."""


def _made_plans() -> Content:
    """Return the plans that need no file, each with what it makes."""
    heading = Content.styled("Plans that need no file:", "$header")
    made = (
        Content.assemble((f"{name.replace('-', ' ')}: ", "bold"), (each.means, "$dim"))
        for name, each in INTENTS.items()
    )
    return Content("\n").join([heading, *made])


class SwitchPlanScreen(msgspec.Struct, frozen=True):
    """The operator chose the other way to execute the plan: in a run, or as a run of its own."""

    request: PlanRequest


PlanOutcome = RunDir | CheckedExtraPlan | SwitchPlanScreen


_SIDE_BY_SIDE = 120
"""The screen width in cells from which the preview stands beside the form; below it otherwise."""
_FORM = 50  # the width of the form in cells, where the preview stands beside it


def enter_bindings(word: str, tooltip: str) -> list[BindingType]:
    """Return the bindings of enter: it goes on, and in the last step it decides."""
    return [
        bind(
            "enter", "forward", "next",
            "Go to the next step; what is typed stays",
            key_display="↵", priority=True, id="plan.next",
        ),
        bind(
            "enter", "explain", "why not",
            "Say why the plan cannot be started as it is",
            key_display="↵", priority=True, id="plan.why-not",
        ),
        bind("enter", "decide", word, tooltip, key_display="↵", priority=True, id=f"plan.{word}"),
    ]  # fmt: skip


class PlanScreen(Screen[PlanOutcome | None], ReportsOwnErrors):
    """Returns what was decided, in steps of which the first reads the plan; None if it was left.

    One step is shown at a time; what is typed in the others stays.
    """

    DEFAULT_CSS = """
    PlanScreen {
        background: $background;
        & > #plan-top { height: 1; padding: 0 2; margin-bottom: 1; }
        & #plan-title { width: auto; max-width: 50%; margin-right: 3; color: $header; }
        & #plan-title { text-wrap: nowrap; text-overflow: ellipsis; }
        & > #plan-body { scrollbar-size-vertical: 1; padding: 0 1 0 2; }
        & #plan-file { height: auto; margin-bottom: 1; }
        & .form, & .step { height: auto; width: 1fr; }
        & #plan-answer { height: auto; }
        & #plan-preview { margin-top: 1; }
        & .warned { color: $warning; height: auto; margin-bottom: 1; }
        & .-away { display: none; }
        & #plan-columns { layout: vertical; height: auto; }
        &.-wide #plan-columns { layout: horizontal; }
        &.-wide .form { width: 50; margin-right: 2; }
        & #plan-sources { width: 1fr; height: auto; margin-top: 1; }
        &.-wide #plan-preview, &.-wide #plan-sources { margin-top: 0; }
        & Input { width: 1fr; }
        & Input:focus { background-tint: $primary 25%; }
        & LimitsForm LimitInput { width: 12; }
        & LimitsForm .label, & LimitsForm #limits-hint { padding: 0; }
        & ThrottleForm RateInput { width: 30; }
        & .line { height: 1; }
        & .line > Static { width: 16; }
        & Checkbox { border: none; height: 1; padding: 0; background: $background; }
        & Checkbox:focus { border: none; background: $cursor; }
        & .found, & #plan-read { height: auto; }
        & .found { margin-top: 1; }
        & .means { color: $dim; height: auto; padding-left: 17; }
    }
    """
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "escape", "back", "back",
            "Go to the step before, or leave the first one; nothing is sent", key_display="esc",
        ),
        bind("tab", "app.focus_next", "next field", "Go to the next field", priority=True),
        hidden(
            "shift+tab", "app.focus_previous", "field before",
            "Go to the field before", priority=True,
        ),
        hidden("up", "app.focus_previous", "up", "Go to the field above"),
        hidden("down", "app.focus_next", "down", "Go to the field below"),
        bind(
            "pagedown", "page(1)", "more",
            "Scroll down; pgup scrolls up", key_display="pgdn", priority=True,
        ),
        hidden("pageup", "page(-1)", "back up", priority=True),
        bind(
            "ctrl+g", "findings", "all findings",
            "Go to the check, which lists all that was found",
            key_display="^g", priority=True, id="plan.findings",
        ),
    ]  # fmt: skip
    give_ids("plan", BINDINGS)
    STEPS: ClassVar[tuple[PlanStep, ...]]
    TITLE_WORDS: ClassVar[str]
    BEFORE: ClassVar[str]
    NEED: ClassVar[NeededPermission]
    ADDS: ClassVar[bool]

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
        self._found: Sequence[Finding] = ()
        self._layout = RecentLayout(engines)
        self._sketching = OnceTyped(self, "sketch", self._sketch)
        self._previewing = OnceTyped(self, "figures", self.preview)
        self.measures = False
        self.previews = 0
        self.place = 0
        self.answer = self._notes = ""

    def compose(self) -> ComposeResult:
        self.set_class(self._fits_side_by_side, "-wide", update=False)
        yield StatusHeader()
        if self.ADDS:
            yield RunBanner()
        with Horizontal(id="plan-top"):
            title = self.TITLE_WORDS.format(self._attached_run)
            yield Static(title, id="plan-title", markup=False)
            yield Crumbs([step.name for step in self.STEPS])
        with VerticalScroll(id="plan-body", can_focus=False):
            yield Static(id="plan-live", classes="warned -away", markup=False)
            with Vertical(id="plan-file"):
                if self._attached_run:
                    ways = [f"in run {self._attached_run}", "as a run of its own"]
                    yield FormChoices("carry it out", ways, id="plan-way", place=not self.ADDS)
                yield SourceForm(self._request)
                yield from self.choices()
            with Vertical(id="plan-columns"):
                with Vertical(classes="form"):
                    with ContentSwitcher():
                        for step in self.STEPS:
                            fields = self.fields(step.name)
                            yield Vertical(*fields, id=f"step-{step.name}", classes="step")
                    yield Static(id="plan-answer", markup=False)
                yield Static(_made_plans(), id="plan-sources", classes="-away", markup=False)
                yield PreviewPane()
        yield FooterKeys()

    def fields(self, step: str) -> Iterator[Widget]:
        if step == PLAN:
            yield Static(id="plan-read", markup=False)
        elif step == CHECK:
            yield PlanAllowances()
            yield Static(id="plan-findings", classes="found", markup=False)

    def choices(self) -> Iterator[Widget]:
        yield from ()

    def open_form(self, chosen: ChosenPlan) -> None:
        """Fill the fields with their defaults: a plan was read."""

    @property
    def joins(self) -> str:
        return self._attached_run if self.ADDS else ""

    @property
    def canary(self) -> str:
        return ""

    async def show_obstacles(self) -> None:
        raise NotImplementedError

    async def preview(self) -> None:
        raise NotImplementedError

    def decide(self) -> None:
        raise NotImplementedError

    def entered(self, step: str) -> None:
        del step
        self.show_answer("", "")

    def obstacle(self, step: str) -> str | None:
        """Return why one cannot go on from a step; empty if its form says so, None if one can."""
        return plan_problem(self._found) if step == CHECK else None

    def sections(self, step: str) -> Sequence[PreviewSection]:
        return EVERYTHING if step in {PLAN, CHECK} else ()

    def mark(self, step: str) -> Severity | None:
        if self._chosen is not None and self.obstacle(step) == "":
            return Severity.PROBLEM
        return worst_of(step, self._found)

    @property
    def step(self) -> PlanStep:
        return self.STEPS[self.place]

    @property
    def is_last(self) -> bool:
        return self.place == len(self.STEPS) - 1

    def go_to(self, place: int) -> None:
        self.place = place
        self.query_one(ContentSwitcher).current = f"step-{self.step.name}"
        self.entered(self.step.name)
        self.show_step()
        self.query_one("#plan-body").scroll_home(animate=False)
        first = self.step.first_field if self.place else self._source.first_field
        self.set_focus(self.query_one(first))

    def show_step(self) -> None:
        marks = [self.mark(step.name) for step in self.STEPS]
        self.query_one(Crumbs).show(self.place, marks)
        self.query_one("#plan-live").set_class(
            not self._notes or 0 < self.place < len(self.STEPS) - 1, "-away"
        )
        self.query_one("#plan-file").display = self.place == 0
        step = self.step.name
        sections = EVERYTHING if self.has_class("-wide") else self.sections(step)
        if step == CHECK:
            sections = [each for each in sections if each is not PreviewSection.FINDINGS]
        self.query_one(PreviewPane).show_sections(sections, step)
        self.call_after_refresh(self.refresh_bindings)

    @on(Crumbs.Asked)
    def _asked_for_step(self, event: Crumbs.Asked) -> None:
        if event.place < self.place:
            self.go_to(event.place)
        while self.place < event.place:
            before = self.place
            self.go_on()
            if self.place == before:
                return

    def on_mount(self) -> None:
        self.go_to(0)
        if self._request.words:
            self._read_soon()
            # the operator may have just used this choice, and may change it back
            self.query("#plan-way").focus()
            return
        self.run_worker(self.show_obstacles(), group="live", exit_on_error=False)
        made = self._request.source != FILE
        self._show_read([(_DESCRIBE if made else self.BEFORE, "$dim" if made else "")])

    def go_on(self) -> None:
        stale = self._chosen is None or self._source.request != self._reading
        problem = self.obstacle(self.step.name)
        if self.place == 0 and stale:
            self._read_soon()
        elif self.step.name == CHECK and self.computes:
            self.show_answer(BEING_COMPUTED, "$dim")
        elif problem is None:
            self.go_to(self.place + 1)
        elif problem:
            self.show_answer(problem, "$error")

    @property
    def gate_words(self) -> str:
        gate = services(self).cancel_gate
        return messages.GATE_SHUT.format(gate) if gate else ""

    @on(Choices.Chosen, "#plan-way")
    def _other_way(self, event: Choices.Chosen) -> None:
        if bool(event.place) is self.ADDS:
            self.dismiss(SwitchPlanScreen(self._source.request))

    def action_findings(self) -> None:
        self.go_to([step.name for step in self.STEPS].index(CHECK))

    async def at_opening(self) -> list[str]:
        """Return what refuses any plan, before one is read: a permission, or another owner."""
        need = msgspec.structs.replace(self.NEED, subject="a plan")
        try:
            facts = await self._engines.facts.read(NO_PLAN, need, joins=self.joins)
        except (ClusterError, RunProblem):  # as soon as a plan is read, they are shown
            return []
        found = start_findings(NO_PLAN, facts, Terms(limits=Limits()), need)
        return [each.sentence for each in found if each.kind in _AT_OPENING]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        if action == "findings":
            return bool(self._found) and self.step.name != CHECK
        if action == "page":
            return self.is_mounted and self.query_one("#plan-body").max_scroll_y > 0
        blocked = self.step.name == CHECK and self.obstacle(CHECK) is not None
        may = {
            "forward": not self.is_last and not blocked,
            "explain": blocked,
            "decide": self.is_last,
        }
        return may.get(action, True)

    def action_page(self, way: int) -> None:
        body = self.query_one("#plan-body")
        if way > 0:
            body.scroll_page_down(animate=False)
        else:
            body.scroll_page_up(animate=False)

    def action_forward(self) -> None:
        (self.focused or self).call_later(self._enter)  # once what was typed before has come

    action_decide = action_explain = action_forward

    def _enter(self) -> None:
        if self.is_last:
            self.decide()
        else:
            self.go_on()

    def action_back(self) -> None:
        if self.place:
            self.go_to(self.place - 1)
        else:
            self.dismiss(None)

    def on_key(self, event: Key) -> None:
        """Letters that no field uses are no commands of the app here."""
        if event.character is not None and event.character.isalpha():
            event.stop()

    @property
    def form_width(self) -> int:
        return _FORM if self._fits_side_by_side else max(_FORM, self.app.size.width - 4)

    @property
    def _fits_side_by_side(self) -> bool:
        return self.app.size.width >= _SIDE_BY_SIDE

    @on(Resize)
    def _fit(self) -> None:
        self.set_class(self._fits_side_by_side, "-wide")
        self.show_step()

    def show_notes(self, words: str) -> None:
        self.query_one("#plan-live", Static).update(Content(words))
        self._notes = words
        self.show_step()

    def show_answer(self, words: str, colour: str) -> None:
        self.answer = words
        line = show_lines(self, "#plan-answer", [(words, colour)] if words else [])
        if words:
            self.call_after_refresh(line.scroll_visible, animate=False)

    @property
    def _source(self) -> SourceForm:
        return self.query_one(SourceForm)

    @property
    def _reads(self) -> bool:
        return _READS in {worker.group for worker in self.workers}

    def _read_soon(self) -> None:
        request = self._source.request
        if empty := self._source.empty_field:
            self.set_focus(self.query_one(empty))
        elif not (self._reads and request == self._reading):
            self._reading = request
            self.show_answer("", "")
            self.run_worker(self._read(request), group=_READS, exclusive=True, exit_on_error=False)

    async def _read(self, request: PlanRequest) -> None:
        self._chosen = None
        self._source.show_problem(None)
        self.show_preview(None)
        await self.show_obstacles()
        self._show_read([(f"Reading {request.words}, and looking at the cluster …", "$dim")])
        try:
            chosen = await read_chosen_plan(request, self._engines, self.NEED, self.joins)
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

    def _show_read(self, lines: Sequence[ColouredLine]) -> None:
        show_lines(self, "#plan-read", lines)
        begins = [words for words, _ in lines] == [self.BEFORE]
        self.query_one("#plan-sources").set_class(not begins, "-away")
        self.query_one(PreviewPane).set_class(begins, "-away")

    async def _sketch(self) -> None:
        request = self._source.request
        if request.source == FILE or self._source.empty_field:
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
        return request == self._reading and (self._reads or self._chosen is not None)

    def _show_no_plan(self, problem: CannotMake) -> None:
        self._source.show_problem(problem)
        self.query_one(PreviewPane).show_sketch(None)
        self._show_read([])

    @on(SourceForm.Changed)
    def _another_plan(self) -> None:
        request = self._source.request
        self._source.show_problem(None)
        is_read = self._chosen is not None and request == self._reading
        makes = request.source != FILE
        if is_read or not makes or self._source.empty_field:
            self.query_one(PreviewPane).show_sketch(None)
        if self._chosen is not None:
            self.show_outdated("" if is_read else _OTHER_PLAN)
        if is_read:
            self._show_found()
        elif makes:
            self._show_read([(_DESCRIBE if self._source.empty_field else _MAKING, "$dim")])
            self._sketching.soon()
        elif self._chosen is not None:
            self._show_read([("Press ↵ to read it.", "$dim")])
        elif not self._is_checked(request):
            self._show_read([(self.BEFORE, "")])

    @on(Checkbox.Changed, "PlanAllowances AllowanceBox")
    def preview_soon(self) -> None:
        """Preview the plan again once typing pauses; the last answer is about what was before."""
        self.show_answer("", "")
        if self._chosen is not None and not self._reads:
            self._previewing.soon()

    @property
    def computes(self) -> bool:
        return self._previewing.is_busy or self._reads

    def measure(self, chosen: ChosenPlan) -> None:
        """Measure the inbound rates that limit a throttle, and preview again. This happens once."""
        if not chosen.measured and _MEASURES not in {w.group for w in self.workers}:
            self.run_worker(self._measure(chosen), group=_MEASURES, exit_on_error=False)

    async def _measure(self, chosen: ChosenPlan) -> None:
        try:
            measured = await chosen.with_throttle(self._engines.facts, self.canary)
        except ClusterError as problem:
            self.show_answer(str(problem), "$error")
            return
        if self._chosen is chosen:
            self._chosen = measured
            await self.preview()

    def show_preview(
        self, preview: PlanPreview | None, in_run: Sequence[ColouredLine] = ()
    ) -> None:
        chosen, self._found = self._chosen, () if preview is None else preview.findings
        self.query_one(PreviewPane).show(
            preview, in_run, None if in_run or chosen is None else chosen.change
        )
        self.measures = (
            preview is not None
            and bool(preview.throttle)
            and chosen is not None
            and not chosen.measured
        )
        notes = [] if preview is None or chosen is None else chosen.notes
        lines = [*notes, *finding_lines(self._found, measuring=self.measures)]
        show_lines(self, "#plan-findings", lines or [("No problem was found.", "$dim")])
        if preview is not None:
            self._show_found()
        if self.answer == BEING_COMPUTED:
            self.entered(self.step.name)
        self.show_step()

    def _show_found(self) -> None:
        problems = finding_lines(findings_of(PLAN, self._found))
        made = [] if self._chosen is None else [*self._chosen.budget, *self._chosen.undone]
        self._show_read([*(problems or [(self._is_read, "$dim")]), *made])

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
        self.query_one(PreviewPane).show_outdated(why)
        self.show_step()
