"""What the operator may allow of a plan by name."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Checkbox

from ktui.planning.finding import Allowances
from ktui.tui.widgets.allowance import Allowance


class PlanAllowances(Vertical):
    """A check box each."""

    DEFAULT_CSS = "PlanAllowances { height: auto; }"

    def compose(self) -> ComposeResult:
        """Lay them out."""
        yield Allowance("allow replication factor changes", id="allow-factor")
        yield Allowance("allow fewer replicas than min.insync.replicas", id="allow-below")

    @property
    def allowed(self) -> Allowances:
        """What is allowed."""
        return Allowances(
            replication_factor_change=self.query_one("#allow-factor", Checkbox).value,
            below_min_isr=self.query_one("#allow-below", Checkbox).value,
        )
