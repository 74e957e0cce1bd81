"""The screen to choose a plan, preview it, and add it to the live run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from ktui.cluster.partition import TopicPartition
from ktui.execution.engine.add_plan import TO_ADD, CheckedExtraPlan
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import OnConflict
from ktui.tui.run_view import messages
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.run_view.launchers import EngineLauncher
from ktui.tui.run_view.plan_request import (
    CONFLICTS,
    PlanRequest,
    check_extra_plan,
    extra_plan_problem,
    lines_in_run,
)
from ktui.tui.screens.forms import PlanAllowances
from ktui.tui.screens.plan.plan import BEING_COMPUTED, NOT_READ, PlanScreen, enter_bindings
from ktui.tui.screens.plan.preview_lines import CHECK, PLAN, PlanStep, PreviewSection
from ktui.tui.screens.watch.run_banner import RunBanner
from ktui.tui.widgets.fields import Choices, FormChoices, TextField

_REFRESH = "following"
_ADD = "add"


class AddScreen(PlanScreen):
    """Returns the extra plan that the operator has decided to add."""

    BINDINGS: ClassVar[list[BindingType]] = enter_bindings(
        "add", "Add the plan, once the run's name is typed"
    )
    STEPS = (
        PlanStep(PLAN, "#plan-path"),
        PlanStep(CHECK, "#allow-factor"),
        PlanStep(_ADD, "#plan-again"),
    )
    TITLE_WORDS = "add a plan to run {}"
    BEFORE = (
        "A plan is a JSON file as kafka-reassign-partitions takes it. What it asks for joins the"
        " run's queue, under the run's limits, throttle and pauses. Nothing is sent until you"
        " have seen what it would do and typed the run's name."
    )
    ADDS = True
    NEED = TO_ADD

    def __init__(
        self,
        engines: EngineLauncher,
        state_dir: StateDir,
        attached: AttachedRun,
        *,
        request: PlanRequest | None = None,
    ) -> None:
        super().__init__(engines, state_dir, attached_run=attached.name, request=request)
        self._attached = attached
        self._extra: CheckedExtraPlan | None = None
        self._outdated = False

    def choices(self) -> Iterator[Widget]:
        yield FormChoices("on conflict", [each.words for each in CONFLICTS], id="plan-conflict")
        yield Static(CONFLICTS[0].means, id="conflict-means", classes="means", markup=False)

    def fields(self, step: str) -> Iterator[Widget]:
        yield from super().fields(step)
        if step == _ADD:
            again = TextField(id="plan-again", placeholder="type it; ↵ adds the plan")
            yield Horizontal(Static("run's name"), again, classes="line")

    def sections(self, step: str) -> Sequence[PreviewSection]:
        return (PreviewSection.TIME,) if step == _ADD else super().sections(step)

    def entered(self, step: str) -> None:
        super().entered(step)
        if step == _ADD:
            words = f"Type {self._attached.name} and press enter to add the plan."
            self.show_answer(words, "$dim")

    def obstacle(self, step: str) -> str | None:
        extra = self._extra
        return extra_plan_problem(extra) if step == CHECK and extra is not None else None

    def show_run(self, attached: AttachedRun | None, touched: set[TopicPartition]) -> None:
        if attached is None or attached.name != self._attached.name:
            self.dismiss(None)
            return
        run_changed, self._attached = attached.run is not self._attached.run, attached
        self._show_run_lines()
        outdated = self._extra is not None and not self._extra.holds_for(touched)
        self._outdated = self._outdated or run_changed or outdated
        if self._outdated and not {"plan", "figures", _REFRESH} & {
            worker.group for worker in self.workers
        }:
            self._outdated = False
            self.run_worker(self.preview(), group=_REFRESH, exit_on_error=False)

    async def show_obstacles(self) -> None:
        self._show_run_lines()

    def _show_run_lines(self) -> None:
        self.query_one(RunBanner).show(self._attached.status)
        self.show_notes(self._obstacle)

    @property
    def _obstacle(self) -> str:
        return messages.takes_no_plans(self._attached.status) or self.gate_words

    @on(Choices.Chosen, "#plan-conflict")
    def _chosen_conflict(self, event: Choices.Chosen) -> None:
        means = CONFLICTS[event.place].means
        self.query_one("#conflict-means", Static).update(Content(means))
        self.preview_soon()

    async def preview(self) -> None:
        chosen, run = self._chosen, self._attached.run
        if chosen is None:
            return
        allowed = self.query_one(PlanAllowances).allowed
        number = self.previews = self.previews + 1
        extra, preview = await asyncio.to_thread(
            check_extra_plan, chosen, run, self._conflict, allowed
        )
        if number != self.previews or chosen is not self._chosen:
            return  # something else was chosen in the meantime
        self._extra = extra
        self.show_preview(preview, lines_in_run(extra))
        self.show_answer("", "")
        if run.throttled.rates:
            self.measure(chosen)

    @property
    def _conflict(self) -> OnConflict:
        return CONFLICTS[self.query_one("#plan-conflict", FormChoices).place].value

    def decide(self) -> None:
        extra = self._extra
        problem = self._problem(extra, self.query_one("#plan-again", Input).value.strip())
        if problem or extra is None:
            self.show_answer(problem or "", "$error")
        else:
            self.dismiss(extra)

    def _problem(self, extra: CheckedExtraPlan | None, typed_name: str) -> str | None:
        if self._obstacle:
            return self._obstacle
        if self._chosen is None or extra is None:
            return NOT_READ
        if self.computes or extra.on_conflict is not self._conflict:
            return BEING_COMPUTED
        name = self._attached.name
        confirmed = (
            None if typed_name == name else f"Type {name} to add the plan, or esc to go back."
        )
        return extra_plan_problem(extra) or confirmed
