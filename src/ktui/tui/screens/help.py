"""The help: what can be done now, signs, words, every key by its screen, and a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.states import CancelKind
from ktui.pacing.limits import LETTERS, NUMBERS
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
from ktui.tui.run_view.attached import RunStatus
from ktui.tui.screens.brokers.screen import BrokersScreen, BrokerTable
from ktui.tui.screens.brokers.status import BrokerStatusScreen, ManageBrokerScreen
from ktui.tui.screens.dashboard.map import PartitionMap
from ktui.tui.screens.dashboard.screen import DashboardScreen
from ktui.tui.screens.detail.screen import DetailScreen
from ktui.tui.screens.events import EventList, EventsScreen
from ktui.tui.screens.forms import LimitInput
from ktui.tui.screens.panels import Panels
from ktui.tui.screens.plan.plan import PlanScreen
from ktui.tui.screens.plan.start import StartScreen
from ktui.tui.screens.questions import CopyScreen, ToolCommandsScreen
from ktui.tui.screens.run.cancel import CancelScreen
from ktui.tui.screens.run.change_screen import LimitsScreen, RunChangeScreen, ThrottleScreen
from ktui.tui.screens.runs import InsightsScreen, RehearsalScreen, RunsScreen
from ktui.tui.screens.watch.list import PartitionList
from ktui.tui.screens.watch.run_banner import limits_in_words, rates_in_words, shape_in_words
from ktui.tui.screens.watch.screen import WatchScreen
from ktui.tui.screens.watch.state import reason, state_cell
from ktui.tui.screens.watch.words import build_row_context
from ktui.tui.widgets.bindings import HelpSection, bind, give_ids, hidden, key_names, keys_section
from ktui.tui.widgets.fields import TextField
from ktui.tui.widgets.frame import BoxScreen
from ktui.tui.widgets.services import Services, ShowsPartition, Status, services
from ktui.tui.widgets.trouble import helps

WORDS: Sequence[tuple[str, str]] = (
    ("step", "one change sent for a partition: it adds or drops replicas, or moves the leader"),
    ("batch", "the steps that one decision of the run begins"),
    ("gentle", "a shape: adds all new replicas first, and drops the old ones in one cut"),
    ("kip-435", "a shape: the new leader first, then adds and drops in turns, with less disk"),
    ("cut", "drops the old replicas of a partition that has all its new ones"),
    ("ready", "has all its new replicas, and waits to be cut together with others"),
    ("leader epoch", "counts a partition's leaders; at each new one clients wait for a moment"),
    ("ISR", "the replicas in sync; nobody can write with fewer than min.insync.replicas"),
    ("throttle", "the most that is copied into a broker a second; steps in flight keep to it"),
    *((LETTERS[option], f"a limit: {each.meaning}") for option, each in NUMBERS.items()),
)
"""Words of runs and limits, as `?` explains them."""


class _Facts(NamedTuple):
    tp: TopicPartition
    app: Services
    status: Status
    on_folded_line: bool

    @property
    def run(self) -> RunStatus | None:
        return self.status.run

    @property
    def name(self) -> str:
        return "" if self.run is None else f"run {self.run.name}"


def _open(facts: _Facts) -> str:
    if facts.on_folded_line:
        return "Show a row for each partition that this line stands for"
    return f"See {facts.tp} over time: its replicas, steps and events"


def _brokers(facts: _Facts) -> str:
    down = ", ".join(map(str, facts.status.overview.down))
    if not down:
        return "Look at the brokers: traffic, throttle, disk, replicas"
    return f"Look at the brokers, of which {down} is down: since when, and what it holds"


def _pause_partition(facts: _Facts) -> str:
    attached = facts.app.attached
    if attached is not None and facts.tp in attached.run.pauses.partitions:
        return f"Let {facts.tp} go on"
    return f"Pause {facts.tp} alone: its step in flight finishes"


def _pause(facts: _Facts) -> str:
    attached, run = facts.app.attached, facts.run
    if attached is None or run is None:
        return ""
    if attached.run.pauses.whole:
        return f"Let {facts.name} go on"
    return f"Pause {facts.name}: nothing new begins; {run.steps_in_flight:,} in flight finish"


def _limits(facts: _Facts) -> str:
    if facts.run is None:
        return ""
    now = limits_in_words(facts.run.limits) or "none"
    shape = shape_in_words(facts.run.limits)
    return f"Change the limits from the next step on, now {now}, {shape}"


def _throttle(facts: _Facts) -> str:
    bounded = facts.run is not None and facts.run.throttle.bounded
    rates = rates_in_words(facts.run.throttle) if facts.run is not None and bounded else "none"
    return f"Change the throttle at once, now {rates}"


def _next_run(facts: _Facts) -> str:
    named = [f"{each.name}, {each.state.words}" for each in facts.status.others]
    return f"Show run {named[0]}" if len(named) == 1 else f"Show the next run: {'; '.join(named)}"


_ACTS: Mapping[str, Callable[[_Facts], str]] = {
    "open": _open,
    "cancel": lambda facts: (
        f"Stop or roll back {facts.tp}, its topic, or all of {facts.name}; asks first"
    ),
    "cancel_foreign": lambda facts: f"Cancel the move of {facts.tp}, which someone else has begun",
    "pause_partition": _pause_partition,
    "show_throttle": _throttle,
    "show_limits": _limits,
    "pause": _pause,
    "resume_run": lambda facts: f"Start an engine for {facts.name}, which goes on where it was",
    "open_gate": lambda _: "Open the cancel gate: runs may send steps again",
    "show_brokers": _brokers,
    "next_run": _next_run,
    "view": lambda _: "Show what is unhealthy, what is being reassigned, or the run",
    "mark": lambda facts: f"Mark {facts.tp}: c or X then acts on all marked ones",
    "copy": lambda _: "Copy the row, or Kafka's own command for it",
    "start_plan": lambda facts: (
        f"Add a plan to {facts.name}, or start another run"
        if facts.run is not None
        else "Start a plan: nothing is sent before you have seen what it does"
    ),
    "show_events": lambda _: "Read all that has happened",
    "show_dashboard": lambda _: "See the flow of all copies, and a map of all partitions",
}
"""What each key would do, of those that act on a row or its run; in order of worth."""


def acts_now(screen: Screen[Any] | None) -> HelpSection | None:
    """Return what can be done with the row under the cursor; None without one."""
    shown: object = screen
    tp = shown.partition if isinstance(shown, ShowsPartition) else None
    if screen is None or tp is None or (status := services(screen).cluster_status()) is None:
        return None
    app = services(screen)
    on_folded_line = app.abilities.words_of_key("open", "") != ""
    keys, facts = key_names(screen), _Facts(tp, app, status, on_folded_line)
    helping = {each.action: each.role for each in helps(status) if each.action in _ACTS}
    rows = [
        (Piece(keys[action], helping.get(action, "moving"), bold=True), words)
        for action in dict.fromkeys((*helping, *_ACTS))
        if action in keys and app.abilities.works(action) and (words := _ACTS[action](facts))
    ]
    return HelpSection(_title(tp, app), rows)


def _title(tp: TopicPartition, app: Services) -> list[Piece]:
    attached, name = app.attached, Piece(str(tp), bold=True)
    rows = None if attached is None else attached.rows
    unpolled = None if rows is None else rows.unpolled(tp)
    timeline = app.progress.timelines.get(tp) or unpolled
    if timeline is None:
        return [name]
    context = build_row_context(app.progress.last, rows, health_first=False)
    why = reason(timeline, context)
    state = state_cell(timeline, context)
    pieces = [name, Piece(" · ", "dim"), state._replace(bold=True)]
    return pieces if why is None else [*pieces, Piece(": ", "dim"), why]


_INDENT, _SIGN_WIDTH = 2, 14
_FOUND, _CURRENT = "bold underline $warning", "bold reverse $warning"


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

    def __init__(self, keys: Sequence[HelpSection], opened_from: Screen[Any] | None = None) -> None:
        super().__init__()
        self._title = "help: now · signs · words · all keys"
        if acts_now(opened_from) is None:
            self._title = "help"
        self._text = HelpText(list(_sections(keys, opened_from)))

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
    keys: Sequence[HelpSection], opened_from: Screen[Any] | None
) -> Iterator[HelpSection]:
    here = [section for section in keys if isinstance(opened_from, section.screens)][:1]
    now = acts_now(opened_from)
    signs = (
        HelpSection(_heading("replicas"), _REPLICA_SIGNS),
        HelpSection(_heading("lanes of the detail"), _LANE_SIGNS),
        HelpSection(_heading("timeline"), _TIMELINE_SIGNS),
    )
    words = [(Piece(word, "header", bold=True), meaning) for word, meaning in WORDS]
    explained = HelpSection(_heading("words and limits"), words)
    if now is not None:
        yield from (now, *signs, explained)
    elif isinstance(opened_from, _FORMS):
        yield explained
    for section in here:
        title = section.title[0].text
        yield section._replace(title=_heading(f"{title} (this screen)"))
    yield from (section for section in keys if section not in here)
    if now is None:
        if not isinstance(opened_from, _FORMS):
            yield explained
        yield from signs


_FORMS = (LimitsScreen, ThrottleScreen, PlanScreen)
"""Screens on which words are typed or chosen: `?` in a field explains them."""


def _heading(title: str) -> list[Piece]:
    return [Piece(title, "header", bold=True)]


_KEYED: Sequence[tuple[str, type[Screen[Any]] | None, tuple[type[DOMNode], ...]]] = (
    ("list of partitions", WatchScreen, (PartitionList, WatchScreen, Panels)),
    ("detail of a partition", DetailScreen, (DetailScreen,)),
    ("brokers", BrokersScreen, (BrokersScreen, BrokerTable)),
    ("status of a broker", BrokerStatusScreen, (BrokerStatusScreen,)),
    ("manage a broker", ManageBrokerScreen, (ManageBrokerScreen,)),
    ("dashboard", DashboardScreen, (DashboardScreen, PartitionMap)),
    ("events", EventsScreen, (EventsScreen, EventList)),
    ("limits", LimitsScreen, (RunChangeScreen, LimitsScreen, LimitInput)),
    ("cancel", CancelScreen, (CancelScreen,)),
    ("throttle", ThrottleScreen, (RunChangeScreen, ThrottleScreen)),
    ("runs", RunsScreen, (RunsScreen,)),
    ("insights", InsightsScreen, (InsightsScreen,)),
    ("Kafka's commands", ToolCommandsScreen, (ToolCommandsScreen,)),
    ("copy", CopyScreen, (CopyScreen,)),
    ("start or add a plan", PlanScreen, (StartScreen, PlanScreen)),
    ("rehearsal of a plan", RehearsalScreen, (RehearsalScreen,)),
    ("help", None, (HelpScreen, SearchField)),
)
"""The screens by the titles of their keys in the help, and who has these keys."""


def help_sections(app: type[DOMNode], keymap: Mapping[str, str]) -> list[HelpSection]:
    """Return the keys of the app and of every screen, with those that were changed."""
    return [
        keys_section("everywhere", [app], keymap),
        *(
            keys_section(title, owners, keymap, () if screen is None else (screen,))
            for title, screen, owners in _KEYED
        ),
    ]
