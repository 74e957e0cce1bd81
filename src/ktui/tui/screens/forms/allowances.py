"""What the operator may allow, to be ticked."""

from __future__ import annotations

from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Checkbox

from ktui.planning.check.findings import Allowances


class Allowance(Checkbox):
    """A check box that is told from an empty one without colours."""

    def __init__(self, label: str, **how: Any) -> None:
        self.BUTTON_INNER = " "
        super().__init__(label, **how)

    def watch_value(self) -> None:
        """Tick it, or not."""
        self.BUTTON_INNER = "x" if self.value else " "
        super().watch_value()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Keep letters from the footer: on this screen none of them is a command."""
        del key
        return character is not None and character.isalpha()


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
