"""All that is typed and ticked for a new run, but the file of its plan."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Checkbox, Input, Static

from ktui.pacing.limits import Limits
from ktui.planning.finding import Allowances
from ktui.tui.widgets.allowance import Allowance
from ktui.tui.widgets.entry import Entry
from ktui.tui.widgets.limits_form import LimitsForm
from ktui.tui.widgets.plan_allowances import PlanAllowances
from ktui.tui.widgets.throttle_form import ThrottleForm


class StartForm(Vertical):
    """Limits, throttle, what is to be allowed, and the name; disabled until a plan was read."""

    def compose(self) -> ComposeResult:
        """Lay it out in the order in which it is read."""
        yield Static("limits", classes="title")
        yield LimitsForm(None, heading="default", in_use=False, disabled=True)
        yield Static("throttle", classes="title")
        yield ThrottleForm("rate", with_leaders=True, disabled=True)
        yield Static("allowances", classes="title")
        yield PlanAllowances()
        yield Allowance("allow another live run beside it", id="allow-concurrent", classes="-away")
        yield Static("start", classes="title")
        with Horizontal(classes="line"):
            yield Static("run's name")
            yield Entry(id="start-name", disabled=True)
        with Horizontal(classes="line"):
            yield Static("type it again")
            yield Entry(id="plan-again", placeholder="↵ starts the run", disabled=True)
        yield Static(id="plan-said", markup=False)

    def open(self, limits: Limits, throttle: str, name: str) -> None:
        """Let it be typed into; what is typed there already stays.

        Args:
            limits: those of a run that names none.
            throttle: that of a run that names none.
            name: what the run may be called.
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
        """What is allowed of the plan."""
        return self.query_one(PlanAllowances).allowed

    @property
    def concurrent(self) -> bool:
        """Whether another live run is allowed."""
        return self.query_one("#allow-concurrent", Checkbox).value

    @property
    def name_typed(self) -> str:
        """The run's name."""
        return self.query_one("#start-name", Input).value.strip()

    @property
    def problem(self) -> str:
        """What is wrong with a limit or the throttle; empty where nothing is."""
        return self.query_one(LimitsForm).problem or self.query_one(ThrottleForm).problem
