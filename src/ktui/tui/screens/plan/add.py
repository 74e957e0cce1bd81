"""The screen on which a plan is chosen, looked at, and added to the run that is live."""

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
from ktui.execution.engine.add_plan import Extra
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import OnConflict
from ktui.planning.check.findings import Allowances
from ktui.tui.run_view import messages
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.run_view.extra_plan import CONFLICTS, forbids, judged
from ktui.tui.run_view.launchers import Engines
from ktui.tui.run_view.plan_choice import ChosenPlan
from ktui.tui.screens.forms.allowances import PlanAllowances
from ktui.tui.screens.plan.plan import PlanScreen
from ktui.tui.screens.watch.run_banner import RunLines
from ktui.tui.widgets.choices import Choices, Picked
from ktui.tui.widgets.text_field import TextField


class AddForm(Vertical):
    """What is to be allowed, and the run's name, which cannot be typed until a plan was read."""

    def compose(self) -> ComposeResult:
        """Lay it out in the order in which it is read."""
        yield Static("allowances", classes="title")
        yield PlanAllowances()
        yield Static("add", classes="title")
        with Horizontal(classes="line"):
            yield Static("run's name")
            yield TextField(id="plan-again", placeholder="type it; ↵ adds the plan", disabled=True)
        yield Static(id="plan-said", markup=False)

    def open(self) -> None:
        """Let the run's name be typed."""
        self.query_one("#plan-again", Input).disabled = False

    @property
    def allowed(self) -> Allowances:
        """What is allowed of the plan."""
        return self.query_one(PlanAllowances).allowed


_FOLLOWING = "following"


class AddScreen(PlanScreen):
    """Gives the extra plan that the operator has decided to add.

    The app hands it the run after each poll.

    Args:
        engines: looks at the cluster.
        state_dir: where runs are remembered.
        attached: the run.
        path: the file, where it was typed before.
    """

    TITLE_WORDS = "add a plan to run {}"
    BEFORE = (
        "A plan is a JSON file as kafka-reassign-partitions takes it. What it asks for joins the"
        " run's queue, under the run's limits, throttle and pauses. Nothing is asked for before"
        " you have read what becomes of it, and typed the run's name."
    )
    ADDS = True

    def __init__(
        self, engines: Engines, state_dir: StateDir, attached: AttachedRun, *, path: str = ""
    ) -> None:
        super().__init__(engines, state_dir, taker=attached.name, path=path)
        self._attached = attached
        self._extra: Extra | None = None
        self._turn = 0
        """How often it was begun to work out what becomes of the plan."""
        self._behind = False
        """Whether the run has gone on since, so that something else becomes of it."""

    def above(self) -> Iterator[Widget]:
        """Give the lines of the run."""
        yield RunLines()

    def choices(self) -> Iterator[Widget]:
        """Give what may become of partitions that the run moves elsewhere."""
        yield Picked("on conflict", [each.words for each in CONFLICTS], id="plan-conflict")
        yield Static(CONFLICTS[0].means, id="conflict-means", classes="means", markup=False)

    def form(self) -> Widget:
        """Give what is to be allowed, and the run's name."""
        return AddForm(classes="form")

    def open_form(self, chosen: ChosenPlan) -> None:
        """Let the run's name be typed."""
        del chosen
        self.query_one(AddForm).open()

    def show_run(self, attached: AttachedRun | None, touched: set[TopicPartition]) -> None:
        """Take in how the run is now, and work out anew what has changed with it."""
        if attached is None or attached.name != self._attached.name:
            self.dismiss(None)
            return
        anew, self._attached = attached.run is not self._attached.run, attached
        self._tell_run()
        otherwise = self._extra is not None and not self._extra.holds_for(touched)
        self._behind = self._behind or anew or otherwise
        if self._behind and not {"plan", "figures", _FOLLOWING} & self._under_way:
            self._behind = False
            self.run_worker(self.work_out(), group=_FOLLOWING, exit_on_error=False)

    async def look_around(self) -> None:
        """Say what keeps every plan from being added."""
        self._tell_run()

    def _tell_run(self) -> None:
        self.query_one(RunLines).show(self._attached.status)
        self.tell_before(self._keeps_out)

    @property
    def _keeps_out(self) -> str:
        """Why the run takes no plan now; empty where it does."""
        return messages.takes_no_plans(self._attached.status) or self.gate_words

    @on(Choices.Chosen, "#plan-conflict")
    def _chosen_conflict(self, event: Choices.Chosen) -> None:
        means = CONFLICTS[event.place].means
        self.query_one("#conflict-means", Static).update(Content(means))
        self.soon()

    async def work_out(self) -> None:
        """Work out what becomes of the plan's partitions, and what it comes to."""
        chosen, run = self._chosen, self._attached.run
        if chosen is None:
            return
        allowed = self.query_one(AddForm).allowed
        turn = self._turn = self._turn + 1
        extra, told = await asyncio.to_thread(judged, chosen, run, self._conflict, allowed)
        if turn != self._turn or chosen is not self._chosen:
            return  # something else was chosen meanwhile
        self._extra = extra
        self.report(told)
        self.say("", "")
        if run.throttled.rates:
            self.measure(chosen)

    @property
    def _under_way(self) -> set[str]:
        return {worker.group for worker in self.workers}

    @property
    def _conflict(self) -> OnConflict:
        return CONFLICTS[self.query_one("#plan-conflict", Picked).place].value

    @on(Input.Submitted, "#plan-again")
    def _confirmed(self, event: Input.Submitted) -> None:
        extra = self._extra
        problem = self._problem(extra, event.value.strip())
        if problem or extra is None:
            self.say(problem or "", "$error")
        else:
            self.dismiss(extra)

    def _problem(self, extra: Extra | None, again: str) -> str | None:
        """Say why the plan cannot be added now."""
        if self._keeps_out:
            return self._keeps_out
        if self._chosen is None or extra is None:
            return "No plan was read yet: type its path above, and press enter there."
        if {"figures", "plan"} & self._under_way or extra.on_conflict is not self._conflict:
            return "What becomes of it is being worked out; press enter again."
        name = self._attached.name
        confirmed = None if again == name else f"Type {name} to add the plan, or esc to leave."
        return forbids(extra) or confirmed
