"""The pane beside the list: the detail of the partition under the cursor."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.partition import TopicPartition
from ktui.tui.draw.cells import Piece, faded, partition_text, pieces_width
from ktui.tui.draw.paint import content
from ktui.tui.draw.titled_rule import ruled
from ktui.tui.screens.detail.partition_detail import PartitionDetail, as_current
from ktui.tui.screens.watch.list import PartitionPane
from ktui.tui.widgets.lines import Lines
from ktui.tui.widgets.services import services
from ktui.tui.widgets.static_text import set_text


class DetailPane(PartitionPane):
    """Shows the partition that it is given; draws and asks for nothing while it is hidden."""

    DEFAULT_CSS = """
    DetailPane {
        background: $background;
        & > #pane-title { height: 1; }
        & > VerticalScroll {
            border-left: solid $rule; padding: 0 1 0 2; scrollbar-size-vertical: 1;
        }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._detail: PartitionDetail | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="pane-title", markup=False)
        with VerticalScroll(can_focus=False):
            yield Lines(id="pane-body")

    @property
    def interest(self) -> Interest:
        return NO_INTEREST if self._detail is None or not self.display else self._detail.interest

    def show_partition(self, tp: TopicPartition | None, *, again: bool) -> None:
        shown = None if self._detail is None else self._detail.partition
        if not self.display or (tp == shown and not again):
            return
        if tp is None:
            self._detail = None
        elif tp != shown:
            self._detail = PartitionDetail(services(self), tp)
            self.query_one(VerticalScroll).scroll_home(animate=False)
        self._draw()

    @on(Resize)
    def _draw(self) -> None:
        stale = services(self).outage is not None
        title: list[Piece] = []
        lines: list[Content] = []
        if self._detail is not None:
            self._detail.update()
            tp, (name, *state) = self._detail.partition, self._detail.title()
            whole = min(pieces_width([name]), self.size.width // 2)
            title = [name._replace(text=partition_text(tp, whole)), *state]
            room = self.query_one(VerticalScroll).scrollable_content_region
            lines = self._detail.body(room.width, room.height)
        rule = ruled(faded(title) if stale else title, self.size.width, corner="┬")
        set_text(self.query_one("#pane-title", Static), content(rule))
        self.query_one(Lines).show([as_current(line, stale=stale) for line in lines])
