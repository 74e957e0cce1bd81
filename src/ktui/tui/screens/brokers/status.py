"""The dialog with what a broker holds, and what keeps it."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ktui.cluster.broker import LogDir
from ktui.cluster.errors import ClusterError
from ktui.columns import Column
from ktui.execution import RunProblem
from ktui.execution.broker.status import (
    EMPTY,
    LOG_DIR_COLUMNS,
    TOPIC_COLUMNS,
    BrokerStatus,
    advice_lines,
    held_words,
    state_words,
    why_words,
)
from ktui.planning.plan import join_some
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, cut, pieces_width
from ktui.tui.draw.paint import RowColumn, content, table_lines
from ktui.tui.screens.brokers.row import CORDON_SIGN
from ktui.tui.screens.dialog import Dialog
from ktui.tui.widgets.bindings import bind, give_ids, hidden
from ktui.tui.widgets.services import ReportsOwnErrors

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


class ListedChoice(NamedTuple):
    """One thing to do, with its letter, what it does, and why it cannot be done now, if so."""

    key: str
    name: str
    means: str
    why_not: str = ""


class ChoiceDialog(Dialog[str | None]):
    """Returns the name of what was chosen in a list or by its letter; None if nothing was."""

    DEFAULT_CSS = """
    ChoiceDialog OptionList {
        height: auto; max-height: 9; padding: 0; border: none; background: $surface;
        background-tint: $surface 0%; text-wrap: nowrap; text-overflow: ellipsis;
        &:focus { background-tint: $surface 0%; }
    }
    ChoiceDialog .below { margin-top: 1; color: $dim; }
    """
    ENTER = "or its letter"
    WIDTH = 78

    def __init__(self, title: str, choices: Sequence[ListedChoice], cells: int) -> None:
        super().__init__(title)
        self._choices, self._cells = choices, cells

    def options(self) -> Iterator[Option]:
        """Yield the lines of the list."""
        for choice in self._choices:
            style = "$dim" if choice.why_not else ""
            words = f"not now: {choice.why_not}" if choice.why_not else choice.means
            key = (choice.key, style or "bold $primary")
            yield Option(Content.assemble(key, (f"  {choice.name:<{self._cells}}{words}", style)))

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self._choose(self._choices[event.option_index])

    def action_choose(self, key: str) -> None:
        for choice in self._choices:
            if choice.key == key:
                self._choose(choice)

    def _choose(self, choice: ListedChoice) -> None:
        if choice.why_not:
            self.app.notify(choice.why_not, title=choice.name, severity="warning")
        else:
            self.dismiss(choice.name)


_ACTS = {
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


class ManageBrokerScreen(ChoiceDialog):
    """Returns the name of the act that is to be done to a broker."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(hidden(key, f"choose({key!r})", act.value, words) for act, (key, words) in _ACTS.items()),
        bind("escape,q", "leave", "back", "Go back; do nothing", key_display="esc"),
    ]
    give_ids("manage", BINDINGS)

    def __init__(self, broker: int, choices: Sequence[ListedChoice]) -> None:
        super().__init__(f"manage broker {broker}", choices, _NAME_CELLS)
        self._broker = broker

    def body(self) -> ComposeResult:
        yield OptionList(*self.options(), compact=True)
        yield Static(Content(way_out(self._broker)), classes="below")

    def _choose(self, choice: ListedChoice) -> None:
        why_not = choice.why_not and f"{choice.why_not.rstrip('.')}."
        super()._choose(choice._replace(why_not=why_not))


def broker_choice(act: BrokerAct, means: str, why_not: str = "") -> ListedChoice:
    """Return an act as one of the choices of `ManageBrokerScreen`."""
    return ListedChoice(_ACTS[act][0], act.value, means, why_not)


def way_out(broker: int) -> str:
    """Return the sentence that names the command for the whole way out of a broker."""
    return f"The whole way out, stage by stage, in a shell: ktui broker remove {broker}"


