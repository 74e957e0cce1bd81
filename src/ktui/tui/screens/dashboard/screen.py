"""The dashboard: everything that happens at once, and a map of partitions to walk."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Resize
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Timeline
from ktui.tui.draw.cells import Piece, cut_pieces
from ktui.tui.draw.paint import content
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.screens.dashboard.map import PartitionMap
from ktui.tui.screens.dashboard.map_model import MAP_CELLS
from ktui.tui.screens.dashboard.summary import Room, legend, summary_lines
from ktui.tui.screens.watch.run_banner import RunLines
from ktui.tui.screens.watch.state import reason, state_cell
from ktui.tui.screens.watch.words import RowContext, build_row_context
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.lines import set_text
from ktui.tui.widgets.services import services

NOTHING_YET = "  Waiting for the first answer of the cluster."
NOTHING_MOVES = (
    "  Nothing is being reassigned, nor was within the last ten minutes."
    " Moves show here once they begin."
)
_SHARE = 0.42
"""The part of the height that the chart and the brokers take at most."""
_FEWEST, _MOST = 7, 24


class DashboardScreen(Screen[None]):
    """Shows flow, brokers, the run and the map of partitions."""

    CSS = """
    DashboardScreen {
        background: $background;
        & > #dashboard-summary { height: auto; }
        & > #dashboard-legend { height: 1; text-wrap: nowrap; }
        & > PartitionMap { height: 1fr; }
        & > #dashboard-cell { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """
    AUTO_FOCUS = "PartitionMap"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", "back", key_display="esc", tooltip="Go back to the list"),
    ]
    give_ids("dashboard", BINDINGS)

    class DetailWanted(Message):
        """The operator wants to see one partition."""

        def __init__(self, tp: TopicPartition) -> None:
            super().__init__()
            self.tp = tp

    def __init__(self) -> None:
        super().__init__()
        self._touched: set[TopicPartition] = set()
        self._timelines: Mapping[TopicPartition, Timeline] = {}

    def compose(self) -> ComposeResult:
        yield StatusHeader()
        yield RunLines()
        yield Static(id="dashboard-summary", markup=False)
        yield Static(id="dashboard-legend", markup=False)
        yield PartitionMap()
        yield Static(id="dashboard-cell", markup=False)
        yield FooterKeys()

    @property
    def interest(self) -> Interest:
        return Interest(census=True)

    @property
    def partition(self) -> TopicPartition | None:
        return self.query_one(PartitionMap).partition if self.is_mounted else None

    def show_run(
        self, attached: AttachedRun | None, touched: Collection[TopicPartition] = ()
    ) -> None:
        self._touched |= set(touched)
        self.query_one(RunLines).show(None if attached is None else attached.status)

    def show_progress(self) -> None:
        if not self.is_mounted:
            return
        attached = services(self).attached
        progress = services(self).progress
        rows = None if attached is None else attached.rows
        known = progress.timelines if rows is None else rows.with_unpolled(progress.timelines)
        self._timelines = known
        touched, self._touched = self._touched, set()
        stale = services(self).outage is not None
        self.query_one(PartitionMap).show(known, self._row_context(), touched=touched, stale=stale)
        self._draw_summary()

    def _row_context(self) -> RowContext:
        attached = services(self).attached
        rows = None if attached is None else attached.rows
        return build_row_context(services(self).progress.last, rows, health_first=True)

    @on(Resize)
    def _draw_summary(self) -> None:
        progress, stale = services(self).progress, services(self).outage is not None
        height = max(_FEWEST, min(_MOST, int(self.size.height * _SHARE)))
        room = Room(self.size.width, height)
        lines = summary_lines(progress, services(self).broker_loads, room, stale=stale)
        set_text(self.query_one("#dashboard-summary", Static), Content("\n").join(lines))

    @on(PartitionMap.Walked)
    def _draw_cell(self) -> None:
        shown = self.query_one(PartitionMap)
        model = shown.model
        words = legend(model.counts, model.block, self.size.width)
        if not model.lines:
            none = NOTHING_YET if services(self).progress.last is None else NOTHING_MOVES
            words = Content.styled("" if shown.judging else none, "$dim")
        set_text(self.query_one("#dashboard-legend", Static), words)
        set_text(self.query_one("#dashboard-cell", Static), content(self._cell(shown)))

    def _cell(self, shown: PartitionMap) -> list[Piece]:
        """Describe the partition under the cursor, and how many share its cell."""
        partitions = shown.partitions
        if not partitions or partitions[0] not in self._timelines:
            return []
        tp, context = partitions[0], self._row_context()
        timeline = self._timelines[tp]
        sign, state = MAP_CELLS[shown.model.state_of(tp)], state_cell(timeline, context)
        more = f"  and {len(partitions) - 1:,} more in this cell" if len(partitions) > 1 else ""
        why = reason(timeline, context)
        pieces = [
            Piece(f"  {sign.glyph} ", sign.role, bold=True), Piece(str(tp), bold=True),
            Piece("  "), state, Piece("  "), why or Piece(""), Piece(more, "dim"),
        ]  # fmt: skip
        return cut_pieces(pieces, self.size.width)

    @on(PartitionMap.Opened)
    def _open(self, event: PartitionMap.Opened) -> None:
        self.post_message(self.DetailWanted(event.tp))

    def action_back(self) -> None:
        self.dismiss()
