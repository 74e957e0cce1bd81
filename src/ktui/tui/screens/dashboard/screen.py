"""The upper part of the dashboard: the flow of copies over time, and a line per broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Static

from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.progress.flows import Flows, flow_into_all, flow_slots, throttle_of_all
from ktui.progress.timeline import Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.bars import LIMIT, chart_top, limited_chart
from ktui.tui.draw.cells import Piece, cut_pieces, faded, pieces_width
from ktui.tui.draw.paint import content, ruled
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.screens.brokers.row import BrokerView, Past, broker_lines, views_now
from ktui.tui.screens.dashboard.map import PartitionMap, count_pieces, state_bar
from ktui.tui.screens.dashboard.model import MAP_CELLS, MapState
from ktui.tui.screens.watch.run_banner import RunBanner
from ktui.tui.screens.watch.state import reason, state_cell
from ktui.tui.screens.watch.words import RowContext, build_row_context
from ktui.tui.widgets.bindings import bind, give_ids
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.lines import Lines, set_text
from ktui.tui.widgets.services import services

_SIDE_BY_SIDE = 130  # from this width on the chart and the brokers stand side by side
_CHART_SHARE, _ROOMY = 0.45, 90
_SCALE = 11
_TALLEST = 10


def summary_lines(
    flows: Flows, views: Collection[BrokerView], room: Size, *, stale: bool
) -> list[Content]:
    """Draw the chart and the brokers, beside each other where there is room."""
    past = next((view.past for view in views), Past())
    wide = room.width >= _SIDE_BY_SIDE
    left = int(room.width * _CHART_SHARE) if wide else room.width
    height = min(_TALLEST, max(2, (room.height if wide else room.height // 2) - 1))
    chart = _chart(flows, past, left, height)
    most = room.height - 1 if wide else max(3, room.height - len(chart)) - 1
    width = room.width - left if wide else room.width
    brokers = broker_lines(views, width, most) if views else []
    if brokers:
        title = [Piece("brokers ", bold=True), Piece(f"{len(views):,}", "header")]
        brokers = [ruled(title, width, corner="┬" if wide else ""), *brokers]
    lines = _beside(chart, brokers, left) if wide else [*chart, *brokers]
    return [content(faded(line) if stale else line) for line in lines]


def _beside(
    left: Sequence[list[Piece]], right: Sequence[list[Piece]], width: int
) -> list[list[Piece]]:
    blank = [Piece(" " * width)]
    count = max(len(left), len(right))
    lefts = [cut_pieces(line, width) for line in left] + [blank] * (count - len(left))
    rights = [*right, *([[]] * (count - len(right)))]
    return [[*one, *other] for one, other in zip(lefts, rights, strict=True)]


def _chart(flows: Flows, past: Past, width: int, height: int) -> list[list[Piece]]:
    copied = flow_slots(flows, past.now_s, flow_into_all, past.seen)
    limits = flow_slots(flows, past.now_s, throttle_of_all, past.seen)
    top = chart_top(copied, limits, height)
    title = [
        Piece("copied into all brokers ", bold=True),
        Piece(figures.as_copying(flows.bytes_s), "header"),
        Piece(f" · last {figures.as_count(past.minutes, 'minute')}", "dim"),
        *_limit(flows, brief=width < _ROOMY),
    ]
    if not any(copied):
        return [ruled(title, width), [Piece("  No copying was measured in this time.", "dim")]]
    rows = limited_chart(copied, limits, max(1, width - _SCALE - 4), height, top)
    scale = {0: figures.as_rate(top), height - 1: "0"}
    lines = [[Piece(f"{scale.get(n, ''):>{_SCALE}} ┤", "dim"), *row] for n, row in enumerate(rows)]
    return [ruled(title, width), *lines]


def _limit(flows: Flows, *, brief: bool) -> list[Piece]:
    """Name the line of the throttle, where it limits every copy onto some brokers."""
    rates = [flow.throttle for flow in flows.brokers.values() if flow.throttle]
    if not rates:
        return []
    each = (
        f" ({len(rates)} x {figures.as_rate(rates[0])})"
        if not brief and len({*rates}) == 1 < len(rates)
        else ""
    )
    words = f"throttle {figures.as_rate(sum(rates))}{each}"
    return [Piece(" · ", "dim"), Piece(f"{LIMIT * 2} {words}", "falling-behind")]


def legend(counts: Mapping[MapState, int], width: int, *, stale: bool) -> list[Content]:
    """Draw the title of the map with the states and how many are in each, and their bar."""
    title = [Piece("partitions ", bold=True), Piece(f"{sum(counts.values()):,}", "header")]
    room = width - 4 - pieces_width(title)
    bar = [Piece(" "), *state_bar(counts, width - 4)]
    lines = [ruled([*title, *count_pieces(counts, room)], width), bar]
    return [content(faded(line) if stale else line) for line in lines]


NOTHING_YET = "  Waiting for the first answer of the cluster."
NOTHING_MOVES = (
    "  Nothing is being reassigned, nor was within the last ten minutes."
    " Moves show here once they begin."
)
_SHARE = 0.42  # the part of the height that the chart and the brokers take at most
_FEWEST, _MOST = 7, 24


class DashboardScreen(Screen[None]):
    """Shows flow, brokers, the run and the map of partitions."""

    TITLE = "dashboard"
    CSS = """
    DashboardScreen {
        background: $background;
        & > #dashboard-legend { height: 2; text-wrap: nowrap; }
        & > PartitionMap { height: 1fr; }
        & > #dashboard-cell { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """
    AUTO_FOCUS = "PartitionMap"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,q", "dismiss", "back", "Go back to the list", key_display="esc"),
    ]
    give_ids("dashboard", BINDINGS)

    def __init__(self) -> None:
        super().__init__()
        self._touched: set[TopicPartition] = set()
        self._timelines: Mapping[TopicPartition, Timeline] = {}

    def compose(self) -> ComposeResult:
        yield StatusHeader()
        yield RunBanner()
        yield Lines(id="dashboard-summary")
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
        self.query_one(RunBanner).show(None if attached is None else attached.status)

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
        app, stale = services(self), services(self).outage is not None
        height = max(_FEWEST, min(_MOST, int(self.size.height * _SHARE)))
        room = Size(self.size.width, height)
        views = views_now(app).values()
        lines = summary_lines(app.progress.flows, views, room, stale=stale)
        self.query_one("#dashboard-summary", Lines).show(lines)

    @on(PartitionMap.Walked)
    def _draw_cell(self) -> None:
        shown = self.query_one(PartitionMap)
        model = shown.model
        words = Content("\n").join(legend(model.counts, self.size.width, stale=shown.stale))
        if not model.lines:
            none = NOTHING_YET if services(self).progress.last is None else NOTHING_MOVES
            words = Content.styled("" if shown.judging else none, "$dim")
        set_text(self.query_one("#dashboard-legend", Static), words)
        set_text(self.query_one("#dashboard-cell", Static), content(self._cell(shown)))

    def _cell(self, shown: PartitionMap) -> list[Piece]:
        tp, group = shown.partition, shown.group
        if tp is None or tp not in self._timelines:
            return []
        timeline, context = self._timelines[tp], self._row_context()
        at, state = shown.model.state_of(tp), state_cell(timeline, context)
        if group is not None and at is MapState.DONE:
            return [Piece(f"  all {group.partitions:,} in {group.name}  ", "dim"), state]
        whole = "" if group is None else f"  the worst of {group.partitions:,} in {group.name}:"
        sign, why = MAP_CELLS[at], reason(timeline, context)
        pieces = [
            Piece(whole, "dim"),
            Piece(f"  {sign.glyph} ", sign.role, bold=True), Piece(str(tp), bold=True),
            Piece("  "), state, Piece("  "), why or Piece(""),
        ]  # fmt: skip
        return cut_pieces(pieces, self.size.width)