_EVENT_CELLS = 32
_OTHERS = "Also for later, and all else that may happen: :event suspend 3 at 10m"


_FAULT_KEYS = {
    "k": ("kill", "Let the broker lose power"),
    "s": ("suspend", "Let the broker not answer for 60 s (SIGSTOP)"),
    "t": ("start", "Let the broker come back"),
    "w": ("slow", "Let its network and disk have a fifth of their capacity"),
    "d": ("fill disk", "Let something else fill its disk"),
    "l": ("load", "Let producers write twice as much to all topics"),
    "m": ("min ISR", "Set min.insync.replicas of the topic to the number of its replicas"),
}


class BreakList(OptionList):
    """What may happen at the broker; the arrows choose another one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "left", "screen.other(-1)", "other broker",
            "Choose the broker before", key_display="←→", id="break.broker-before",
        ),
        hidden("right", "screen.other(1)", "next broker", "Choose the next broker"),
    ]  # fmt: skip
    give_ids("break", BINDINGS)


class BreakScreen(ChoiceDialog):
    """Returns the event that is to happen, at one of the brokers or another."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            hidden(key, f"choose({key!r})", words, tooltip)
            for key, (words, tooltip) in _FAULT_KEYS.items()
        ),
        bind("escape,q,B", "leave", "back", "Go back; do nothing", key_display="esc"),
    ]
    give_ids("break", BINDINGS)

    def __init__(
        self, brokers: Sequence[int], broker: int, choices: Callable[[int], Sequence[ListedChoice]]
    ) -> None:
        super().__init__(_title(broker), choices(broker), _EVENT_CELLS)
        self._brokers, self._broker, self._choices_at = brokers, broker, choices

    def body(self) -> ComposeResult:
        yield BreakList(*self.options(), compact=True)
        yield Static(Content(_OTHERS), classes="below")

    def action_other(self, step: int) -> None:
        place = (self._brokers.index(self._broker) + step) % len(self._brokers)
        self._broker = self._brokers[place]
        self._choices = self._choices_at(self._broker)
        options = self.query_one(BreakList)
        at = options.highlighted
        options.clear_options().add_options(self.options())
        options.highlighted = at
        self.entitle(_title(self._broker))


def break_choices(
    broker: int, *, up: bool, topic: str | None, replicas: int
) -> tuple[ListedChoice, ...]:
    """Return what may happen at a broker that is up or not, and to the topic under the cursor."""
    down, alive = ("" if up else "it is down"), ("it is up" if up else "")
    choices = [
        ListedChoice("k", f"kill {broker}", "it loses power", down),
        ListedChoice("s", f"suspend {broker} for 60s", "it does not answer for 60 s", down),
        ListedChoice("t", f"start {broker}", "it comes back", alive),
        ListedChoice("w", f"slow {broker} to 20%", "network and disk have a fifth", down),
        ListedChoice("d", f"disk {broker} full", "something else fills its disk", down),
        ListedChoice("l", "load x2", "producers write twice as much"),
    ]
    if topic is not None:
        event = f"min.insync.replicas {topic}={replicas}"
        choices.append(ListedChoice("m", event, f"acks=all needs {replicas} in sync"))
    return tuple(choices)


def _title(broker: int) -> str:
    return f"break something at broker {broker}"


MOST_TOPICS = 100  # the topics that are listed; the shell lists all
_INDENT = "  "


