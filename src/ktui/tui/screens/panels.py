"""The panels under the list, and how the operator has arranged list and panels of a cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.events import DescendantBlur, DescendantFocus, Resize
from textual.widget import Widget

from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.partition import TopicPartition
from ktui.durable import read_note, write_whole
from ktui.execution import RunProblem
from ktui.execution.host.state_dir import StateDir
from ktui.json_text import decode_untrusted
from ktui.tui.draw.cells import Piece, cut_pieces, faded
from ktui.tui.draw.paint import content
from ktui.tui.run_view.attached import SentRequests, sent_lines
from ktui.tui.screens.brokers.row import BrokersPanel
from ktui.tui.screens.detail.screen import DetailPane
from ktui.tui.screens.events import EventList
from ktui.tui.screens.watch.columns import SORTS, Ordering
from ktui.tui.screens.watch.list import ZOOMS, PartitionPane
from ktui.tui.screens.watch.rule import View
from ktui.tui.screens.watch.screen import WatchScreen
from ktui.tui.widgets.bindings import bind, give_ids
from ktui.tui.widgets.frame import Panel
from ktui.tui.widgets.lines import Lines
from ktui.tui.widgets.services import services

PARTITION, BROKERS, EVENTS, SENT = "partition", "brokers", "events", "sent"
PANELS = (PARTITION, BROKERS, EVENTS, SENT)
"""By the digits 1 to 4 that give them the keys."""
_LEAST = {PARTITION: 6, BROKERS: 5, SENT: 4}
"""The lines with which a panel says enough; brokers and events stand side by side."""
_FEWEST = 3
"""The lines that a panel keeps, however small it is made."""


class PanelChoices(msgspec.Struct, frozen=True):
    """Which panels the operator has hidden, and the lines that others were given or lost."""

    hidden: frozenset[str] = frozenset()
    more: Mapping[str, int] = MappingProxyType({})

    def row_shown(self, row: str) -> bool:
        return not {name for name in PANELS if _row(name) == row} <= self.hidden

    def resized(self, panel: str, lines: int) -> PanelChoices:
        row = _row(panel)
        return msgspec.structs.replace(self, more={**self.more, row: self.more.get(row, 0) + lines})

    def hiding(self, *panels: str) -> PanelChoices:
        return msgspec.structs.replace(self, hidden=self.hidden | {*panels})

    def showing(self, *panels: str) -> PanelChoices:
        return msgspec.structs.replace(self, hidden=self.hidden - {*panels})


def _row(panel: str) -> str:
    return BROKERS if panel == EVENTS else panel


def panel_heights(
    height: int, brokers: int, choices: PanelChoices, first: str = PARTITION
) -> dict[str, int]:
    """Share the lines of all panels by row; a row that does not fit is left out.

    `first` is the panel that has to fit. What no other row wants is the partition's.
    """
    rows = [row for row in _LEAST if choices.row_shown(row)]
    heights: dict[str, int] = {}
    left = height
    for row in sorted(rows, key=lambda row: row != _row(first)):
        if heights and left < _LEAST[row]:
            break  # what is worth less has no place before what is worth more
        wanted = max(_LEAST[row], min(brokers + 2, height // 2) if row == BROKERS else 0)
        wanted = max(_FEWEST, wanted + (choices.more.get(row, 0) if row != PARTITION else 0))
        heights[row] = min(left, wanted)
        left -= heights[row]
    for row in rows[:1]:
        heights[next(iter(each for each in rows if each in heights), row)] += left
    return heights


class EventsPanel(Panel):
    """The newest events."""

    DIGIT, TITLE = 3, EVENTS

    def body(self) -> ComposeResult:
        yield EventList(one_line=True)

    @on(Resize)
    def draw(self) -> None:
        title = [Piece(self.TITLE, bold=True), Piece(" · e all", "dim")]
        self.draw_rule(title, corner="┬" if self.has_class("-beside") else "")
        events = self.query_one(EventList)
        if events.events is not services(self).events:
            events.show(services(self).events)


class SentPanel(Panel):
    """What the run has sent to Kafka, each request with its answer."""

    DIGIT, TITLE = 4, SENT
    _drawn_from: tuple[SentRequests | None, int, int, bool] | None = None

    def body(self) -> ComposeResult:
        with VerticalScroll():
            yield Lines()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).anchor()  # at the newest, until the operator scrolls

    @on(Resize)
    def draw(self) -> None:
        self.draw_rule()
        attached, stale = services(self).attached, services(self).outage is not None
        sent = None if attached is None else attached.sent
        width = self.size.width - 4
        drawn_from = (sent, 0 if sent is None else sent.changes, width, stale)
        if drawn_from == self._drawn_from:
            return
        self._drawn_from = drawn_from
        lines = [] if sent is None else sent_lines(sent.newest)
        lines = lines or [[Piece("nothing yet", "dim")]]
        drawn = [content(cut_pieces(faded(line) if stale else line, width)) for line in lines]
        self.query_one(Lines).show(drawn)


class Panels(PartitionPane):
    """Draws and asks for nothing while it is hidden."""

    DEFAULT_CSS = """
    Panels {
        background: $background;
        & > #below { height: 0; }
        & > SentPanel { height: 0; }
        & SentPanel Lines { min-height: 100%; }  /* else an anchor moves a few to the bottom */
        & BrokersPanel { width: 1fr; }
        & EventsPanel { width: 1fr; }
        & EventList { height: 1fr; padding: 0 0 0 1; }
        & .-beside EventList { border-left: solid $rule; }
        & VerticalScroll { scrollbar-size-vertical: 1; padding: 0 1 0 2; height: 1fr; }
        & .-away { display: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "leave", "list", "Go back to the list", key_display="esc"),
        bind("greater_than_sign", "resize(2)", "larger", "Make the panel larger", key_display=">"),
        bind("less_than_sign", "resize(-2)", "smaller", "Make the panel smaller", key_display="<"),
        bind("vertical_line", "hide", "hide", "Hide the panel; its digit shows it again",
             key_display="|"),
    ]  # fmt: skip
    give_ids("panel", BINDINGS)

    def __init__(self) -> None:
        super().__init__()
        self.choices = PanelChoices()
        self._first, self._lines = PARTITION, 0
        self._detail = DetailPane()

    def compose(self) -> ComposeResult:
        yield self._detail
        with Horizontal(id="below"):
            yield BrokersPanel()
            yield EventsPanel()
        yield SentPanel()

    @property
    def interest(self) -> Interest:
        return self._detail.interest if self.display else NO_INTEREST

    @property
    def _by_name(self) -> dict[str, Widget]:
        others = (self.query_one(each) for each in (BrokersPanel, EventsPanel, SentPanel))
        return dict(zip(PANELS, (self._detail, *others), strict=True))

    @property
    def focused(self) -> str | None:
        return next((n for n, panel in self._by_name.items() if panel.has_focus_within), None)

    def show_partition(self, tp: TopicPartition | None, *, again: bool) -> None:
        if not self.display:
            return
        self._detail.show_partition(tp, again=again)
        if again:
            self.share()
            self._draw_others()

    @on(DescendantFocus)
    @on(DescendantBlur)
    def _draw_focus(self) -> None:
        self._detail.draw()
        self._draw_others()

    def _draw_others(self) -> None:
        for panel in (self.query_one(BrokersPanel), self.query_one(EventsPanel)):
            if panel.display:
                panel.draw()
        if self.query_one(SentPanel).display:
            self.query_one(SentPanel).draw()

    def give(self, lines: int) -> None:
        self._lines = lines
        self.share()

    def share(self) -> None:
        """Share the lines that all panels have; brokers and runs come and go."""
        last, choices = services(self).progress.last, self.choices
        brokers = 0 if last is None else len(last.brokers)
        if services(self).attached is None:
            choices = choices.hiding(SENT)
        heights = panel_heights(self._lines, brokers, choices, self._first)
        for name, panel in self._by_name.items():
            panel.set_class(name in choices.hidden or not heights.get(_row(name)), "-away")
        self.query_one(EventsPanel).set_class(BROKERS not in choices.hidden, "-beside")
        self.styles.height = self._lines
        self._detail.styles.height = heights.get(PARTITION, 0)
        self.query_one("#below").styles.height = heights.get(BROKERS, 0)
        self.query_one(SentPanel).styles.height = heights.get(SENT, 0)

    @property
    def more_lines(self) -> int | None:
        rows = [row for row in _LEAST if self.choices.row_shown(row)]
        return self.choices.more.get(PARTITION, 0) if rows else None

    def choose(self, panel: int | None) -> None:
        if panel is not None:
            self._focus(PANELS[panel - 1])
        elif self.more_lines is None:
            self.set_choices(self.choices.showing(*PANELS))
        else:
            self.set_choices(self.choices.hiding(*PANELS))

    def set_choices(self, choices: PanelChoices) -> None:
        self.choices = choices
        self.share()
        self.post_message(self.Chosen())

    def _focus(self, name: str) -> None:
        if name == SENT and services(self).attached is None:
            self.notify("Nothing is sent: no run is shown (r shows the runs).", markup=False)
            return
        self._first = name
        self.set_choices(self.choices.showing(name))
        panel = self._by_name[name]
        target = next((each for each in panel.walk_children(Widget) if each.can_focus), panel)
        self.call_after_refresh(target.focus)

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def action_resize(self, lines: int) -> None:
        if self.focused is not None:
            self.set_choices(self.choices.resized(self.focused, lines))

    def action_hide(self) -> None:
        name = self.focused
        if name is not None:
            self.post_message(self.Left())
            self.set_choices(self.choices.hiding(name))


