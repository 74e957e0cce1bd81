"""The dialog with everything that can be done to one broker."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ktui.tui.screens.dialog import Dialog
from ktui.tui.widgets.bindings import give_ids

_NAME_CELLS = 10


class BrokerAct(enum.Enum):
    """What can be done to a broker, as the shell names it."""

    DRAIN = "drain"
    DEMOTE = "demote"
    SHED = "shed"
    FILL = "fill"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    PAUSE = "pause"
    CONTINUE = "continue"
    CANCEL = "cancel"


class BrokerChoice(NamedTuple):
    """One thing to do, and what it does."""

    act: BrokerAct
    means: str
    why_not: str = ""
    """Why it cannot be done now; empty if it can."""


_KEYS = {
    BrokerAct.DRAIN: ("d", "Plan a drain of the broker, on the start screen"),
    BrokerAct.DEMOTE: ("m", "Plan a demotion of the broker, on the start screen"),
    BrokerAct.SHED: ("h", "Plan to shed bytes of the broker, on the start screen"),
    BrokerAct.FILL: ("f", "Plan to fill the broker, on the start screen"),
    BrokerAct.CORDON: ("c", "Cordon the broker, after a question"),
    BrokerAct.UNCORDON: ("u", "Remove the broker's cordon, after a question"),
    BrokerAct.PAUSE: ("p", "Pause what comes to the broker or leaves it, after a question"),
    BrokerAct.CONTINUE: ("g", "Let that go on again, after a question"),
    BrokerAct.CANCEL: ("x", "Open the cancel dialog on what comes to the broker or leaves it"),
}
"""The key of each act, and what it does in the help."""


class ManageBrokerScreen(Dialog[BrokerAct | None]):
    """Returns what is to be done; None if the operator left the screen.

    Args:
        broker: the broker.
        choices: what can be done to it, in order.
    """

    DEFAULT_CSS = """
    ManageBrokerScreen OptionList {
        height: auto; max-height: 9; padding: 0; border: none; background: $surface;
        background-tint: $surface 0%; text-wrap: nowrap; text-overflow: ellipsis;
        &:focus { background-tint: $surface 0%; }
    }
    ManageBrokerScreen .way-out { margin-top: 1; color: $dim; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(key, f"choose({act.value!r})", act.value, show=False, tooltip=words)
            for act, (key, words) in _KEYS.items()
        ),
        Binding("escape,q", "close", "back", key_display="esc", tooltip="Go back; do nothing"),
    ]
    give_ids("manage", BINDINGS)
    ENTER = "or its letter"
    WIDTH = 78

    def __init__(self, broker: int, choices: Sequence[BrokerChoice]) -> None:
        super().__init__(f"manage broker {broker}")
        self._broker, self._choices = broker, choices

    def body(self) -> ComposeResult:
        yield OptionList(*self._options(), compact=True)
        yield Static(Content(way_out(self._broker)), classes="way-out")

    def _options(self) -> Iterator[Option]:
        for choice in self._choices:
            key, _ = _KEYS[choice.act]
            style = "$dim" if choice.why_not else ""
            words = f"not now: {choice.why_not}" if choice.why_not else choice.means
            line = Content.assemble(
                (key, style or "bold $primary"),
                (f"  {choice.act.value:<{_NAME_CELLS}}", style),
                (words, style),
            )
            yield Option(line, id=choice.act.value)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self._choose(self._choices[event.option_index])

    def action_choose(self, name: str) -> None:
        self._choose(next(each for each in self._choices if each.act.value == name))

    def _choose(self, choice: BrokerChoice) -> None:
        if choice.why_not:
            words = f"{choice.why_not.rstrip('.')}."
            self.app.notify(words, title=choice.act.value, severity="warning")
        else:
            self.dismiss(choice.act)

    def action_close(self) -> None:
        self.dismiss(None)


def way_out(broker: int) -> str:
    """Return the sentence that names the command for the whole way out of a broker."""
    return f"The whole way out, stage by stage, in a shell: ktui broker remove {broker}"
