"""The help: every key by the screen it works on, and a search among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from ktui.execution.run.states import CancelKind
from ktui.progress.timeline import Mark
from ktui.tui.draw.cells import (
    BATCH_BEGUN,
    CANCEL_SIGNS,
    COPYING,
    DROPPED,
    SIGNS,
    UNKNOWN,
    Piece,
    pieces_width,
)
from ktui.tui.draw.paint import content
from ktui.tui.screens.brokers.screen import BrokersScreen, BrokerTable
from ktui.tui.screens.brokers.status import BrokerStatusScreen, ManageBrokerScreen
from ktui.tui.screens.copy import CopyScreen
from ktui.tui.screens.dashboard.map import PartitionMap
from ktui.tui.screens.dashboard.screen import DashboardScreen
from ktui.tui.screens.detail.screen import DetailScreen
from ktui.tui.screens.events import EventList, EventsScreen
from ktui.tui.screens.forms import LimitInput
from ktui.tui.screens.help_now import WORDS, acts_now
from ktui.tui.screens.panels import Panels
from ktui.tui.screens.plan.plan import PlanScreen
from ktui.tui.screens.plan.start import StartScreen
from ktui.tui.screens.rehearsal import RehearsalScreen
from ktui.tui.screens.run.cancel import CancelScreen
from ktui.tui.screens.run.change_screen import LimitsScreen, RunChangeScreen
from ktui.tui.screens.run.questions import ToolCommandsScreen
from ktui.tui.screens.run.throttle import ThrottleScreen
from ktui.tui.screens.runs import InsightsScreen, RunsScreen
from ktui.tui.screens.watch.list import PartitionList
from ktui.tui.screens.watch.screen import WatchScreen
from ktui.tui.widgets.bindings import HelpGroup, bind, give_ids, help_group, hidden, key_names
from ktui.tui.widgets.fields import TextField
from ktui.tui.widgets.frame import BoxScreen

_INDENT, _SIGN_WIDTH = 2, 14
_FOUND, _CURRENT = "bold underline $warning", "bold reverse $warning"


class HelpSection(NamedTuple):
    """A title, and signs or keys with their meanings."""

    title: list[Piece]
    rows: Sequence[tuple[Piece, str]]


class _Row(NamedTuple):
    """A title, a sign with its meaning, or neither: an empty line."""

    signs: Sequence[Piece]
    meaning: str = ""
    width: int = 0  # cells of the signs of its section

    @property
    def text(self) -> str:
        return f"{''.join(sign.text for sign in self.signs)} {self.meaning}"


class HelpText(Widget):
    """Draws sections, and finds the rows with all words; as one widget, it opens at once."""

    DEFAULT_CSS = "HelpText { height: auto; }"

    def __init__(self, sections: Sequence[HelpSection]) -> None:
        super().__init__()
        self._rows = list(_rows(sections))
        self._words: list[str] = []
        self.matches: list[int] = []
        self._current = 0

    @property
    def current(self) -> int:
        return self._current + 1 if self.matches else 0

    @property
    def current_line(self) -> int:
        rows = self._rows[: self.matches[self._current]] if self.matches else []
        return sum(len(_drawn(row, self.size.width)) for row in rows)

    def search(self, text: str) -> None:
        self._words = text.casefold().split()
        self.matches = [i for i, row in enumerate(self._rows) if self._words and self._has(row)]
        self._current = 0
        self.refresh()

    def _has(self, row: _Row) -> bool:
        text = row.text.casefold()
        return all(word in text for word in self._words)

    def step(self, by: int) -> None:
        if self.matches:
            self._current = (self._current + by) % len(self.matches)
            self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return sum(len(_drawn(row, width)) for row in self._rows)

    def render(self) -> Content:
        return Content("\n").join(self._lines(self.size.width))

    def _lines(self, width: int) -> Iterator[Content]:
        found = set(self.matches)
        shown = self.matches[self._current] if self.matches else None
        for number, row in enumerate(self._rows):
            for line in _drawn(row, width):
                if number in found:
                    yield self._highlighted(line, _CURRENT if number == shown else _FOUND)
                else:
                    yield line

    def _highlighted(self, line: Content, style: str) -> Content:
        text = line.plain.casefold()
        if len(text) != len(line.plain):  # places in the one are not those in the other
            return line.stylize(style)
        for word in self._words:
            at = text.find(word)
            while at >= 0:
                line = line.stylize(style, at, at + len(word))
                at = text.find(word, at + len(word))
        return line


def _rows(sections: Sequence[HelpSection]) -> Iterator[_Row]:
    for number, section in enumerate(sections):
        if number:
            yield _Row([])
        yield _Row(section.title)
        widest = max((pieces_width([sign]) for sign, _ in section.rows), default=0)
        for sign, meaning in section.rows:
            yield _Row([sign], meaning, min(widest + 2, _SIGN_WIDTH))


def _drawn(row: _Row, width: int) -> list[Content]:
    if not row.meaning:
        return content(row.signs).wrap(max(1, width)) or [Content("")]
    signs = content(row.signs).wrap(row.width)
    meanings = Content(row.meaning).wrap(max(1, width - _INDENT - row.width))
    return [
        Content.assemble(" " * _INDENT, sign, " " * (row.width - sign.cell_length), meaning)
        for sign, meaning in zip_longest(signs, meanings, fillvalue=Content(""))
    ]


_REPLICA_SIGNS = (
    (Piece("*5", "leader", bold=True), "leads the partition"),
    (Piece(">4", "next-leader"), "first replica of the target: to lead, but does not yet"),
    (Piece("+7", "moving"), "being added"),
    (Piece("+7=", "moving"), "being added, and in the ISR already"),
    (Piece("-3", "retiring"), "to be removed, by this reassignment or a later step of the run"),
    (Piece("2!", "out-of-sync", underline=True), "out of the ISR, or its broker is down"),
)
_TIMELINE_SIGNS = (
    (Piece("▁▃▅█", "moving"), "share caught up of the slowest replica being added"),
    (Piece(*BATCH_BEGUN), "a batch submitted a step; for other moves, where it began"),
    (Piece(*DROPPED), "replicas were dropped"),
    (Piece(*COPYING), "copying, by the run's journal: nobody polled its share"),
    (Piece(*UNKNOWN), "the move is older than what anybody has seen of it"),
    (Piece(*CANCEL_SIGNS[CancelKind.ROLLBACK]), "rolled back from here on"),
    *(
        (Piece(*SIGNS[mark]), words)
        for mark, words in (
            (Mark.IN_SYNC, "nothing to catch up: all in sync"),
            (Mark.LEADER_MOVED, "the leader moved"),
            (Mark.STALLED, "stalled: no headway"),
            (Mark.OUT_OF_SYNC, "a replica was out of the ISR"),
            (Mark.CANCELLED, "cancelled or stopped, or changed by someone else"),
            (Mark.WAITING, "waiting for its turn"),
            (Mark.GONE, "the topic is gone"),
        )
    ),
)


_LANE_SIGNS = (
    (Piece("▁▃▅█", "moving"), "share that a replica being added has caught up"),
    *(
        (Piece(*SIGNS[mark]), words)
        for mark, words in (
            (Mark.LEADER, "leads"),
            (Mark.IN_SYNC, "in the ISR"),
            (Mark.RETIRING, "retiring"),
            (Mark.OUT_OF_SYNC, "out of the ISR"),
            (Mark.STALLED, "stalled: no headway"),
            (Mark.GONE, "not a replica any more"),
        )
    ),
)


class HelpScreen(BoxScreen[None]):
    """Says what can be done now with the row, then lists signs, words, and all keys.

    Opened from a form, words stand first, and else the keys of the screen.
    """

    CSS = """
    HelpScreen {
        & > .box { max-width: 84; height: 90%; }
        & VerticalScroll { scrollbar-size-vertical: 1; }
        & HelpText { padding-right: 1; }
        & Input.-closed { display: none; }
    }
    """
    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "back", "back", "Clear the search, or close the help"),
        bind("q,question_mark", "dismiss", "close", "Close the help"),
        bind("slash", "search", "search", "Look for words"),
        bind("n,enter", "step(1)", "next", "Go to the next match"),
        bind("N", "step(-1)", "previous", "Go to the previous match"),
    ]
    give_ids("help", BINDINGS)

    def __init__(self, groups: Sequence[HelpGroup], opened_from: Screen[Any] | None = None) -> None:
        super().__init__()
        self._title = "help: now · signs · words · all keys"
        if acts_now(opened_from) is None:
            self._title = "help"
        self._text = HelpText(list(_sections(groups, opened_from)))

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = Content(self._title)
            with VerticalScroll():
                yield self._text
            yield SearchField(placeholder="words to look for", classes="-closed")

    def on_mount(self) -> None:
        self._refresh_keys()

    def _refresh_keys(self) -> None:
        keys = {action: text.partition(" ")[0] for action, text in key_names(self).items()}
        if not self._field.value:
            words = f"{keys['search']} search · {keys['back']} close"
        elif not self._text.matches:
            words = f"no match · {keys['back']} clear"
        else:
            match = f"match {self._text.current} of {len(self._text.matches)}"
            steps = f"{keys['step(1)']} next · {keys['step(-1)']} previous"
            words = f"{match} · {steps} · {keys['back']} clear"
        self.query_one(Vertical).border_subtitle = Content(words)

    @property
    def _field(self) -> SearchField:
        return self.query_one(SearchField)

    def action_search(self) -> None:
        self._field.remove_class("-closed")
        self.set_focus(self._field)
        self._refresh_keys()

    @on(Input.Changed)
    def _search(self, event: Input.Changed) -> None:
        self._text.search(event.value)
        self._show_match()

    def action_step(self, by: int) -> None:
        self._text.step(by)
        self._show_match()

    def _show_match(self) -> None:
        self._refresh_keys()
        if self._text.matches:
            scroll = self.query_one(VerticalScroll)
            scroll.scroll_to(y=self._text.current_line - scroll.size.height // 3, animate=False)

    def action_back(self) -> None:
        if not self._field.value and self._field.has_class("-closed"):
            self.dismiss()
            return
        self._field.value = ""
        self._close_field()

    @on(Input.Submitted)
    def _close_field(self) -> None:
        self._field.add_class("-closed")
        self.set_focus(self.query_one(VerticalScroll))
        self._refresh_keys()


class SearchField(TextField):
    """The words to look for; up and down go to other matches while they are typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden("up", "screen.step(-1)", "previous", "Go to the match above"),
        hidden("down", "screen.step(1)", "next", "Go to the match below"),
    ]
    give_ids("search", BINDINGS)


