"""What is ticked and typed for a plan that is to join a run, but its file and what conflicts."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from ktui.planning.finding import Allowances
from ktui.tui.widgets.entry import Entry
from ktui.tui.widgets.plan_allowances import PlanAllowances


class AddForm(Vertical):
    """What is to be allowed, and the run's name, which cannot be typed until a plan was read."""

    def compose(self) -> ComposeResult:
        """Lay it out in the order in which it is read."""
        yield Static("allowances", classes="title")
        yield PlanAllowances()
        yield Static("add", classes="title")
        with Horizontal(classes="line"):
            yield Static("run's name")
            yield Entry(id="plan-again", placeholder="type it; ↵ adds the plan", disabled=True)
        yield Static(id="plan-said", markup=False)

    def open(self) -> None:
        """Let the run's name be typed."""
        self.query_one("#plan-again", Input).disabled = False

    @property
    def allowed(self) -> Allowances:
        """What is allowed of the plan."""
        return self.query_one(PlanAllowances).allowed
