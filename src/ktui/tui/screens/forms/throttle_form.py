"""A throttle to be typed, and what is wrong with one that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Checkbox, Input, Static

from ktui.planning.throttle_rates import ThrottleProblem, ThrottleRates, parse_throttle_rates
from ktui.tui.screens.forms.allowances import Allowance
from ktui.tui.widgets.text_field import TextField

HINT = "50MB a second into each broker, 50MB,3=20MB with broker 3's own, or none."


class RateInput(TextField):
    """The rates, new."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "accept", key_display="↵"),
    ]

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Keep letters from the footer: while something is typed none of them is a command."""
        del key
        return character is not None and character.isprintable()


class ThrottleForm(Vertical):
    """Takes rates as `ktui throttle` does, and says while they are typed what is wrong.

    Args:
        label: what stands before the field.
        with_leaders: whether it can be chosen that leaders are throttled, too.
        disabled: whether nothing can be typed.
    """

    DEFAULT_CSS = """
    ThrottleForm {
        height: auto;
        & Horizontal { height: 1; }
        & .label { width: 16; }
        & RateInput {
            width: 30; height: 1; border: none; padding: 0 1; background: $cursor;
        }
        & RateInput:focus { background-tint: $primary 25%; border: none; }
        & #throttle-told { height: auto; }
        & #throttle-hint { color: $dim; height: auto; }
        & #throttle-hint.-wrong { color: $error; text-style: bold; }
    }
    """

    class Changed(Message):
        """Something else is typed."""

    class Submitted(Message):
        """The operator wants what is typed."""

    def __init__(self, label: str, *, with_leaders: bool = False, disabled: bool = False) -> None:
        super().__init__(disabled=disabled)
        self._label, self._with_leaders = label, with_leaders

    def compose(self) -> ComposeResult:
        """Lay out the field, and the line that explains it."""
        with Horizontal():
            yield Static(self._label, classes="label")
            yield RateInput(id="throttle-rate")
        yield Static(HINT, id="throttle-hint", markup=False)
        if self._with_leaders:
            yield Allowance("throttle what leaders send, too", id="throttle-leaders")
        yield Static(id="throttle-told", markup=False)

    @property
    def text(self) -> str:
        """What is typed."""
        return self.query_one(RateInput).value.strip()

    @text.setter
    def text(self, words: str) -> None:
        self.query_one(RateInput).value = words

    @property
    def leaders(self) -> bool:
        """Whether leaders are to be throttled, too."""
        return any(box.value for box in self.query(Allowance))

    def rates(self) -> ThrottleRates | None:
        """Give the rates that are typed; None where there are none, or they cannot be."""
        return None if not self.text or self.problem else parse_throttle_rates(self.text)

    @property
    def problem(self) -> str:
        """What is wrong with what is typed; empty where nothing is."""
        try:
            rates = parse_throttle_rates(self.text or "none")
        except ThrottleProblem as problem:
            return f"throttle: {problem}"
        if self.leaders and not rates:
            return "throttle: no rate is given to throttle leaders to"
        return ""

    def tell(self, warnings: Sequence[str]) -> None:
        """Say what the throttle that is typed would mean, where it is typed."""
        words = Content("\n").join(Content.styled(f"! {each}", "$warning") for each in warnings)
        self.query_one("#throttle-told", Static).update(words)

    @on(Input.Changed)
    @on(Checkbox.Changed)
    def _changed(self, event: Input.Changed | Checkbox.Changed) -> None:
        event.stop()
        hint = self.query_one("#throttle-hint", Static)
        hint.set_class(bool(self.problem), "-wrong")
        hint.update(Content(f"! {self.problem}" if self.problem else HINT))
        self.post_message(self.Changed())

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Submitted())
