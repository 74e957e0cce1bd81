"""The screen to choose a plan, preview it, and start it as a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Checkbox, Input, Static

from ktui.cluster.errors import ClusterError
from ktui.execution.errors import RunProblem
from ktui.execution.host.catalog import live_and_resumable
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import default_name, run_name_problem
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances, Finding
from ktui.planning.throttle_rates import NO_THROTTLE
from ktui.tui.run_view import messages
from ktui.tui.run_view.plan_choice import ChosenPlan, plan_problem, throttle_sentences
from ktui.tui.screens.forms.allowances import AllowanceBox, PlanAllowances
from ktui.tui.screens.forms.limits_form import LimitsForm
from ktui.tui.screens.forms.throttle_form import ThrottleForm
from ktui.tui.screens.plan.plan import PlanScreen
from ktui.tui.widgets.services import services
from ktui.tui.widgets.text_field import TextField


class StartForm(Vertical):
    """Limits, throttle, allowances, and the run's name; disabled until a plan was read."""

    def compose(self) -> ComposeResult:
        """Lay out the form in reading order."""
        yield Static("limits", classes="title")
        yield LimitsForm(None, heading="default", in_use=False, disabled=True)
        yield Static("throttle", classes="title")
        yield ThrottleForm("rate", with_leaders=True, disabled=True)
        yield Static("allowances", classes="title")
        yield PlanAllowances()
        yield AllowanceBox(
            "allow another live run beside it", id="allow-concurrent", classes="-away"
        )
        yield Static("start", classes="title")
        with Horizontal(classes="line"):
            yield Static("run's name")
            yield TextField(id="start-name", disabled=True)
        with Horizontal(classes="line"):
            yield Static("type it again")
            yield TextField(id="plan-again", placeholder="↵ starts the run", disabled=True)
        yield Static(id="plan-answer", markup=False)

    def open(self, limits: Limits, throttle: str, name: str) -> None:
        """Enable the form; text typed before stays.

        Args:
            limits: the default limits of a run.
            throttle: the default throttle of a run.
            name: the suggested name of the run.
        """
        self.query_one(LimitsForm).show(limits, None, {})
        throttles, field = self.query_one(ThrottleForm), self.query_one("#start-name", Input)
        if throttles.disabled:
            throttles.text = throttle
        field.value = field.value or name
        again = self.query_one("#plan-again", Input)
        for widget in (self.query_one(LimitsForm), throttles, field, again):
            widget.disabled = False

    @property
    def allowed(self) -> Allowances:
        """What the operator allows the plan."""
        return self.query_one(PlanAllowances).allowed

    @property
    def concurrent(self) -> bool:
        """Whether another live run is allowed beside this one."""
        return self.query_one("#allow-concurrent", Checkbox).value

    @property
    def name_typed(self) -> str:
        """The run's name, as typed."""
        return self.query_one("#start-name", Input).value.strip()

    @property
    def problem(self) -> str:
        """The error in a limit or the throttle; empty if there is none."""
        return self.query_one(LimitsForm).problem or self.query_one(ThrottleForm).problem


class StartScreen(PlanScreen):
    """Returns the folder of the run that was started."""

    TITLE_WORDS = "start a plan"
    BEFORE = (
        "A plan is a JSON file as kafka-reassign-partitions takes it. Nothing is sent before you"
        " have read what it would do, and typed the run's name."
    )
    ADDS = False

    _findings: Sequence[Finding] = ()
    _live = ""
    """The name of the run that is live on the cluster; empty if there is none."""
    _starting = False

    def form(self) -> Widget:
        """Return the form of limits, throttle, allowances and the run's name."""
        return StartForm(classes="form")

    async def show_obstacles(self) -> None:
        """Show that the cancel gate is shut, which run is live, or why the run shown is not."""
        cluster_id = services(self).cluster_id or ""
        try:
            live, _ = await asyncio.to_thread(live_and_resumable, self._state_dir, cluster_id)
        except RunProblem:  # the next use of the state directory reports it
            return
        self._live = live[0].name if live else ""
        self.query_one("#allow-concurrent").set_class(not live, "-away")
        shown = services(self).run_status
        notes = [
            self.gate_words,
            messages.beside_live_run(self._live, self._attached_run) if live else "",
            messages.takes_no_plans(shown) if shown is not None else "",
        ]
        self.show_notes("\n".join(filter(None, notes)))

    def open_form(self, chosen: ChosenPlan) -> None:
        """Enable the form with the default limits, throttle and name."""
        limits = self._engines.limits(chosen.brokers_alive)
        self._form.open(limits, self._engines.throttle, default_name(chosen.path))

    @property
    def _form(self) -> StartForm:
        return self.query_one(StartForm)

    @on(LimitsForm.Changed)
    @on(ThrottleForm.Changed)
    def _typed(self) -> None:
        self.preview_soon()

    async def preview(self) -> None:
        """Preview the plan under the limits and the throttle typed."""
        limits, chosen = self.query_one(LimitsForm).limits(), self._chosen
        if limits is None or chosen is None or self._form.problem:
            return  # the form shows the error beside its field
        rates = self._throttle.rates() or NO_THROTTLE
        leaders = self._throttle.leaders
        allowed = self._form.allowed
        self._findings, lines = await chosen.check(limits, rates, allowed, leaders=leaders)
        self.report(lines)
        self._throttle.warn(throttle_sentences(self._findings))
        if rates:
            self.measure(chosen)

    @property
    def _throttle(self) -> ThrottleForm:
        return self.query_one(ThrottleForm)

    @on(LimitsForm.Submitted)
    @on(ThrottleForm.Submitted)
    @on(Input.Submitted, "#start-name")
    def _go_to_start(self) -> None:
        """Focus the field that starts the run, and explain how."""
        name = self._form.name_typed
        self.set_focus(self.query_one("#plan-again", Input))
        self.show_answer(f"Type {name} and press enter to start the run.", "$dim")

    @on(Input.Submitted, "#plan-again")
    def _confirmed(self, event: Input.Submitted) -> None:
        name, form = self._form.name_typed, self._form
        limits = self.query_one(LimitsForm).limits()
        problem = self._problem(name, event.value.strip()) or form.problem
        if problem or limits is None or self._chosen is None:
            self.show_answer(problem or "", "$error")
            return
        new_run = NewRun(
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
        self.run_worker(self._start(new_run), group="start", exit_on_error=False)

    def _problem(self, name: str, again: str) -> str | None:
        """Return why the run cannot be started now; None if it can."""
        if self._starting:
            return "It is being started."
        problem = plan_problem(self._findings)
        if problem is None and self._live and not self._form.concurrent:
            problem = (
                f"Run {self._live} is live on this cluster: add the plan to it, allow another run,"
                " or wait for its end."
            )
        problem = problem or self.gate_words or run_name_problem(name)
        if problem is not None:
            return problem
        if self._state_dir.run(name).path.exists():
            return f"There is a run {name} already; give this one another name."
        return None if again == name else f"Type {name} to start the run, or esc to leave."

    async def _start(self, new_run: NewRun) -> None:
        self.show_answer(f"Starting {new_run.name} …", "$dim")
        try:
            run = await self._engines.start(new_run)
        except (RunProblem, ClusterError) as problem:
            self._starting = False
            self.show_answer(str(problem), "$error")
            return
        self.dismiss(run)

    def action_leave(self) -> None:
        """Go back; nothing was sent."""
        if not self._starting:
            super().action_leave()
