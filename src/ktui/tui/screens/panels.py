"""The panels under the list: the partition under the cursor, the brokers, and the events."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.widgets import Static

from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.partition import TopicPartition
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.paint import content, ruled
from ktui.tui.screens.brokers.panel import BrokersPanel
from ktui.tui.screens.detail.screen import DetailPane
from ktui.tui.screens.events import EventList
from ktui.tui.screens.watch.list import PartitionPane
from ktui.tui.widgets.lines import set_text
from ktui.tui.widgets.services import services

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
