"""What a frame writes to the terminal: the cells that have changed, and no others."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from ktui.tui.app.terminal import ShownCells

_STYLES = st.sampled_from([Style(color="red"), Style(color="blue", bold=True)])
_SEGMENTS = st.builds(Segment, st.text("ab▃━ ", min_size=1, max_size=6), _STYLES, st.none())


def _strip(segments: list[Segment], width: int) -> Strip:
    return Strip(segments).adjust_cell_length(width, Style(color="red"))


_LINES = st.builds(_strip, st.lists(_SEGMENTS, max_size=12), st.just(40))


def _cells(strip: Strip) -> list[tuple[str, Style | None]]:
    return [(character, segment.style) for segment in strip for character in segment.text]


@given(before=_LINES, after=_LINES)
def test_every_changed_cell_of_a_line_is_written_again(before: Strip, after: Strip) -> None:
    was, now, shown = _cells(before), _cells(after), ShownCells()
    shown.changed(0, 3, before)
    parts = shown.changed(0, 3, after)
    assert {x for x in range(40) if was[x] != now[x]} <= {x for part in parts for x in range(*part)}
    for start, end in parts:  # none begins or ends with a cell that stays
        assert was[start] != now[start]
        assert was[end - 1] != now[end - 1]


def test_a_frame_writes_only_the_cells_that_changed() -> None:
    line = Strip([Segment("partition-1 "), Segment("63%", Style(bold=True)), Segment(" moving")])
    frame = ChopsUpdate([{2: line, 40: None}], [(0, 14, 17)], [[24, 60]])
    console = Console(force_terminal=True, color_system="truecolor", width=80)
    assert "partition-1" in frame.render_segments(console), "Textual writes the whole line"
    tight: Any = ShownCells().only_changed(frame)
    assert tight.render_segments(console) == "\x1b[1;15H\x1b[1m63%\x1b[0m"


_CONSOLE = Console(force_terminal=True, color_system="truecolor", width=40)


def _written(shown: ShownCells, line: Strip) -> str:
    frame: Any = shown.only_changed(ChopsUpdate([{0: line}], [(0, 0, 40)], [[40]]))
    return str(frame.render_segments(_CONSOLE))


@given(before=_LINES, after=_LINES)
def test_a_frame_writes_no_cell_that_the_terminal_shows_already(
    before: Strip, after: Strip
) -> None:
    shown, compared = ShownCells(), ShownCells()
    whole: Any = shown.only_changed(LayoutUpdate([[before]], Region(0, 0, 40, 1)))
    whole.render_segments(_CONSOLE)
    compared.changed(0, 0, before)
    expected = "".join(
        f"\x1b[1;{start + 1}H{after.crop(start, end).render(_CONSOLE)}"
        for start, end in compared.changed(0, 0, after)
    )
    assert _written(shown, after) == expected
    assert not _written(shown, after), "a second time, nothing has changed"


def test_a_whole_screen_is_written_whatever_was_shown() -> None:
    shown, line = ShownCells(), Strip([Segment("63%")])
    for _ in range(2):
        whole: Any = shown.only_changed(LayoutUpdate([[line]], Region(0, 0, 3, 1)))
        assert "63%" in whole.render_segments(_CONSOLE)


def test_characters_of_two_cells_are_written_again() -> None:
    shown, line = ShownCells(), Strip([Segment("日本a")])
    assert "日本a" in _written(shown, line)
    assert "日本a" in _written(shown, line)