def _sections(
    groups: Sequence[HelpGroup], opened_from: Screen[Any] | None
) -> Iterator[HelpSection]:
    here = [group for group in groups if isinstance(opened_from, group.screens)][:1]
    now = acts_now(opened_from)
    signs = (
        HelpSection(_heading("replicas"), _REPLICA_SIGNS),
        HelpSection(_heading("lanes of the detail"), _LANE_SIGNS),
        HelpSection(_heading("timeline"), _TIMELINE_SIGNS),
    )
    words = [(Piece(word, "header", bold=True), meaning) for word, meaning in WORDS]
    explained = HelpSection(_heading("words and limits"), words)
    if now is not None:
        yield HelpSection(now.title, now.rows)
        yield from (*signs, explained)
    elif isinstance(opened_from, _FORMS):
        yield explained
    for group in (*here, *(group for group in groups if group not in here)):
        title = f"{group.title} (this screen)" if group in here else group.title
        keys = [(Piece(key.keys, "moving", bold=True), key.words) for key in group.keys]
        yield HelpSection(_heading(title), keys)
    if now is None:
        if not isinstance(opened_from, _FORMS):
            yield explained
        yield from signs


_FORMS = (LimitsScreen, ThrottleScreen, PlanScreen)
"""Screens on which words are typed or chosen: `?` in a field explains them."""


