"""Forms for the throttle of a run, and check boxes for what the operator may allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Checkbox, Input, Static

from ktui.execution.run.options import RunOptions
from ktui.planning.check.findings import Allowances
from ktui.planning.throttle_rates import (
    ThrottleProblem,
    ThrottleRates,
    canary_in_words,
    parse_throttle_rates,
)
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.fields import TextField


class AllowanceBox(Checkbox):
    """A check box whose state is visible without colours."""

    def __init__(self, label: str, **options: Any) -> None:
        self.BUTTON_INNER = " "
        super().__init__(label, **options)

    def watch_value(self) -> None:
        self.BUTTON_INNER = "x" if self.value else " "
        super().watch_value()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """On this screen no letter is a command, so the footer shows none."""
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
        return Allowances(
            replication_factor_change=self.query_one("#allow-factor", Checkbox).value,
            below_min_isr=self.query_one("#allow-below", Checkbox).value,
        )


_CANARY = f"With an objective, slo=p99<150ms, it {canary_in_words('RUN')}."
HINT = "50MB a second into each broker, 50MB,3=20MB with broker 3's own, or none."


class RateInput(TextField):
    """The field for the new rates."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "accept", key_display="↵"),
    ]
    give_ids("field", BINDINGS)

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """While the operator types, no printable key is a command."""
        del key
        return character is not None and character.isprintable()


class ThrottleForm(Vertical):
    """Accepts rates in the syntax of `ktui throttle`, and shows errors while they are typed."""

    DEFAULT_CSS = """
    ThrottleForm {
        height: auto;
        & Horizontal { height: 1; }
        & .label { width: 16; }
        & RateInput { width: 30; height: 1; border: none; padding: 0 1; background: $cursor; }
        & RateInput:focus { background-tint: $primary 25%; border: none; }
        & #throttle-warnings { height: auto; }
        & #throttle-hint, & #canary-means { color: $dim; height: auto; }
        & #throttle-hint.-wrong { color: $error; text-style: bold; }
    }
    """

    class Changed(Message):
        """The rates or a check box have changed."""

    class Submitted(Message):
        """The operator has pressed enter to accept the rates typed."""

    def __init__(self, label: str, *, for_new_run: bool = False, disabled: bool = False) -> None:
        super().__init__(disabled=disabled)
        self._label, self._for_new_run = label, for_new_run

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Static(self._label, classes="label")
            yield RateInput(id="throttle-rate")
        yield Static(HINT, id="throttle-hint", markup=False)
        if self._for_new_run:
            yield AllowanceBox("throttle what leaders send, too", id="throttle-leaders")
            yield AllowanceBox("measure the objective by a canary", id="throttle-canary")
            yield Static(_CANARY, id="canary-means", markup=False)
        yield Static(id="throttle-warnings", markup=False)

    @property
    def text(self) -> str:
        return self.query_one(RateInput).value.strip()

    @text.setter
    def text(self, words: str) -> None:
        field = self.query_one(RateInput)
        field.value = words
        field.cursor_position = len(words)

    @property
    def leaders(self) -> bool:
        return self._ticked("#throttle-leaders")

    @property
    def canary(self) -> bool:
        return self._ticked("#throttle-canary")

    @canary.setter
    def canary(self, wanted: bool) -> None:
        self.query_one("#throttle-canary", AllowanceBox).value = wanted

    def _ticked(self, box: str) -> bool:
        return any(each.value for each in self.query(box).results(AllowanceBox))

    def rates(self) -> ThrottleRates | None:
        return None if not self.text or self.problem else parse_throttle_rates(self.text)

    @property
    def problem(self) -> str:
        try:
            rates = parse_throttle_rates(self.text or "none")
        except ThrottleProblem as problem:
            return f"throttle: {problem}"
        if self.leaders and not rates:
            return "throttle: no rate is given to throttle leaders to"
        if not self._for_new_run:
            return ""
        unmeasured = RunOptions(canary=self.canary).figure_problem(rates.objective)
        return f"throttle: {unmeasured}" if unmeasured else ""

    def warn(self, warnings: Sequence[str]) -> None:
        words = Content("\n").join(Content.styled(f"! {each}", "$warning") for each in warnings)
        self.query_one("#throttle-warnings", Static).update(words)

    @on(Input.Changed)
    @on(Checkbox.Changed)
    def _changed(self, event: Input.Changed | Checkbox.Changed) -> None:
        event.stop()
        hint = self.query_one("#throttle-hint", Static)
        hint.set_class(bool(self.problem), "-wrong")
        words = f"! {self.problem}" if self.problem else HINT
        if words != hint.content:
            hint.update(words)
        self.post_message(self.Changed())

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Submitted())
