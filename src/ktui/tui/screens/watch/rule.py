"""The rule above the list: the view and its order; to the right, what could not be read."""

from __future__ import annotations

import msgspec
from textual.content import Content
from textual.widget import Widget

from ktui.cluster.errors import Failure
from ktui.tui.draw.cells import Piece, cut_pieces, pieces_width
from ktui.tui.draw.paint import content
from ktui.tui.screens.watch.sort import Ordering
from ktui.tui.screens.watch.strip_cache import MARK
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
