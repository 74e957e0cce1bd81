"""The brokers in a panel under the list of partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Resize
from textual.widgets import Static

from ktui.columns import Column, leave_out
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, cut_pieces, faded, pieces_width
from ktui.tui.draw.paint import RowColumn, content, table_lines
from ktui.tui.screens.brokers.row import (
    BrokerView,
    alive_piece,
    count,
    disk,
    graph,
    left_to_move,
    rate_in,
    rate_out,
    views_now,
)
from ktui.tui.widgets.frame import panel_rule
from ktui.tui.widgets.lines import Lines, set_text
from ktui.tui.widgets.services import services

_INDENT = Piece("  ")
_ROOMY = 78
"""The cells from which on figures have their words beside them."""


@cache
def _columns(minutes: int, *, roomy: bool) -> tuple[RowColumn, ...]:
    bar, cells = (8, 12) if roomy else (4, 7)

    def into(view: BrokerView) -> list[Piece]:
        return rate_in(view, bar) if view.alive else [alive_piece(view)]

    def left(view: BrokerView) -> list[Piece]:
        return left_to_move(view, brief=not roomy)

    def used(view: BrokerView) -> list[Piece]:
        share = None if view.disk is None else view.disk[0] / view.disk[1]
        return [Piece(figures.as_share(share), "" if share else "dim")]

    past = f"last {minutes} min" if roomy else f"{minutes} min"
    wide = disk(5) if roomy else used
    return (
        Column(heading="", width=2, right=True, cell=lambda v: [Piece(str(v.id), bold=True)]),
        Column(heading="in, of throttle", width=bar + 13, cell=into),
        Column(
            heading=past, width=cells, cell=graph(lambda v: v.past.slots_in(v.id), cells), rank=3
        ),
        Column(heading="out", width=8, right=True, cell=rate_out, rank=2),
        Column(
            heading="left to move" if roomy else "to move",
            width=14 if roomy else 8,
            right=True,
            cell=left,
        ),
        Column(
            heading="replicas", width=8, right=True, cell=count(lambda v: v.replicas), rank=4,
            has=lambda v: roomy and v.replicas is not None,
        ),
        Column(
            heading="leader of", width=9, right=True, cell=count(lambda v: v.leaders), rank=5,
            has=lambda v: roomy and v.leaders is not None,
        ),
        Column(heading="disk", width=12 if roomy else 4, right=True, cell=wide, rank=1),
    )  # fmt: skip


def broker_lines(views: Collection[BrokerView], width: int, height: int) -> list[list[Piece]]:
    """Draw headings, and the brokers of which most can be said where not all have a line."""
    room = height - 1
    shown = sorted(views, key=_least_to_say)[: room if len(views) <= room else room - 1]
    ordered = sorted(shown, key=lambda view: view.id)
    minutes = next((view.past.minutes for view in ordered), 1)

    wanted = [
        each for each in _columns(minutes, roomy=width >= _ROOMY) if any(map(each.has, views))
    ]
    blocks = {column: table_lines([column], ordered) for column in wanted}

    def lines(columns: Collection[RowColumn]) -> Iterator[list[Piece]]:
        for parts in zip(*(blocks[column] for column in columns), strict=True):
            yield [_INDENT, *(piece for part in parts for piece in (*part, _INDENT))][:-1]

    def fit(columns: Collection[RowColumn]) -> bool:
        return pieces_width(next(lines(columns))) <= width

    drawn = [cut_pieces(line, width) for line in lines(leave_out(wanted, fit))]
    left = len(views) - len(shown)
    return [*drawn, [Piece(f"  … and {left:,} more (b)", "dim")]] if left else drawn


def _least_to_say(view: BrokerView) -> tuple[bool, bool, float, float, int]:
    load = view.load
    rates = -(load.bytes_in_s or 0.0), -(load.bytes_out_s or 0.0)
    return view.alive, not load.adding, *rates, view.id


class BrokersPanel(Vertical, can_focus=True):
    """The brokers with what flows into and out of each."""

    def compose(self) -> ComposeResult:
        yield Static(id="brokers-rule", classes="rule", markup=False)
        yield Lines()

    @on(Resize)
    def draw(self) -> None:
        app, width = services(self), self.size.width
        views = views_now(app)
        lines = broker_lines(views.values(), width, self.size.height - 1) if views else []
        stale = app.outage is not None
        drawn = [content(faded(line) if stale else line) for line in lines]
        rule = panel_rule(self, 2, [Piece("brokers", bold=True)])
        set_text(self.query_one("#brokers-rule", Static), rule)
        self.query_one(Lines).show(drawn)
