"""The two lines above the list: the rule with the view and its order, and the headings."""

from __future__ import annotations

import msgspec
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ktui.cluster.errors import Failure
from ktui.progress.row import RECENT_SLOT_S
from ktui.tui.draw.cells import Piece, cut, cut_pieces, pieces_width
from ktui.tui.draw.paint import content
from ktui.tui.screens.watch.columns import (
    CURSOR_WIDTH,
    REASON,
    TIMELINE,
    Column,
    ColumnLayout,
    Ordering,
)
from ktui.tui.screens.watch.row import MARK
from ktui.tui.screens.watch.views import View


class ViewState(msgspec.Struct, frozen=True, kw_only=True):
    """The choices for the list, and how much of it is shown."""

    view: View = View.REASSIGNING
    topics: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    """Those of `topics` that the cluster does not have."""
    as_at: str = ""
    """The time of the choice of partitions, if it is not made again in each poll."""
    shown: int = 0
    belonging: int = 0
    """How many partitions there are without the filter."""
    ordering: Ordering = Ordering()
    held: bool = False
    filter_text: str = ""
    rearranging: bool = False
    """Whether the rows do not show yet what was chosen last."""
    frozen_for: str = ""
    marked: int = 0
    """How many partitions the operator has marked, visible or not."""
    failures: tuple[Failure, ...] = ()


class ViewLine(Widget):
    """Draws a `ViewState` on a rule; trouble stands there too, so that the list never moves."""

    DEFAULT_CSS = "ViewLine { height: 1; background: $background; }"

    def __init__(self) -> None:
        super().__init__()
        self._state = ViewState()

    def show(self, state: ViewState) -> None:
        """Show the present choices."""
        if state != self._state:
            self._state = state
            self.refresh()

    def render(self) -> Content:
        return content(rule_pieces(self._state, self.size.width))


def rule_pieces(state: ViewState, width: int) -> list[Piece]:
    """Draw the rule with the text on it."""
    left = [Piece("─ ", "rule"), *_chosen(state), Piece(" ")]
    trouble = _trouble(state.failures)
    if trouble:
        room = max(0, width - min(pieces_width(left), width // 2) - 4)
        trouble = cut_pieces(trouble, min(room, pieces_width(trouble)))
        trouble = [Piece(" "), *trouble, Piece(" ─", "rule")]
    rest = width - pieces_width(trouble)
    rule = Piece("─" * max(0, rest - pieces_width(left)), "rule")
    return cut_pieces([*cut_pieces([*left, rule], rest), *trouble], width)


def _chosen(state: ViewState) -> list[Piece]:
    dot = Piece(" · ", "dim")
    pieces = [Piece("partitions ", bold=True), _count(state), dot, Piece(_name(state)), dot]
    pieces += _order(state)
    if state.as_at:
        pieces += [dot, Piece(state.as_at, "dim")]
    if state.missing:
        pieces += [dot, Piece(f"{', '.join(sorted(state.missing))}: no such topic", "stalled")]
    if state.filter_text:
        pieces += [dot, Piece("filter ", "dim"), Piece(state.filter_text, "next-leader")]
    if state.marked:
        pieces += [dot, Piece(f"{MARK} {state.marked:,} marked", "next-leader", bold=True)]
    if state.frozen_for:
        pieces += [dot, Piece(f"FROZEN {state.frozen_for}", "falling-behind", bold=True)]
    return pieces


def _name(state: ViewState) -> str:
    if state.view is not View.TOPICS:
        return state.view.value
    noun = "topic" if len(state.topics) == 1 else "topics"
    return f"{noun} {', '.join(sorted(state.topics))}"


def _count(state: ViewState) -> Piece:
    if state.filter_text:
        shown = "…" if state.rearranging else f"{state.shown:,}"
        return Piece(f"{shown} of {state.belonging:,}", "header")
    return Piece(f"{state.belonging:,}", "header")


def _order(state: ViewState) -> list[Piece]:
    held = " …" if state.rearranging else " (held)" if state.held else ""
    return [
        Piece("by ", "dim"),
        Piece(f"{state.ordering.by} {state.ordering.arrow}"),
        Piece(held, "dim"),
    ]


def _trouble(failures: tuple[Failure, ...]) -> list[Piece]:
    failures = tuple(each for each in failures if not each.denied)  # the header shows those
    if not failures:
        return []
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return [Piece(f"! {failures[0].sentence}{more}", "falling-behind")]


# ---------------------------------------------------------------------------- the headings

_NOW = "now"


class Headings(Widget):
    """The headings in one line above the list, aligned with the list's columns."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Headings { height: 1; background: $background; }"

    class Clicked(Message):
        """The operator wants to sort by a column."""

        def __init__(self, column: Column) -> None:
            super().__init__()
            self.column = column

    def __init__(self) -> None:
        super().__init__()
        self._layout: ColumnLayout | None = None
        self._ordering = Ordering()

    def show(self, layout: ColumnLayout, ordering: Ordering) -> None:
        """Show the list's columns and its order."""
        if (layout, ordering) != (self._layout, self._ordering):
            self._layout, self._ordering = layout, ordering
            self.refresh()

    def render(self) -> Content:
        if self._layout is None:
            return Content("")
        gap = Piece(" " * self._layout.gap)
        pieces = [Piece(" " * CURSOR_WIDTH)]
        for column, width in self._layout.columns:
            pieces += [self._heading(self._layout, column, width), gap]
        return content(pieces)

    def _heading(self, layout: ColumnLayout, column: Column, width: int) -> Piece:
        if column is TIMELINE:
            return Piece(_axis(width, layout.span), "header")
        sorted_by = column.heading == self._ordering.by
        heading = "" if column is REASON else column.heading
        text = f"{heading} {self._ordering.arrow}" if sorted_by else heading
        fitted = text.rjust(width) if column.right else cut(text, "", width)
        return Piece(fitted, "header", bold=sorted_by)

    def on_click(self, event: events.Click) -> None:
        column = self._layout.at(event.x) if self._layout is not None else None
        if column is not None:
            self.post_message(self.Clicked(column))


def _axis(width: int, span: int) -> str:
    reach = f"-{span * RECENT_SLOT_S / 60:.0f} min"
    if width < len(reach) + len(_NOW) + 1:
        return reach[1:].rjust(width) if width >= len(reach) - 1 else " " * width
    return reach + _NOW.rjust(width - len(reach))
