"""The list of partitions. Textual's Line API lets a hundred thousand scroll like a hundred."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, Window, faded
from ktui.tui.draw.paint import Paint
from ktui.tui.screens.watch.columns import (
    CURSOR,
    CURSOR_WIDTH,
    TIMELINE,
    ColumnLayout,
    Ordering,
    RowInputs,
    StripCache,
    layout,
    pieces_below,
)
from ktui.tui.screens.watch.row_model import Arrangement, Belongs, RowChange, RowFilter
from ktui.tui.screens.watch.rule import NOW, time_axis
from ktui.tui.screens.watch.state import Fold, FoldKind, FoldLine, kind_of
from ktui.tui.screens.watch.words import RowContext
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.lines import LineView
from ktui.tui.widgets.services import OffLoop, services

ZOOMS = (None, 600.0, 60.0)
"""The seconds that timelines reach back: to the first move, or so many."""


class _LastCounts(Message):
    """Of several that wait, only the last one counts."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, type(self))


class PartitionList(LineView, can_focus=True):
    """Shows one row per partition, with a cursor that is anchored to its partition.

    Until the operator moves the cursor, it marks the first row, and trouble comes to the top by
    itself. Rows keep their places once the cursor was moved, or if the order is by figures that
    change all the time. `home` puts them where they belong.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    PartitionList {
        background: $background; overflow-x: hidden; scrollbar-gutter: stable;
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
            tooltip="Mark the partition under the cursor for c and X, or lift its mark",
        ),
        Binding("u", "unmark", "unmark all", show=False, tooltip="Lift all marks"),
        Binding(
            "right", "unfold", "unfold", show=False,
            tooltip="Show a row for each partition that the line under the cursor stands for",
        ),
        Binding(
            "left", "fold", "fold", show=False,
            tooltip="Fold the partitions like the one under the cursor into a line",
        ),
    ]  # fmt: skip
    give_ids("list", BINDINGS)

    @dataclass
    class Opened(Message):
        """The operator wants to see a partition's detail."""

        tp: TopicPartition

    @dataclass(kw_only=True)
    class Folded(Message):
        """The operator wants to fold partitions into a line, or to unfold that line."""

        kind: FoldKind
        folded: bool

    class Arranged(_LastCounts):
        """The rows, their order or the columns have changed."""

    class CursorMoved(_LastCounts):
        """Another row is under the cursor."""

    def __init__(self, belongs: Belongs = lambda _: True) -> None:
        super().__init__()
        self.arrangement = Arrangement(belongs)
        self.ordering, self.rowfilter = Ordering(), RowFilter()
        """The order and the filter that were chosen last."""
        self._off_loop = OffLoop(self, self._arranged, self._show_rows, RowChange.then)
        self.layout_in_force: ColumnLayout = layout(0, self.arrangement.extents, batches=False)
        self.row = 0  # the line under the cursor: a row, or below all rows what is folded
        self.held = False
        self.stale = False
        self._anchor: TopicPartition | None = None
        self._row_context = RowContext(0.0)
        self.marked: set[TopicPartition] = set()
        self._fold = Fold()
        self._fold_lines: list[FoldLine] = []
        self._on_line: FoldKind | None = None
        self._unfolded_from: frozenset[TopicPartition] | None = None
        self._below: list[Piece] | None = None
        """What the row under the cursor has no room for, in a line of its own under it."""
        self._axis_in_force = ""
        self._drawn = StripCache()
        self._paint: Paint | None = None

    @property
    def cursor(self) -> TopicPartition | None:
        rows = self.arrangement.rows
        return rows[self.row] if self.row < len(rows) else None

    @property
    def on_folded_line(self) -> bool:
        return self._on_line is not None

    @property
    def _lines(self) -> int:
        """The lines at which the cursor can stand."""
        return len(self.arrangement.rows) + len(self._fold_lines)

    @property
    def lines(self) -> int:
        return self._lines + (self._below is not None)

    def _line_of(self, row: int) -> int:
        return row + (self._below is not None and row > self.row)

    def _row_at(self, line: int) -> int | None:
        """Return the row in a line; None for the line under the cursor's row."""
        if self._below is None or line <= self.row:
            return line
        return None if line == self.row + 1 else line - 1

    @property
    def _fold_top(self) -> int:
        """The line of the screen at which folded lines begin: below the last row, or the lowest."""
        below_rows = self._line_of(len(self.arrangement.rows)) - self.scroll_offset.y
        return max(0, min(below_rows, self.size.height - len(self._fold_lines)))

    @property
    def holds_places(self) -> bool:
        return self.held or not self.ordering.steady

    @property
    def arranging(self) -> bool:
        return self._off_loop.busy

    @property
    def rearranging(self) -> bool:
        return any(change.anew for change in self._off_loop.not_shown)

    def show(
        self,
        timelines: Mapping[TopicPartition, Timeline],
        context: RowContext,
        *,
        stale: bool = False,
        touched: Collection[TopicPartition] = (),
    ) -> None:
        if stale is not self.stale:
            self.stale = stale
            self._forget_drawn()
        self._follow(RowChange(timelines=timelines, context=context, touched=frozenset(touched)))

    def rearrange(
        self,
        *,
        belongs: Belongs | None = None,
        ordering: Ordering | None = None,
        rowfilter: RowFilter | None = None,
        context: RowContext | None = None,
        fold: Fold | None = None,
    ) -> None:
        self._fold = self._fold if fold is None else fold
        self.ordering = ordering or self.ordering
        self.rowfilter = self.rowfilter if rowfilter is None else rowfilter
        self._follow(
            RowChange(
                belongs=belongs, ordering=ordering, rowfilter=rowfilter, context=context,
                hides=self._hides, anew=True,
            )
        )  # fmt: skip

    def _follow(self, change: RowChange) -> None:
        most = max(len(self.arrangement.timelines), len(change.timelines or ()))
        self._off_loop.submit(change, most)

    def _arranged(self, change: RowChange) -> tuple[Arrangement, bool]:
        return self.arrangement.followed_by(change, reposition=not self.holds_places)

    def _show_rows(self, change: RowChange, result: tuple[Arrangement, bool]) -> None:
        self.arrangement, moved = result
        self._row_context = change.context or self._row_context
        if moved:
            self._settle()
        elif change.reposition:
            self.post_message(self.Arranged())
        if not self.rearranging:
            self._go_to_unfolded()
        self._find_below()
        if not self._lay_out():
            self._redraw_changed()
        if self.axis != self._axis_in_force:
            self._axis_in_force = self.axis
            self.post_message(self.Arranged())

    def show_fold_lines(self, lines: list[FoldLine]) -> None:
        if lines == self._fold_lines:
            return
        kinds = [line.kind for line in self._fold_lines]
        self._fold_lines = lines
        if kinds != [line.kind for line in lines]:
            self._settle_on_line()
            self.refresh()
        self.refresh(Region(0, self._fold_top, self.size.width, len(lines)))

    def _settle_on_line(self) -> None:
        self._fit_scrollbar()
        kinds = [line.kind for line in self._fold_lines]
        if not self.held:
            self.row = 0
        elif self._on_line in kinds:
            self.row = len(self.arrangement.rows) + kinds.index(self._on_line)
        self.row = max(0, min(self.row, self._lines - 1))
        self._note_line()

    def _note_line(self) -> None:
        place = self.row - len(self.arrangement.rows)
        on_line = 0 <= place < len(self._fold_lines)
        self._on_line = self._fold_lines[place].kind if on_line else None

    def refold(
        self,
        fold: Fold,
        lines: list[FoldLine],
        context: RowContext,
        *,
        kind: FoldKind | None = None,
    ) -> None:
        self.held = self.held or kind is not None
        kind = kind or (self._on_line if self.held else None)
        self._fold_lines = lines
        if kind is None:
            self.rearrange(fold=fold, context=context)
        elif kind in fold.kinds:
            self._on_line, self._anchor = kind, None
            self.rearrange(fold=fold, context=context)
        else:
            self._unfolded_from, self._on_line = frozenset(self.arrangement.rows), None
            self.rearrange(fold=fold, context=context)

    def _go_to_unfolded(self) -> None:
        before, self._unfolded_from = self._unfolded_from, None
        if before is not None:
            rows = enumerate(self.arrangement.rows)
            self._go(next((row for row, tp in rows if tp not in before), self.row))

    def _hides(self, timeline: Timeline, context: RowContext) -> bool:
        """Return whether a row is folded; one that is marked or under the cursor never is."""
        kept = timeline.tp in self.marked or (self.held and timeline.tp == self._anchor)
        return not kept and self._fold.hides(timeline, context)

    def zoom_in(self) -> None:
        self.show_last(ZOOMS[(ZOOMS.index(self.zoom) + 1) % len(ZOOMS)])

    def show_last(self, seconds: float | None) -> None:
        """Let the timelines reach back so far; None for the first move."""
        services(self).zoom_s = seconds
        self._lay_out()

    @property
    def zoom(self) -> float | None:
        return services(self).zoom_s

    @property
    def _shown_s(self) -> float:
        """The seconds that the timelines reach back: no further than there is something."""
        seen_s = self._row_context.until_s - self.arrangement.seen_since_s
        return min(max(0.0, seen_s), math.inf if self.zoom is None else self.zoom)

    @property
    def axis(self) -> str:
        if not self.arrangement.rows:
            return ""
        layout, context = self.layout_in_force, self._row_context
        window, until_at = Window(context.until_s, layout.cell_s), context.until_at
        last = NOW if context.ended_s is None or until_at is None else figures.as_time(until_at)
        return time_axis(window, layout.width_of(TIMELINE), until_at, last)

    def let_go(self) -> None:
        self.held, self._anchor = False, None

    def _settle(self) -> None:
        """Find the cursor's partition again, on the same line of the screen if possible."""
        rows = self.arrangement.rows
        before = self.row
        if self.held and self._on_line is not None:
            self._settle_on_line()
            self.refresh()
            self.post_message(self.Arranged())
            return
        self._fit_scrollbar()
        if self.held:
            found = self.arrangement.index_of(self._anchor)
            self.row = before if found is None else found
        else:
            self.row = 0
        self.row = max(0, min(self.row, (len(rows) or self._lines) - 1))
        self._note_line()
        self._find_below()
        if self.row != before:
            height = before - self.scroll_offset.y
            self.scroll_to(y=max(0, self.row - height), animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Arranged())

    def _fit_scrollbar(self) -> None:
        self.fit(0, self.lines)

    def _find_below(self) -> None:
        before, tp = self._below, self.cursor
        self._below = None
        if tp is not None:
            timeline = self.arrangement.timelines[tp]
            self._below = pieces_below(timeline, self.layout_in_force, self._row_context)
        if (before is None) is not (self._below is None):
            self._fit_scrollbar()
            self.refresh()
        elif before != self._below:
            y = self._line_of(self.row) + 1 - self.scroll_offset.y
            self.refresh(Region(0, y, self.size.width, 1))

    @property
    def _room(self) -> int:
        return max(0, self.size.width - self.styles.scrollbar_size_vertical)

    def _lay_out(self) -> bool:
        batches = self._row_context.run is not None
        extents, seconds = self.arrangement.extents, self._shown_s
        new_layout = layout(self._room, extents, seconds, batches=batches)
        if new_layout == self.layout_in_force:
            return False
        self.layout_in_force = new_layout
        self._find_below()
        self._forget_drawn()
        self.post_message(self.Arranged())
        return True

    def _forget_drawn(self) -> None:
        self._drawn.forget()
        self.refresh()

    def _redraw_changed(self) -> None:
        top = self.scroll_offset.y
        for y in range(self._fold_top):
            row = self._row_at(top + y)
            drawn = None if row is None else self._drawn.known(self.arrangement.rows[row])
            if row is not None and drawn != self._strip(row):
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        below = y - self._fold_top
        if below < 0:
            row = self._row_at(self.scroll_offset.y + y)
            if row is None:
                return self._line_strip(self._below or [], under_cursor=True)
            return self._strip(row)
        if below < len(self._fold_lines):
            return self._fold_strip(below)
        return Strip.blank(self.size.width, self.paint.background("background"))

    def _fold_strip(self, place: int) -> Strip:
        pieces = self._fold_lines[place].pieces(self.size.width - CURSOR_WIDTH)
        under_cursor = self.row == len(self.arrangement.rows) + place
        return self._line_strip(pieces, under_cursor=under_cursor)

    def _line_strip(self, pieces: list[Piece], *, under_cursor: bool) -> Strip:
        width, behind = self.size.width, "cursor" if under_cursor else "background"
        sign = Piece(f"{CURSOR if under_cursor else ' '} ", "moving")
        pieces = [sign, *(faded(pieces) if self.stale else pieces)]
        strip = Strip(self.paint.segments(pieces, behind))
        return strip.adjust_cell_length(width, self.paint.background(behind))

    def _strip(self, row: int) -> Strip:
        tp = self.arrangement.rows[row]
        timeline = self.arrangement.timelines[tp]
        drawn_from = RowInputs(timeline, self._row_context, row == self.row, tp in self.marked)
        layout, width = self.layout_in_force, self.size.width
        return self._drawn.strip(drawn_from, layout, self.paint, width, stale=self.stale)

    @property
    def paint(self) -> Paint:
        if self._paint is None:
            self._paint = Paint(self.app.theme_variables)
        return self._paint

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._paint = None
        self._drawn.forget()

    def on_resize(self) -> None:
        self._fit_scrollbar()
        self._lay_out()
        self._scroll_to_cursor()

    def action_move(self, rows: int) -> None:
        self._go(self.row + rows)

    def action_page(self, pages: int) -> None:
        self._go(self.row + pages * max(1, self.size.height - 1))

    def action_first(self) -> None:
        self.let_go()
        if self.arranging or self.arrangement.keeps_places:
            self._follow(RowChange(reposition=True))
        else:
            self.post_message(self.Arranged())
        self._move_to(0)

    def action_last(self) -> None:
        last = len(self.arrangement.rows) - 1
        self._go(last if self.row < last else self._lines - 1)

    def action_open(self) -> None:
        if self._on_line is not None:
            self.action_unfold()
        elif self.cursor is None:
            self.notify("There is no partition to open.", markup=False)
        else:
            self.post_message(self.Opened(self.cursor))

    def action_unfold(self) -> None:
        if self._on_line is not None:
            self.post_message(self.Folded(kind=self._on_line, folded=False))

    def action_fold(self) -> None:
        if self.cursor is not None:
            timeline = self.arrangement.timelines[self.cursor]
            kind = kind_of(timeline, self._row_context)
            if kind is not None:
                self.post_message(self.Folded(kind=kind, folded=True))

    def action_mark(self) -> None:
        if self.cursor is not None:
            self.marked ^= {self.cursor}
            self._refresh_row(self.row)
            self.post_message(self.Arranged())

    def action_unmark(self) -> None:
        self.marked.clear()
        self.refresh()
        self.post_message(self.Arranged())

    def _go(self, row: int) -> None:
        if not self._lines:
            return
        self._move_to(max(0, min(row, self._lines - 1)))
        self._anchor = self.cursor
        if not self.held:
            self.held = True
            self.post_message(self.Arranged())

    def _move_to(self, row: int) -> None:
        before, self.row = self.row, row
        self._note_line()
        if self._below is not None:
            self.refresh()  # the rows below the cursor's move up by a line
        self._find_below()
        self._scroll_to_cursor()
        self._refresh_row(before)
        self._refresh_row(row)
        self.post_message(self.CursorMoved())

    def _scroll_to_cursor(self) -> None:
        top, height = self.scroll_offset.y, self.size.height - len(self._fold_lines)
        if self._on_line is not None:  # always in sight
            return
        last = self.row + (self._below is not None)
        if self.row < top:
            self.scroll_to(y=self.row, animate=False, immediate=True)
        elif height > 0 and last >= top + height:
            self.scroll_to(y=last - height + 1, animate=False, immediate=True)

    def _refresh_row(self, row: int) -> None:
        y, below = self._line_of(row) - self.scroll_offset.y, row - len(self.arrangement.rows)
        if below >= 0:
            self.refresh(Region(0, self._fold_top + below, self.size.width, 1))
        elif 0 <= y < self._fold_top:
            self.refresh(Region(0, y, self.size.width, 1))

    def on_click(self, event: events.Click) -> None:
        """Select the row. A click in front of it marks it; a double click opens it.

        A click on a folded line unfolds it.
        """
        at = event.get_content_offset_capture(self)
        below = at.y - self._fold_top
        row = len(self.arrangement.rows) + below
        if below < 0:
            found = self._row_at(self.scroll_offset.y + at.y)
            row = self.row if found is None else found
        if row >= self._lines:
            return
        self._go(row)
        if below >= 0:
            self.action_unfold()
            return
        if at.x < CURSOR_WIDTH:
            self.action_mark()
        elif event.chain == 2:  # noqa: PLR2004 - the second click of a double click
            self.action_open()


class PartitionPane(Vertical):
    """A pane that shows nothing; `screens/panels.py` fills it."""

    class Chosen(Message):
        """The operator has hidden a panel, shown it again, or made it larger or smaller."""

    class Left(Message):
        """The operator goes back to the list."""

    @property
    def interest(self) -> Interest:
        return NO_INTEREST

    @property
    def more_lines(self) -> int | None:
        """The lines that the operator has given to it beyond its share; None to show nothing."""
        return None

    def give(self, lines: int) -> None:
        """Make it so high."""

    def show_partition(self, tp: TopicPartition | None, *, again: bool) -> None:
        """Show a partition as of the last poll, drawn `again` even if it is the same one."""

    def choose(self, panel: int | None) -> None:
        """Give the keys to a panel by its digit; None hides all, or shows all again."""