class BrokerStatusScreen(Dialog[None], ReportsOwnErrors):
    """Shows a broker's status as it was read, with the time; it does not change by itself."""

    DEFAULT_CSS = "BrokerStatusScreen > .dialog { border: round $rule; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("r", "read", "read again", "Read what the broker holds again"),
        hidden("pageup", "page(-1)", "scroll up", "Scroll up"),
        bind("pagedown", "page(1)", "scroll", "Scroll down", key_display="pgup pgdn"),
        bind("escape,q,s", "dismiss", "back", "Go back", key_display="esc"),
    ]  # fmt: skip
    give_ids("status", BINDINGS)
    WIDTH = 96

    def __init__(
        self, broker: int, read: Callable[[], Awaitable[tuple[BrokerStatus, datetime]]]
    ) -> None:
        super().__init__(f"broker {broker}")
        self._broker, self._read = broker, read

    def body(self) -> ComposeResult:
        yield Static(Content("Reading what it holds …"), id="broker-status")

    def on_mount(self) -> None:
        self.action_read()

    def action_read(self) -> None:
        self.run_worker(self._show(), group="status", exclusive=True, exit_on_error=False)

    async def _show(self) -> None:
        text = self.query_one("#broker-status", Static)
        try:
            status, at = await self._read()
        except (ClusterError, RunProblem) as problem:
            text.update(Content.styled(f"! {problem}", "$error"))
            return
        self.entitle(f"broker {self._broker}: {state_words(status.facts)}")
        text.update(Content("\n").join(status_lines(status, at, self.line_cells)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        return action != "page" or (self.is_mounted and self.box.max_scroll_y > 0)


def status_lines(status: BrokerStatus, at: datetime, width: int) -> Iterator[Content]:
    """Yield what a broker holds, as read at a time, in lines of `width` cells."""
    yield from _held(status)
    dirs = sorted(status.facts.log_dirs, key=lambda each: each.path)
    if dirs:
        yield Content("")
        columns = [Column(heading="", cell=_sign), *map(_in_pieces, LOG_DIR_COLUMNS)]
        yield from map(content, table_lines(columns, dirs))
    topics = status.holdings.topics()
    if topics:
        yield Content("")
        shown = topics[:MOST_TOPICS]
        figures_of = table_lines(map(_in_pieces, TOPIC_COLUMNS[1:-1]), shown)
        # the last two cells are for the scroll bar
        room = width - 2 - pieces_width(figures_of[0]) - len(_INDENT)
        names = ["topic", *(topic.topic for topic in shown)]
        for number, (name, cells) in enumerate(zip(names, figures_of, strict=True)):
            first = Piece(f"{cut(name, '', room)}{_INDENT}", "" if number else "header")
            yield content([first, *cells])
            why = why_words(shown[number - 1]) if number else ""
            for part in Content(why).wrap(width - len(_INDENT)) if why else ():
                yield Content.assemble(_INDENT, part).stylize("$dim")
    if more := topics[MOST_TOPICS:]:
        every = f"ktui broker status {status.facts.id} --all"
        yield Content(f"and {figures.as_count(len(more), 'topic')} more. All of them: {every}")
    yield Content("")
    for line in advice_lines(status, topics):
        yield Content.styled(f"! {line}", "$warning")
    current = "proven to be current" if status.fresh else "not proven to be current"
    yield Content.styled(f"read at {figures.as_time(at)}, {current}", "$dim")
    yield Content.styled(way_out(status.facts.id), "$dim")


def _held(status: BrokerStatus) -> Iterator[Content]:
    if status.proven_empty:
        yield Content.styled(f"✓ {EMPTY}", "bold $success")
        return
    yield from map(Content, held_words(status.holdings))
    if not status.holdings.replicas:
        unread = status.facts.unread or ("nothing proves that the metadata is current",)
        yield Content.styled(f"! not known to be empty: {join_some(unread)}", "$warning")


def _sign(log_dir: LogDir) -> list[Piece]:
    sign = "!" if log_dir.error else CORDON_SIGN if log_dir.cordoned else ""
    return [Piece(sign, "falling-behind", bold=True)]


def _in_pieces(column: Column[str]) -> RowColumn:
    """Return a column of the shell's table for this one."""
    heading = column.heading.lower()
    return Column(heading=heading, cell=lambda row: [Piece(column.cell(row))], right=column.right)
