"""The screen to choose a plan, preview it, and start it as a run."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Checkbox, Input, Static

from ktui.cluster.broker import INTERNAL_TOPICS
from ktui.cluster.errors import ClusterError
from ktui.cluster.text import clean
from ktui.execution import RunProblem
from ktui.execution.forecast.run_progress import live_and_resumable
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import default_name, run_name_problem
from ktui.execution.run.options import RunOptions
from ktui.execution.run.text import limit_figures
from ktui.pacing.limits import Limits, Order, Shape
from ktui.planning.check.findings import TO_START
from ktui.planning.throttle_rates import NO_THROTTLE, canary_in_words
from ktui.preview.preview import PlanPreview
from ktui.preview.text import time_text
from ktui.quantities import as_bytes, as_count
from ktui.tui.run_view import messages
from ktui.tui.run_view.launchers import RehearsedPlan
from ktui.tui.run_view.plan_request import (
    MEASURING,
    ChosenPlan,
    ColouredLine,
    finding_lines,
    plan_problem,
)
from ktui.tui.screens.forms import (
    AllowanceBox,
    ChangeForm,
    LimitsForm,
    PlanAllowances,
    ThrottleForm,
)
from ktui.tui.screens.plan.panes import show_lines
from ktui.tui.screens.plan.plan import BEING_COMPUTED, NOT_READ, PlanScreen, enter_bindings
from ktui.tui.screens.plan.preview_lines import (
    CHECK,
    LIMITS,
    PLAN,
    THROTTLE,
    PlanStep,
    PreviewSection,
    findings_of,
)
from ktui.tui.screens.runs import RehearsalEnd, RehearsalScreen
from ktui.tui.screens.watch.run_banner import shape_in_words
from ktui.tui.widgets.bindings import bind
from ktui.tui.widgets.fields import TextField
from ktui.tui.widgets.services import services

_LABEL = 16


def start_facts(
    plan: str, throttle: str, canary: str, preview: PlanPreview, width: int, *, rehearsed: str = ""
) -> Content:
    """Return the plan, what it moves, its limits, its throttle and its time, a line each."""
    pairs = [
        ("plan", clean(plan)),
        ("moves", _moves(preview)),
        ("limits", "  ".join([*limit_figures(preview.limits), shape_in_words(preview.limits)])),
        ("throttle", throttle),
    ]
    pairs += [("canary", canary)] if canary else []
    pairs += [("time", time_text(preview))] if preview.moves else []
    pairs += [("rehearsed", rehearsed)] if rehearsed else []
    return Content("\n").join(
        Content.assemble((f"{'' if n else name:<{_LABEL}}", "$dim"), part)
        for name, words in pairs
        for n, part in enumerate(textwrap.wrap(words, width - _LABEL, break_on_hyphens=False))
    )


def _moves(preview: PlanPreview) -> str:
    summary = preview.summary
    replicas = as_count(summary.replica_movements, "replica")
    copied = preview.bytes_to_copy
    size = "size not known" if copied is None else f"{as_bytes(copied)} to copy"
    return f"{replicas} ({size}), {as_count(summary.leader_movements, 'leader')}"


_START = "start"
_OUTDATED = "As typed before; mend what is wrong first."
_ALREADY = "There is a run {} already; give this one another name."


class StartScreen(PlanScreen):
    """Returns the folder of the run that was started."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *enter_bindings("start", "Start the run, once its name is typed"),
        bind(
            "ctrl+y", "rehearse", "rehearse first",
            "Play the plan with these limits on simulated twins of the cluster",
            key_display="^y", priority=True, id="plan.rehearse-first",
        ),
    ]  # fmt: skip
    STEPS = (
        PlanStep(PLAN, "#plan-path"),
        PlanStep(LIMITS, "#new-replicas"),
        PlanStep(THROTTLE, "#throttle-rate"),
        PlanStep(CHECK, "#allow-factor"),
        PlanStep(_START, "#plan-again"),
    )
    TITLE_WORDS = "start a plan"
    BEFORE = (
        "A plan is a JSON file as kafka-reassign-partitions takes it. Nothing is sent before you"
        " have read what it would do, and typed the run's name."
    )
    ADDS = False
    NEED = TO_START

    _preview: PlanPreview | None = None
    _live = ""
    _default_name = ""
    _opening: Sequence[str] = ()  # what refuses any plan, as long as none was read
    _starting = False
    _rehearsed: tuple[NewRun, RehearsedPlan] | None = None

    def fields(self, step: str) -> Iterator[Widget]:
        yield from super().fields(step)
        if step == LIMITS:
            yield LimitsForm(None, heading="default", in_use=False)
            yield Static(id="limits-found", classes="found -away", markup=False)
        elif step == THROTTLE:
            yield ThrottleForm("rate", for_new_run=True)
            yield Static(id="throttle-measuring", classes="-away", markup=False)
        elif step == _START:
            yield Horizontal(Static("run's name"), TextField(id="start-name"), classes="line")
            again = TextField(id="plan-again", placeholder="↵ starts the run")
            yield Horizontal(Static("type it again"), again, classes="line")
            yield AllowanceBox("allow a second live run", id="allow-concurrent", classes="-away")
            yield Static(id="start-facts", classes="found", markup=False)

    def sections(self, step: str) -> Sequence[PreviewSection]:
        if step == LIMITS:
            return (PreviewSection.FINDINGS, PreviewSection.TIME, PreviewSection.SHAPES)
        if step == THROTTLE:
            return (PreviewSection.FINDINGS, PreviewSection.TIME, PreviewSection.BROKERS)
        return super().sections(step)

    async def show_obstacles(self) -> None:
        cluster_id = services(self).cluster_id or ""
        try:
            live, _ = await asyncio.to_thread(live_and_resumable, self._state_dir, cluster_id)
        except RunProblem:  # the next use of the state directory reports it
            return
        self._live = live[0].name if live else ""
        self._opening = [] if self._reading else await self.at_opening()
        self.query_one("#allow-concurrent").set_class(not live, "-away")
        shown = services(self).run_status
        notes = [
            self.gate_words,
            messages.beside_live_run(self._live, self._attached_run) if live else "",
            messages.takes_no_plans(shown) if shown is not None else "",
            *self._opening,
        ]
        self.show_notes("\n".join(filter(None, notes)))

    def open_form(self, chosen: ChosenPlan) -> None:
        self._show_defaults()
        if not self._default_name:
            self._throttle.text = self._engines.throttle
            self._throttle.canary = self._engines.canary
        name = self.query_one("#start-name", Input)
        before, self._default_name = self._default_name, default_name(chosen.path)
        if name.value in {"", before}:
            name.value = self._default_name

    def _show_defaults(self) -> None:
        """Show the limits of the empty fields, which depend on those typed."""
        limits = self._engines.limits(self._limits_form.typed)
        keeps_order = limits.shape is Shape.KIP_435 and limits.order is Limits().order
        if keeps_order and self._has_internal_topics:
            limits = msgspec.structs.replace(limits, order=Order.PLAN)
        self._limits_form.show(limits, None, {})

    @property
    def _has_internal_topics(self) -> bool:
        """Whether ktui made the plan, and put Kafka's own topics last in it."""
        chosen = self._chosen
        if chosen is None or chosen.generated is None:
            return False
        return any(each.topic in INTERNAL_TOPICS for each in chosen.plan.partitions)

    @property
    def _limits_form(self) -> LimitsForm:
        return self.query_one(LimitsForm)

    @property
    def _throttle(self) -> ThrottleForm:
        return self.query_one(ThrottleForm)

    @property
    def _run_name(self) -> str:
        return self.query_one("#start-name", Input).value.strip()

    @property
    def _form_problem(self) -> str:
        return self._limits_form.problem or self._throttle.problem

    def obstacle(self, step: str) -> str | None:
        if step == LIMITS:
            return "" if self._limits_form.problem else None
        if step == THROTTLE:
            return "" if self._throttle.problem else None
        return super().obstacle(step)

    @on(ChangeForm.Changed)
    def _typed(self) -> None:
        self._show_defaults()
        self.preview_soon()
        if self._form_problem:
            self.show_outdated(_OUTDATED)

    async def preview(self) -> None:
        limits, chosen = self._limits_form.limits(), self._chosen
        if limits is None or chosen is None or self._form_problem:
            return  # the form shows the error beside its field
        number = self.previews = self.previews + 1
        wanted = self._new_run(chosen, self._run_name or self._default_name, limits)
        terms = wanted.terms
        preview = await chosen.preview(terms)
        if number != self.previews or chosen is not self._chosen:
            return  # something else was chosen in the meantime
        self._preview = preview
        self.show_preview(preview)
        if terms.throttle:
            self.measure(chosen)

    @property
    def canary(self) -> str:
        limits = self._limits_form.limits()
        if self._chosen is None or limits is None:
            return ""
        wanted = self._new_run(self._chosen, self._run_name or self._default_name, limits)
        return wanted.terms.canary

    def show_preview(
        self, preview: PlanPreview | None, in_run: Sequence[ColouredLine] = ()
    ) -> None:
        super().show_preview(preview, in_run)
        found = [] if preview is None else preview.findings
        show_lines(self, "#limits-found", finding_lines(findings_of(LIMITS, found)))
        self._throttle.warn([each.sentence for each in findings_of(THROTTLE, found)])
        measuring = [(MEASURING, "$dim")] if self.measures else []
        show_lines(self, "#throttle-measuring", measuring)
        self._show_facts()

    @on(Resize)
    def _show_facts(self) -> None:
        chosen, preview = self._chosen, self._preview
        if chosen is None or preview is None:
            return
        rates = self._throttle.rates() or NO_THROTTLE
        throttle = rates.with_leaders(throttled=self._throttle.leaders)
        measured = self._throttle.canary and rates.objective is not None
        canary = canary_in_words(self._run_name) if measured else ""
        shown = start_facts(
            chosen.path.name,
            throttle,
            canary,
            preview,
            self.form_width,
            rehearsed=self._rehearsed_words(chosen),
        )
        self.query_one("#start-facts", Static).update(shown)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "rehearse":
            return self._engines.rehearser is not None and self._chosen is not None
        return super().check_action(action, parameters)

    async def action_rehearse(self) -> None:
        rehearser, chosen = self._engines.rehearser, self._chosen
        limits = self._limits_form.limits()
        if rehearser is None or chosen is None or self._starting:
            return
        problem = BEING_COMPUTED if self.computes else plan_problem(self._found)
        problem = self._form_problem or problem
        if problem or limits is None:
            self.show_answer(problem or "", "$error")
            return
        wanted = self._new_run(chosen, self._run_name or self._default_name, limits)

        def left(end: RehearsalEnd | None) -> None:
            if end is None:
                return
            if end.shown is not None:
                self._rehearsed = wanted, end.shown
                self._show_facts()
            if end.changes:
                self.go_to([step.name for step in self.STEPS].index(LIMITS))

        await self.app.push_screen(RehearsalScreen(rehearser, wanted), left)

    def _rehearsed_words(self, chosen: ChosenPlan) -> str:
        limits = self._limits_form.limits()
        if self._rehearsed is None or limits is None or self._rehearsed[0].plan != chosen.plan:
            return ""
        before, rehearsed = self._rehearsed
        now = self._new_run(chosen, before.name, limits)
        same = msgspec.structs.replace(now, concurrent=before.concurrent) == before
        end = rehearsed.time if rehearsed.holds else f"not to its end: {rehearsed.time}"
        return end if same else f"as it was typed before: {end}"

    def entered(self, step: str) -> None:
        super().entered(step)
        if step == _START:
            self._show_facts()
            self._show_readiness()

    @on(Input.Changed, "#start-name")
    @on(Checkbox.Changed, "#allow-concurrent")
    def _show_readiness(self) -> None:
        if self.step.name != _START:
            return
        self._show_facts()
        problem = self._problem
        if problem:
            self.show_answer(problem, "$dim" if problem == BEING_COMPUTED else "$error")
        else:
            self.show_answer(f"Type {self._run_name} and press enter to start the run.", "$dim")

    def decide(self) -> None:
        field = self.query_one("#plan-again", Input)
        if self.focused is not field and not field.value:
            self.set_focus(field)
            self._show_readiness()
            return
        name, limits = self._run_name, self._limits_form.limits()
        problem = self._problem or self._form_problem
        if not problem and field.value.strip() != name:
            problem = f"Type {name} to start the run, or esc to go back."
        if problem or limits is None or self._chosen is None:
            self.show_answer(problem or "", "$error")
            return
        new_run = self._new_run(self._chosen, name, limits)
        self._starting = True
        self.run_worker(self._start(new_run), group="start", exit_on_error=False)

    def _new_run(self, chosen: ChosenPlan, name: str, limits: Limits) -> NewRun:
        return NewRun(
            name=name,
            plan=chosen.plan,
            plan_name=chosen.path.name,
            limits=limits,
            allowed=self.query_one(PlanAllowances).allowed,
            options=RunOptions(
                throttle=self._throttle.rates() or NO_THROTTLE,
                throttle_leaders=self._throttle.leaders,
                canary=self._throttle.canary,
                urgent_first=chosen.generated is not None,
            ),
            concurrent=self._concurrent,
        )

    @property
    def _concurrent(self) -> bool:
        return self.query_one("#allow-concurrent", Checkbox).value

    @property
    def _problem(self) -> str | None:
        if self._starting:
            return "It is being started."
        if self._chosen is None:
            return NOT_READ
        if self.computes:
            return BEING_COMPUTED
        problem = plan_problem(self._found)
        if problem is None and self._live and not self._concurrent:
            problem = (
                f"Run {self._live} is live on this cluster: add the plan to it, allow another run,"
                " or wait for its end."
            )
        name = self._run_name
        problem = problem or self.gate_words or run_name_problem(name)
        if problem is None and self._state_dir.run(name).path.exists():
            problem = _ALREADY.format(name)
        return problem

    async def _start(self, new_run: NewRun) -> None:
        self.show_answer(f"Starting {new_run.name} …", "$dim")
        try:
            run = await self._engines.start(new_run)
        except (RunProblem, ClusterError) as problem:
            self._starting = False
            self.show_answer(str(problem), "$error")
            return
        self.dismiss(run)

    def action_back(self) -> None:
        if not self._starting:
            super().action_back()