def _heading(title: str) -> list[Piece]:
    return [Piece(title, "header", bold=True)]


def help_groups(everywhere: Iterable[object], keymap: Mapping[str, str]) -> list[HelpGroup]:
    """Return the keys of every screen, by group, with those that were changed."""
    return [
        help_group(title, bindings, keymap, screens=screens)
        for title, screens, bindings in (("everywhere", (), everywhere), *_screens())
    ]


def _screens() -> Iterator[tuple[str, tuple[type[Screen[Any]], ...], Iterable[object]]]:
    watch = (*PartitionList.BINDINGS, *WatchScreen.BINDINGS, *Panels.BINDINGS)
    limits = (*RunChangeScreen.BINDINGS, *LimitsScreen.BINDINGS, *LimitInput.BINDINGS)
    throttle = (*RunChangeScreen.BINDINGS, *ThrottleScreen.BINDINGS)
    dashboard = (*DashboardScreen.BINDINGS, *PartitionMap.BINDINGS)
    events = (*EventsScreen.BINDINGS, *EventList.BINDINGS)
    yield "list of partitions", (WatchScreen,), watch
    yield "detail of a partition", (DetailScreen,), DetailScreen.BINDINGS
    yield "brokers", (BrokersScreen,), (*BrokersScreen.BINDINGS, *BrokerTable.BINDINGS)
    yield "status of a broker", (BrokerStatusScreen,), BrokerStatusScreen.BINDINGS
    yield "manage a broker", (ManageBrokerScreen,), ManageBrokerScreen.BINDINGS
    yield "dashboard", (DashboardScreen,), dashboard
    yield "events", (EventsScreen,), events
    yield "limits", (LimitsScreen,), limits
    yield "cancel", (CancelScreen,), CancelScreen.BINDINGS
    yield "throttle", (ThrottleScreen,), throttle
    yield "runs", (RunsScreen,), RunsScreen.BINDINGS
    yield "insights", (InsightsScreen,), InsightsScreen.BINDINGS
    yield "Kafka's commands", (ToolCommandsScreen,), ToolCommandsScreen.BINDINGS
    yield "copy", (CopyScreen,), CopyScreen.BINDINGS
    plan = (*StartScreen.BINDINGS, *PlanScreen.BINDINGS)
    yield "start or add a plan", (PlanScreen,), plan
    yield "rehearsal of a plan", (RehearsalScreen,), RehearsalScreen.BINDINGS
    yield "help", (), (*HelpScreen.BINDINGS, *SearchField.BINDINGS)
