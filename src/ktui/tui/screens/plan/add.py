"""The screen to choose a plan, preview it, and add it to the live run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from ktui.cluster.partition import TopicPartition
from ktui.execution.engine.add_plan import CheckedExtraPlan
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import OnConflict
from ktui.planning.check.findings import Allowances
from ktui.tui.run_view import messages
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.run_view.extra_plan import CONFLICTS, check_extra_plan, extra_plan_problem
from ktui.tui.run_view.launchers import EngineLauncher
from ktui.tui.run_view.plan_choice import ChosenPlan
from ktui.tui.screens.forms.allowances import PlanAllowances
from ktui.tui.screens.plan.plan import PlanScreen
from ktui.tui.screens.watch.run_banner import RunLines
from ktui.tui.widgets.choices import Choices, FormChoices
from ktui.tui.widgets.text_field import TextField


class AddForm(Vertical):
    """Allowances, and the run's name, which cannot be typed before a plan was read."""

    def compose(self) -> ComposeResult:
        """Lay out the form in reading order."""
        yield Static("allowances", classes="title")
        yield PlanAllowances()
        yield Static("add", classes="title")
        with Horizontal(classes="line"):
            yield Static("run's name")
            yield TextField(id="plan-again", placeholder="type it; ↵ adds the plan", disabled=True)
        yield Static(id="plan-said", markup=False)

    def open(self) -> None:
        """Enable the field of the run's name."""
        self.query_one("#plan-again", Input).disabled = False

    @property
    def allowed(self) -> Allowances:
        """What the operator allows the plan."""
        return self.query_one(PlanAllowances).allowed


_REFRESH = "following"


class AddScreen(PlanScreen):
    """Returns the extra plan that the operator has decided to add.

    The app passes the run to `show_run` after each poll.

    Args:
        engines: reads the cluster.
        state_dir: the folder of all runs.
        attached: the run that the plan is added to.
        path: the plan's file, if it was typed before.
    """

    TITLE_WORDS = "add a plan to run {}"
    BEFORE = (
        "A plan is a JSON file as kafka-reassign-partitions takes it. What it asks for joins the"
        " run's queue, under the run's limits, throttle and pauses. Nothing is asked for before"
        " you have read what becomes of it, and typed the run's name."
    )
    ADDS = True

    def __init__(
        self, engines: EngineLauncher, state_dir: StateDir, attached: AttachedRun, *, path: str = ""
    ) -> None:
        super().__init__(engines, state_dir, taker=attached.name, path=path)
        self._attached = attached
        self._extra: CheckedExtraPlan | None = None
        self._preview_number = 0
        """How many previews of the plan were started; older ones are discarded."""
        self._outdated = False
        """Whether the run has changed since the last preview."""

    def above(self) -> Iterator[Widget]:
        """Return the banner of the run."""
        yield RunLines()

    def choices(self) -> Iterator[Widget]:
        """Return the choice of what to do with partitions that the run moves elsewhere."""
        yield FormChoices("on conflict", [each.words for each in CONFLICTS], id="plan-conflict")
        yield Static(CONFLICTS[0].means, id="conflict-means", classes="means", markup=False)

    def form(self) -> Widget:
        """Return the form of allowances and the run's name."""
        return AddForm(classes="form")

    def open_form(self, chosen: ChosenPlan) -> None:
        """Enable the field of the run's name."""
        del chosen
        self.query_one(AddForm).open()

    def show_run(self, attached: AttachedRun | None, touched: set[TopicPartition]) -> None:
        """Show the present state of the run, and preview the plan again if it changed."""
        if attached is None or attached.name != self._attached.name:
            self.dismiss(None)
            return
        run_changed, self._attached = attached.run is not self._attached.run, attached
        self._show_run_lines()
        outdated = self._extra is not None and not self._extra.holds_for(touched)
        self._outdated = self._outdated or run_changed or outdated
        if self._outdated and not {"plan", "figures", _REFRESH} & self._under_way:
            self._outdated = False
            self.run_worker(self.work_out(), group=_REFRESH, exit_on_error=False)

    async def look_around(self) -> None:
        """Show why no plan can be added now."""
        self._show_run_lines()

    def _show_run_lines(self) -> None:
        self.query_one(RunLines).show(self._attached.status)
        self.tell_before(self._obstacle)

    @property
    def _obstacle(self) -> str:
        """Why the run accepts no plan now; empty if it does."""
        return messages.takes_no_plans(self._attached.status) or self.gate_words

    @on(Choices.Chosen, "#plan-conflict")
    def _chosen_conflict(self, event: Choices.Chosen) -> None:
        means = CONFLICTS[event.place].means
        self.query_one("#conflict-means", Static).update(Content(means))
        self.soon()

    async def work_out(self) -> None:
        """Preview what happens to the plan's partitions, and what the plan would do."""
        chosen, run = self._chosen, self._attached.run
        if chosen is None:
            return
        allowed = self.query_one(AddForm).allowed
        number = self._preview_number = self._preview_number + 1
        extra, lines = await asyncio.to_thread(
            check_extra_plan, chosen, run, self._conflict, allowed
        )
        if number != self._preview_number or chosen is not self._chosen:
            return  # something else was chosen in the meantime
        self._extra = extra
        self.report(lines)
        self.say("", "")
        if run.throttled.rates:
            self.measure(chosen)

    @property
    def _under_way(self) -> set[str]:
        return {worker.group for worker in self.workers}

    @property
    def _conflict(self) -> OnConflict:
        return CONFLICTS[self.query_one("#plan-conflict", FormChoices).place].value

    @on(Input.Submitted, "#plan-again")
    def _confirmed(self, event: Input.Submitted) -> None:
        extra = self._extra
        problem = self._problem(extra, event.value.strip())
        if problem or extra is None:
            self.say(problem or "", "$error")
        else:
            self.dismiss(extra)

    def _problem(self, extra: CheckedExtraPlan | None, typed_name: str) -> str | None:
        """Return why the plan cannot be added now; None if it can."""
        if self._obstacle:
            return self._obstacle
        if self._chosen is None or extra is None:
            return "No plan was read yet: type its path above, and press enter there."
        if {"figures", "plan"} & self._under_way or extra.on_conflict is not self._conflict:
            return "What becomes of it is being worked out; press enter again."
        name = self._attached.name
        confirmed = None if typed_name == name else f"Type {name} to add the plan, or esc to leave."
        return extra_plan_problem(extra) or confirmed