log = logging.getLogger(__name__)

_MOST_LINES = 1_000  # of a panel, far above what any terminal has


class KeptView(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept. What this version does not know, or cannot be, is left as it is by default."""

    sort: str = Ordering().by
    reverse: bool = False
    zoom_s: float | None = None  # the seconds that timelines reach back; None for all
    view: str = View.REASSIGNING.value
    hidden: tuple[str, ...] = ()  # panels
    more: dict[str, int] = {}  # lines that a panel was given, or lost where below 0

    @classmethod
    def of_screen(cls, screen: WatchScreen, panels: Panels) -> KeptView:
        rows, choices = screen.partition_list, panels.choices
        # The run's own view comes by itself with a run, and topics are chosen for a time.
        lasting = screen.view if screen.view in _LASTING else View.REASSIGNING
        return cls(
            sort=rows.ordering.by,
            reverse=rows.ordering.reverse,
            zoom_s=rows.zoom,
            view=lasting.value,
            hidden=tuple(name for name in PANELS if name in choices.hidden),
            more={name: lines for name, lines in choices.more.items() if lines},
        )

    def apply_to(self, screen: WatchScreen, panels: Panels) -> None:
        if self.sort in SORTS:
            screen.order(Ordering(self.sort, self.reverse))
        if self.zoom_s in ZOOMS:
            screen.partition_list.show_last(self.zoom_s)
        if screen.view is View.REASSIGNING and self.view in _LASTING:
            screen.show_view(View(self.view))
        more = {
            name: lines
            for name, lines in self.more.items()
            if name in PANELS and abs(lines) <= _MOST_LINES
        }
        panels.set_choices(PanelChoices(frozenset(self.hidden) & {*PANELS}, more))


_LASTING = (View.REASSIGNING, View.UNHEALTHY)
_DECODER = msgspec.json.Decoder(KeptView)


class ViewKeeper:
    """Keeps the view of one cluster in the state directory; without one, nothing is kept."""

    def __init__(self, state: StateDir | None) -> None:
        self._state = state
        self._kept: KeptView | None = None
        self._cluster_id: str | None = None

    def restore(self, cluster_id: str, screen: WatchScreen, panels: Panels) -> None:
        """Arrange the view as it was left, when the cluster has answered for the first time."""
        if self._state is None or self._cluster_id is not None:
            return
        self._cluster_id = cluster_id
        path = self._state.cluster_note("views", cluster_id)
        try:
            kept = decode_untrusted(_DECODER, read_note(path))
        except FileNotFoundError:
            kept = KeptView()
        except (OSError, msgspec.DecodeError) as error:
            log.warning("%s: the view begins as usual: %s", path, error)
            kept = KeptView()
        self._kept = kept
        if kept != KeptView():
            kept.apply_to(screen, panels)

    def changed(self, screen: WatchScreen, panels: Panels) -> Callable[[], None] | None:
        """Return what writes down how the view is arranged; None where that is as it was."""
        if self._state is None or self._cluster_id is None:
            return None
        now = KeptView.of_screen(screen, panels)
        if now == self._kept:
            return None
        self._kept = now
        return partial(_write, self._state, self._cluster_id, now)


def _write(state: StateDir, cluster_id: str, view: KeptView) -> None:
    path = state.cluster_note("views", cluster_id)
    try:
        state.make(path.parent)
        write_whole(path, msgspec.json.encode(view))
    except (OSError, RunProblem) as error:
        log.warning("%s: the view is not kept: %s", path, error)
