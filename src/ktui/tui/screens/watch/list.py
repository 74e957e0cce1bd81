"""The list of partitions. Textual's Line API lets a hundred thousand scroll like a hundred."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ktui.cluster.partition import TopicPartition
from ktui.progress.slots import RECENT_SLOT_S
from ktui.progress.timeline import Timeline
from ktui.tui.draw.cells import SPANS
from ktui.tui.draw.paint import Paint
from ktui.tui.screens.watch.columns import CURSOR_WIDTH, ColumnLayout, layout
from ktui.tui.screens.watch.filter import RowFilter
from ktui.tui.screens.watch.fold import Fold
from ktui.tui.screens.watch.row_context import RowContext
from ktui.tui.screens.watch.row_model import Arrangement, Belongs, Change
from ktui.tui.screens.watch.sort import Ordering
from ktui.tui.screens.watch.strip_cache import RowInputs, StripCache
from ktui.tui.widgets.off_loop import OffLoop


class PartitionList(ScrollView, can_focus=True):
    """Shows one row per partition, with a cursor that is anchored to its partition.

    Until the operator moves the cursor, it marks the first row, and trouble comes to the top by
    itself. Rows keep their places once the cursor was moved, or if the order is by figures that
    change all the time. `home` puts them where they belong.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    PartitionList {
        background: $background;
        overflow-x: hidden;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False, tooltip="Move the cursor up"),
        Binding("down,j", "move(1)", "down", show=False, tooltip="Move the cursor down"),
        Binding("pageup", "page(-1)", "page up", show=False, tooltip="Move up by a page"),
        Binding("pagedown", "page(1)", "page down", show=False, tooltip="Move down by a page"),
        Binding(
            "home,g", "first", "first", show=False,
            tooltip="Go to the first row, and put all rows where they belong by now",
        ),
        Binding("end,G", "last", "last", show=False, tooltip="Go to the last row"),
        Binding("enter", "open", "detail", key_display="↵", tooltip="Open the partition's detail"),
        Binding(
            "space", "mark", "mark", key_display="space",
            tooltip="Mark the partition under the cursor for c, or lift its mark",
        ),
        Binding("u", "unmark", "unmark all", show=False, tooltip="Lift all marks"),
    ]  # fmt: skip

    class Opened(Message):
        """The operator wants to see a partition's detail."""

        def __init__(self, tp: TopicPartition | None) -> None:
            super().__init__()
            self.tp = tp

    class Arranged(Message):
        """The rows, their order or the columns have changed."""

    class CursorMoved(Message):
        """Another row is under the cursor."""

        def can_replace(self, message: Message) -> bool:
            """Only the last of several moves counts."""
            return isinstance(message, PartitionList.CursorMoved)

    def __init__(self, belongs: Belongs = lambda _: True) -> None:
        super().__init__()
        self.arrangement = Arrangement(belongs)
        """The rows as they are shown."""
        self.ordering, self.rowfilter = Ordering(), RowFilter()
        """The order and the filter that were chosen last."""
        self._off_loop = OffLoop(self, self._arranged, self._show_rows, Change.then)
        self._zoomed: int | None = None
        """Slots of time that the operator chose for the timelines; None for what has been seen."""
        self.layout_in_force: ColumnLayout = layout(0, self.arrangement.extents)
        self.row = 0
        """The row under the cursor."""
        self.held = False
        """Whether the operator has moved the cursor, so that rows keep their places."""
        self.stale = False
        """Whether the figures are no longer current, and are drawn grey."""
        self._anchor: TopicPartition | None = None
        self._row_context = RowContext(0.0)
        self.marked: set[TopicPartition] = set()
        """Partitions marked by the operator, visible or not."""
        self._fold = Fold()
        self._drawn = StripCache()
        self._paint: Paint | None = None

    @property
    def cursor(self) -> TopicPartition | None:
        """The partition under the cursor; None while there are no rows."""
        rows = self.arrangement.rows
        return rows[self.row] if self.row < len(rows) else None

    @property
    def holds_places(self) -> bool:
        """Whether rows keep their places although their figures change."""
        return self.held or not self.ordering.steady

    @property
    def arranging(self) -> bool:
        """Whether rows are on their way that show a poll or a choice."""
        return self._off_loop.busy

    @property
    def rearranging(self) -> bool:
        """Whether the rows do not show yet what was chosen last."""
        return any(change.anew for change in self._off_loop.not_shown)

    def show(
        self,
        timelines: Mapping[TopicPartition, Timeline],
        context: RowContext,
        *,
        stale: bool = False,
        touched: Collection[TopicPartition] = (),
    ) -> None:
        """Show new timelines, and redraw only the lines that changed."""
        if stale is not self.stale:
            self.stale = stale
            self._forget_drawn()
        self._follow(Change(timelines=timelines, context=context, touched=frozenset(touched)))

    def rearrange(
        self,
        *,
        belongs: Belongs | None = None,
        ordering: Ordering | None = None,
        rowfilter: RowFilter | None = None,
        context: RowContext | None = None,
        fold: Fold | None = None,
    ) -> None:
        """Change the rows or their order; the cursor stays on its partition."""
        self._fold = self._fold if fold is None else fold
        self.ordering = ordering or self.ordering
        self.rowfilter = self.rowfilter if rowfilter is None else rowfilter
        self._follow(
            Change(
                belongs=belongs, ordering=ordering, rowfilter=rowfilter, context=context,
                hides=self._hides, anew=True,
            )
        )  # fmt: skip

    def _follow(self, change: Change) -> None:
        """Arrange the rows for a change."""
        most = max(len(self.arrangement.timelines), len(change.timelines or ()))
        self._off_loop.take(change, most)

    def _arranged(self, change: Change) -> tuple[Arrangement, bool]:
        return self.arrangement.followed_by(change, reposition=not self.holds_places)

    def _show_rows(self, change: Change, result: tuple[Arrangement, bool]) -> None:
        self.arrangement, moved = result
        self._row_context = change.context or self._row_context
        if moved:
            self._settle()
        elif change.reposition:
            self.post_message(self.Arranged())
        if not self._lay_out():
            self._redraw_changed()

    def _hides(self, timeline: Timeline, context: RowContext) -> bool:
        """Return whether a row is folded; one that is marked or under the cursor never is."""
        kept = timeline.tp in self.marked or (self.held and timeline.tp == self._anchor)
        return not kept and self._fold.hides(timeline, context)

    def zoom(self) -> None:
        """Shorten the span of the timelines; after the shortest one comes the longest."""
        self._zoomed = SPANS[(SPANS.index(self.span) + 1) % len(SPANS)]
        self._lay_out()

    @property
    def span(self) -> int:
        """Slots of time that the timelines reach back: no further than there is something."""
        if self._zoomed is not None:
            return self._zoomed
        seen = self._row_context.now_s - self.arrangement.seen_since_s
        long_enough = (each for each in reversed(SPANS) if each * RECENT_SLOT_S >= seen)
        return next(long_enough, SPANS[0])

    def let_go(self) -> None:
        """Forget where the operator has put the cursor: other rows come."""
        self.held, self._anchor = False, None

    def _settle(self) -> None:
        """Find the cursor's partition again, on the same line of the screen if possible."""
        rows = self.arrangement.rows
        self._fit_scrollbar()
        before = self.row
        if self.held:
            found = self.arrangement.index_of(self._anchor)
            self.row = before if found is None else found
        else:
            self.row = 0
        self.row = max(0, min(self.row, len(rows) - 1))
        if self.row != before:
            height = before - self.scroll_offset.y
            self.scroll_to(y=max(0, self.row - height), animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Arranged())

    def _fit_scrollbar(self) -> None:
        """Let the scrollbar follow the rows; while all fit, their number changes no layout."""
        self.virtual_size = Size(0, max(len(self.arrangement.rows), self.size.height))

    def _lay_out(self) -> bool:
        """Fit the columns to the width; return whether they have changed."""
        batches = self._row_context.run is not None
        new_layout = layout(self.size.width, self.arrangement.extents, self.span, batches=batches)
        if new_layout == self.layout_in_force:
            return False
        self.layout_in_force = new_layout
        self._forget_drawn()
        self.post_message(self.Arranged())
        return True

    def _forget_drawn(self) -> None:
        self._drawn.forget()
        self.refresh()

    def _redraw_changed(self) -> None:
        top = self.scroll_offset.y
        rows = self.arrangement.rows[top : top + self.size.height]
        for y, tp in enumerate(rows):
            drawn = self._drawn.known(tp)
            if drawn is None or drawn != self._strip(top + y):
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """Draw one visible line."""
        row = self.scroll_offset.y + y
        if row >= len(self.arrangement.rows):
            return Strip.blank(self.size.width, self.paint.background("background"))
        return self._strip(row)

    def _strip(self, row: int) -> Strip:
        """Draw a row, or reuse the strip drawn from the same figures, cursor and theme."""
        tp = self.arrangement.rows[row]
        timeline = self.arrangement.timelines[tp]
        drawn_from = RowInputs(timeline, self._row_context, row == self.row, tp in self.marked)
        layout, width = self.layout_in_force, self.size.width
        return self._drawn.strip(drawn_from, layout, self.paint, width, stale=self.stale)

    @property
    def paint(self) -> Paint:
        """The styles of the theme in force."""
        if self._paint is None:
            self._paint = Paint(self.app.theme_variables)
        return self._paint

    def notify_style_update(self) -> None:
        """Forget what was drawn in another theme."""
        super().notify_style_update()
        self._paint = None
        self._drawn.forget()

    def on_resize(self) -> None:
        """Fit the columns, and keep the cursor visible."""
        self._fit_scrollbar()
        self._lay_out()
        self._forget_drawn()
        self._scroll_to_cursor()

    def action_move(self, rows: int) -> None:
        """Move the cursor down by `rows` rows."""
        self._go(self.row + rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor down by `pages` pages."""
        self._go(self.row + pages * max(1, self.size.height - 1))

    def action_first(self) -> None:
        """Go to the first row, and put all rows where they belong now."""
        self.let_go()
        self._follow(Change(reposition=True))
        self._move_to(0)

    def action_last(self) -> None:
        """Go to the last row."""
        self._go(len(self.arrangement.rows) - 1)

    def action_open(self) -> None:
        """Open the detail of the partition under the cursor."""
        self.post_message(self.Opened(self.cursor))

    def action_mark(self) -> None:
        """Mark the partition under the cursor, or lift its mark."""
        if self.cursor is not None:
            self.marked ^= {self.cursor}
            self._refresh_row(self.row)
            self.post_message(self.Arranged())

    def action_unmark(self) -> None:
        """Lift all marks."""
        self.marked.clear()
        self.refresh()
        self.post_message(self.Arranged())

    def _go(self, row: int) -> None:
        """Put the cursor on a row for the operator; rows keep their places from then on."""
        rows = self.arrangement.rows
        if not rows:
            return
        self._move_to(max(0, min(row, len(rows) - 1)))
        self._anchor = self.cursor
        if not self.held:
            self.held = True
            self.post_message(self.Arranged())

    def _move_to(self, row: int) -> None:
        before, self.row = self.row, row
        self._scroll_to_cursor()
        self._refresh_row(before)
        self._refresh_row(row)
        self.post_message(self.CursorMoved())

    def _scroll_to_cursor(self) -> None:
        top, height = self.scroll_offset.y, self.size.height
        if self.row < top:
            self.scroll_to(y=self.row, animate=False, immediate=True)
        elif height and self.row >= top + height:
            self.scroll_to(y=self.row - height + 1, animate=False, immediate=True)

    def _refresh_row(self, row: int) -> None:
        y = row - self.scroll_offset.y
        if 0 <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def on_click(self, event: events.Click) -> None:
        """Select the row. A click in front of it marks it; a double click opens it."""
        at = event.get_content_offset_capture(self)
        row = self.scroll_offset.y + at.y
        if row >= len(self.arrangement.rows):
            return
        self._go(row)
        if at.x < CURSOR_WIDTH:
            self.action_mark()
        elif event.chain == 2:  # noqa: PLR2004 - the second click of a double click
            self.action_open()
