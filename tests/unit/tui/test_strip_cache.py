from __future__ import annotations

from textual.strip import Strip

from ktui.tui.draw.paint import Paint, role_defaults
from ktui.tui.draw.themes import DEFAULT, load_themes
from ktui.tui.screens.watch.columns import Extents, layout
from ktui.tui.screens.watch.row import RowInputs, StripCache
from ktui.tui.screens.watch.words import RowContext
from support.views.screens import BEGAN_S, TP, timeline

WIDTH = 120
LAYOUT = layout(WIDTH, Extents())
THEME = load_themes(None).themes[DEFAULT]
PAINT = Paint({**role_defaults(THEME), "foreground": "#ffffff", "background": "#000000"})
ROW = RowInputs(timeline(), RowContext(BEGAN_S), under_cursor=False, marked=False)


def drawn(rows: StripCache, row: RowInputs) -> Strip:
    return rows.strip(row, LAYOUT, PAINT, WIDTH, stale=False)


def test_an_unchanged_row_is_drawn_once() -> None:
    rows = StripCache()
    assert drawn(rows, ROW) is drawn(rows, ROW._replace(marked=False))


def test_the_cache_knows_the_last_strip_that_was_drawn_of_a_row() -> None:
    rows = StripCache()
    assert rows.known(TP) is None
    first = drawn(rows, ROW)
    marked = drawn(rows, ROW._replace(marked=True))
    assert rows.known(TP) == marked != first
    drawn(rows, ROW._replace(context=RowContext(BEGAN_S + 1.0)))
    assert rows.known(TP) != marked


def test_the_cursor_and_a_mark_each_have_a_sign_before_the_row() -> None:
    rows = StripCache()
    assert drawn(rows, ROW).text.startswith("  orders-1")
    assert drawn(rows, ROW._replace(marked=True)).text.startswith(" ◆orders-1")
    both = ROW._replace(under_cursor=True, marked=True)
    assert drawn(rows, both).text.startswith("▌◆orders-1")
