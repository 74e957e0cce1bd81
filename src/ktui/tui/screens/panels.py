"""The panels under the list: the partition under the cursor, the brokers, and the events."""

from __future__ import annotations

from collections.abc import Collection

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.partition import TopicPartition
from ktui.columns import leave_out
from ktui.tui.draw.cells import Piece, faded
from ktui.tui.draw.paint import content, ruled, table_lines
from ktui.tui.screens.brokers.row import COLUMNS, BrokerView, broker_views
from ktui.tui.screens.detail.screen import DetailPane
from ktui.tui.screens.events import EventList
from ktui.tui.screens.watch.list import PartitionPane
from ktui.tui.widgets.lines import set_text
from ktui.tui.widgets.services import services

_NOT_HERE = ("address", "leaders", "replicas", "cordoned")
"""Columns of the brokers screen alone: what never changes, and what its own polls count."""
_GAP = 2
_LEAST_DETAIL, _MOST_DETAIL = 12, 24
"""The lines of the partition's panel from which on the others stand below it, and its most."""
_LEAST_BELOW = 7


def panel_heights(height: int, brokers: int) -> tuple[int, int]:
    """Return the lines of the partition's panel, and of those below it; 0 where none fit."""
    below = max(_LEAST_BELOW, brokers + 2)
    if height - below < _LEAST_DETAIL:
        below = _LEAST_BELOW
    if height - below < _LEAST_DETAIL:
        return height, 0
    detail = min(height - below, _MOST_DETAIL)
    return detail, height - detail


def broker_lines(views: Collection[BrokerView], width: int, height: int) -> list[list[Piece]]:
    """Draw headings, and the brokers of which most can be said where not all have a line."""
    wanted = [c for c in COLUMNS if c.heading not in _NOT_HERE and any(map(c.has, views))]
    columns = leave_out(wanted, lambda shown: sum(c.width + _GAP for c in shown) <= width - 2)
    room = height - 1
    shown = sorted(views, key=_least_to_say)[: room if len(views) <= room else room - 1]
    ordered = sorted(shown, key=lambda view: view.id)
    lines = [[Piece("  "), *line] for line in table_lines(columns, ordered)]
    left = len(views) - len(shown)
    return [*lines, [Piece(f"  … and {left:,} more", "dim")]] if left else lines


def _least_to_say(view: BrokerView) -> tuple[bool, float, int]:
    alive = view.broker is not None and view.broker.alive
    load = (view.load.bytes_in_s or 0.0) + (view.load.bytes_out_s or 0.0)
    return alive, -load, view.id


class BrokersPanel(Vertical):
    """The brokers with what flows into and out of each."""

    def compose(self) -> ComposeResult:
        yield Static(id="brokers-rule", markup=False)
        yield Static(id="brokers-lines", markup=False)

    @on(Resize)
    def draw(self) -> None:
        app, width = services(self), self.size.width
        last = app.progress.last
        views = (
            {}
            if last is None
            else broker_views(last, app.broker_loads, app.broker_controller.proven_empty)
        )
        lines = broker_lines(views.values(), width, self.size.height - 1) if views else []
        stale = app.outage is not None
        drawn = [content(faded(line) if stale else line) for line in lines]
        rule = ruled([Piece("brokers", bold=True)], width)
        set_text(self.query_one("#brokers-rule", Static), content(rule))
        set_text(self.query_one("#brokers-lines", Static), Content("\n").join(drawn))


class EventsPanel(Vertical):
    """The newest events."""

    def compose(self) -> ComposeResult:
        yield Static(id="events-rule", markup=False)
        events = EventList()
        events.can_focus = False  # keys belong to the list of partitions
        yield events

    @on(Resize)
    def draw(self) -> None:
        rule = ruled([Piece("events", bold=True)], self.size.width, corner="┬")
        set_text(self.query_one("#events-rule", Static), content(rule))
        events = self.query_one(EventList)
        if events.events is not services(self).events:
            events.show(services(self).events)


class Panels(PartitionPane):
    """Draws and asks for nothing while it is hidden."""

    DEFAULT_CSS = """
    Panels {
        background: $background;
        & > DetailPane { height: 1fr; }
        & > #below { height: 0; }
        & BrokersPanel { width: 1fr; }
        & EventsPanel { width: 1fr; }
        & #events-rule, & #brokers-rule { height: 1; }
        & EventList { height: 1fr; border-left: solid $rule; padding: 0 0 0 1; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._detail = DetailPane()

    def compose(self) -> ComposeResult:
        yield self._detail
        with Horizontal(id="below"):
            yield BrokersPanel()
            yield EventsPanel()

    @property
    def interest(self) -> Interest:
        return self._detail.interest if self.display else NO_INTEREST

    def show_partition(self, tp: TopicPartition | None, *, again: bool) -> None:
        if not self.display:
            return
        self._detail.show_partition(tp, again=again)
        if again:
            self.query_one(BrokersPanel).draw()
            self.query_one(EventsPanel).draw()

    @on(Resize)
    def _share(self, event: Resize) -> None:
        last = services(self).progress.last
        brokers = 0 if last is None else len(last.brokers)
        self.query_one("#below").styles.height = panel_heights(event.size.height, brokers)[1]
