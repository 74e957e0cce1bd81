"""The brokers in a panel under the list of partitions."""

from __future__ import annotations

from collections.abc import Collection

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from ktui.columns import leave_out
from ktui.tui.draw.cells import Piece, faded
from ktui.tui.draw.paint import content, table_lines
from ktui.tui.screens.brokers.row import COLUMNS, BrokerView, broker_views
from ktui.tui.widgets.frame import panel_rule
from ktui.tui.widgets.lines import set_text
from ktui.tui.widgets.services import services

_NOT_HERE = ("address", "leaders", "replicas", "cordoned")
"""Columns of the brokers screen alone: what never changes, and what its own polls count."""
_GAP = 2


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


class BrokersPanel(Vertical, can_focus=True):
    """The brokers with what flows into and out of each."""

    def compose(self) -> ComposeResult:
        yield Static(id="brokers-rule", classes="rule", markup=False)
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
        rule = panel_rule(self, 2, [Piece("brokers", bold=True)])
        set_text(self.query_one("#brokers-rule", Static), rule)
        set_text(self.query_one("#brokers-lines", Static), Content("\n").join(drawn))
