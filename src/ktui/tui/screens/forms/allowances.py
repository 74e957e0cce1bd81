"""Check boxes for what the operator may allow."""

from __future__ import annotations

from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Checkbox

from ktui.planning.check.findings import Allowances


class AllowanceBox(Checkbox):
    """A check box whose state is visible without colours."""

    def __init__(self, label: str, **options: Any) -> None:
        self.BUTTON_INNER = " "
        super().__init__(label, **options)

    def watch_value(self) -> None:
        """Draw the tick, or none."""
        self.BUTTON_INNER = "x" if self.value else " "
        super().watch_value()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Hide letter keys from the footer: on this screen no letter is a command."""
        del key
        return character is not None and character.isalpha()


class PlanAllowances(Vertical):
    """One check box per allowance of a plan."""

    DEFAULT_CSS = "PlanAllowances { height: auto; }"

    def compose(self) -> ComposeResult:
        yield AllowanceBox("allow replication factor changes", id="allow-factor")
        yield AllowanceBox("allow fewer replicas than min.insync.replicas", id="allow-below")

    @property
    def allowed(self) -> Allowances:
        """The allowances that are ticked."""
        return Allowances(
            replication_factor_change=self.query_one("#allow-factor", Checkbox).value,
            below_min_isr=self.query_one("#allow-below", Checkbox).value,
        )
