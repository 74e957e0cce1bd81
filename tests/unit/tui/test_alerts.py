"""Alerts, gauges, round scales, rows drawn once, and the cells that a frame writes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from ktui.execution.run.events import (
    AnyRunEvent,
    Ended,
    EngineLeft,
    HeldBroker,
    JournalEntry,
    Outage,
    RateCause,
    RateHeld,
    RateReason,
    StateEntered,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.planning.throttle_rates import parse_objective
from ktui.simulated.clock import FIRST_MOMENT
from ktui.tui.app.terminal import Alerts, ShownCells
from ktui.tui.draw.bars import (
    BAR_CELLS,
    area_chart,
    area_heights,
    gauge_bar,
    nice_ceiling,
    objective_bar,
    rate_gauge,
)
from ktui.tui.draw.cells import pieces_width
from ktui.tui.draw.paint import Paint, role_defaults
from ktui.tui.draw.themes import DEFAULT, load_themes
from ktui.tui.screens.watch.columns import Extents, RowInputs, StripCache, layout
from ktui.tui.screens.watch.words import RowContext
from ktui.tui.widgets.lines import objective_table
from support.journals.journals import a_start, owned
from support.views.screens import BEGAN_S, TP, plain, timeline


class Terminal:
    """A run, and a terminal that keeps what it got."""

    def __init__(self, *, on: bool = True) -> None:
        self.rung, self.written = 0, list[str]()
        self.alerts = Alerts(self._ring, self.written.append, on=on)
        self.run = Run("drain")
        self.happen(*a_start(), owned())

    def _ring(self) -> None:
        self.rung += 1

    def happen(self, *events: AnyRunEvent, owned: bool = True) -> None:
        first = self.run.seq + 1
        entries = [JournalEntry(n, FIRST_MOMENT, each) for n, each in enumerate(events, first)]
        self.run.fold(entries)
        self.alerts.note_entries(self.run, entries, owned=owned)

    @property
    def words(self) -> list[str]:
        assert self.rung == len(self.written)
        return [each.removeprefix("\x1b]9;ktui: ").removesuffix("\x07") for each in self.written]


def stalled(partition: int) -> StateEntered:
    return StateEntered(topic="orders", partition=partition, state=State.STALLED)


def test_a_stall_a_failure_and_the_end_of_the_run_ring_once_each() -> None:
    terminal = Terminal()

    terminal.happen(stalled(0), stalled(1))
    terminal.happen(stalled(0))
    terminal.happen(StateEntered(topic="orders", partition=2, state=State.FAILED, reason="no"))
    terminal.happen(Ended(counts={State.FAILED: 1}), owned=False)

    assert terminal.words == [
        "run drain: orders-0: stalled; and 1 more",
        "run drain: orders-2: failed: no",
        "run drain: ended: 1 failed",
    ]


def test_an_engine_that_dies_rings_and_one_that_leaves_does_not() -> None:
    died, left = Terminal(), Terminal()

    for _ in range(3):
        died.happen(owned=False)
    left.happen(owned=False)  # its last words are read a moment later
    left.happen(EngineLeft(reason="shift over"), owned=False)

    assert died.words == ["the engine of run drain has died"]
    assert left.words == []


def test_a_lost_cluster_rings_and_its_return_does_not() -> None:
    terminal = Terminal()

    terminal.happen(Outage(lost=True, reason="no answer"))
    terminal.happen(Outage(lost=False))

    assert terminal.words == ["run drain: the cluster is lost: no answer"]


def test_stalls_of_others_ring_when_they_become_more() -> None:
    terminal = Terminal()

    for count in (0, 2, 2, 1, 3):
        terminal.alerts.note_stalls(count)

    assert terminal.words == ["2 partitions stalled", "3 partitions stalled"]


@given(st.text(st.characters(codec="utf-8")))
def test_no_name_can_end_or_begin_an_escape_sequence(name: str) -> None:
    terminal = Terminal()
    terminal.alerts.note_entries(
        terminal.run,
        [JournalEntry(9, FIRST_MOMENT, StateEntered(topic=name, partition=0, state=State.STALLED))],
        owned=True,
    )

    (words,) = terminal.words
    assert words.isprintable()


@pytest.mark.parametrize("events", [(stalled(0),), (Ended(counts={}),)])
def test_nothing_rings_where_the_operator_has_switched_it_off(
    events: tuple[AnyRunEvent, ...],
) -> None:
    terminal = Terminal(on=False)

    terminal.happen(*events)

    assert terminal.words == []


def test_a_death_is_handed_on_once_though_nobody_wants_the_bell() -> None:
    died = list[str]()
    terminal = Terminal(on=False)
    terminal.alerts = Alerts(
        terminal._ring,
        terminal.written.append,
        on=False,
        on_death=lambda run: died.append(run.name),
    )
    terminal.happen(owned())
    for _ in range(4):
        terminal.happen(owned=False)
    assert died == ["drain"]
    assert (terminal.rung, terminal.written) == (0, [])


def test_an_engine_that_leaves_by_itself_has_not_died() -> None:
    died = list[str]()
    terminal = Terminal()
    terminal.alerts = Alerts(
        terminal._ring, terminal.written.append, on=True, on_death=lambda run: died.append(run.name)
    )
    terminal.happen(owned())
    terminal.happen(EngineLeft(reason="asked to"))
    for _ in range(3):
        terminal.happen(owned=False)
    assert died == []


values = st.lists(st.none() | st.floats(0, 1e12), min_size=1, max_size=200)
widths, heights = st.integers(1, 100), st.integers(1, 20)


@given(values, widths, heights, st.floats(0, 1e12))
def test_an_area_stays_in_its_box(
    values: list[float | None], width: int, height: int, top: float
) -> None:
    lines = area_chart(values, width, height, top)

    assert len(lines) == height
    assert {len(line) for line in lines} == {width}
    assert all(c in " ·▁▂▃▄▅▆▇█" for line in lines for c in line)


@given(st.lists(st.floats(0, 1e9), min_size=2, max_size=80), heights)
def test_more_is_never_drawn_lower(values: list[float], height: int) -> None:
    rising = sorted(values)
    drawn = area_heights(rising, len(rising), height, max(rising))

    known = [each for each in drawn if each is not None]
    assert len(known) == len(rising)
    assert all(one <= other for one, other in pairwise(known))
    assert all((each > 0) is (value > 0) for each, value in zip(known, rising, strict=True))


def test_what_is_unknown_is_blank_and_zero_is_not() -> None:
    assert area_chart([None, None, 0.0, 0.0], 2, 1, 10.0) == [" ·"]


@given(st.none() | st.floats(0, 1e12), st.none() | st.floats(0, 1e12), st.integers(1, 40))
def test_a_gauge_has_its_width_and_is_full_only_at_the_whole(
    value: float | None, whole: float | None, cells: int
) -> None:
    pieces = gauge_bar(value, whole, cells)

    assert pieces_width(pieces) == cells + 2
    full = "█" * cells in plain(pieces)
    assert full is bool(value and whole and value >= whole)


@pytest.mark.parametrize(
    ("value", "throttle", "broken", "drawn"),
    [
        (680_000, 800_000, False, "▕██████▊·▏ 680/800 kB/s"),
        (868_000, 700_000, True, "▕████████▏ ! 868/700 kB/s"),
        (None, 2_000_000, False, "▕········▏ -/2.0 MB/s"),
        (5_000_000, None, False, "           5.0 MB/s"),
    ],
)
def test_a_gauge_names_the_rate_and_its_throttle_in_one_unit(
    value: float | None,
    throttle: float | None,
    broken: bool,  # noqa: FBT001 - a parameter
    drawn: str,
) -> None:
    assert plain(rate_gauge(value, throttle, broken=broken)) == drawn


@given(st.integers(0, 10**15))
def test_the_scale_is_a_round_number_just_above_the_lag_with_a_round_half(value: int) -> None:
    top = nice_ceiling(value)
    assert top >= value
    assert top % 2 == 0
    assert top <= max(2, 1.5 * value + 1)
    assert len(str(top).rstrip("0")) <= 2


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


MB = 1_000_000
P99 = parse_objective("p99<150ms")


@pytest.mark.parametrize(
    ("figure", "aim", "bar"),
    [
        (None, 1.0, "▕············░░░│    ▏"),
        (0.0, 1.0, "▕············░░░│    ▏"),
        (75.0, 1.0, "▕███████▌····░░░│    ▏"),
        (130.0, 1.0, "▕█████████████░░│    ▏"),
        (150.0, 1.0, "▕███████████████│    ▏"),
        (170.0, 1.0, "▕███████████████│██  ▏"),
        (1e9, 1.0, "▕███████████████│███»▏"),
        (None, 0.8, "▕··········░░···│    ▏"),
    ],
)
def test_a_bar_shows_the_figure_the_band_and_the_objective(
    figure: float | None, aim: float, bar: str
) -> None:
    drawn = plain(objective_bar(figure, 150.0, aim))

    assert drawn == bar
    assert len(drawn) == BAR_CELLS


def test_each_broker_has_a_row_with_its_figure_its_rate_and_why_that_moved_last() -> None:
    brokers = (
        HeldBroker(2, figure=212.0),
        HeldBroker(4, MB, 95.0, RateReason(RateCause.OVER, 212.0, of=2)),
        HeldBroker(5, 12 * MB, 63.0, RateReason(RateCause.UNDER, 63.0, of=5)),
        HeldBroker(6, 41 * MB, 128.0, RateReason(RateCause.UNUSED, 100.0, of=6, used=0.55)),
        HeldBroker(10, MB, None, RateReason(RateCause.NO_FIGURE, of=10)),
    )
    held = RateHeld(rate=MB, figure=212.0, windows=21, kept=19, brokers=brokers)

    lines = [line.plain.rstrip() for line in objective_table(P99, held, 72)]

    assert lines == [
        "p99<150ms held in 19 of 21 windows. Mean in ░: the rate stays; below, it rises.",
        "broker   0        120    150ms        p99    rate in  why",
        "2 sends  ▕███████████████│███»▏     212ms",
        "4        ▕█████████▌··░░░│    ▏      95ms   1.0 MB/s  least: b2 212ms",
        "5        ▕██████▎·····░░░│    ▏      63ms    12 MB/s  up: 63ms",
        "6        ▕████████████▊░░│    ▏     128ms    41 MB/s  stays: 55% used",
        "10       ▕············░░░│    ▏         -   1.0 MB/s  no figure",
    ]


def test_one_figure_of_all_has_one_row() -> None:
    lag, why = parse_objective("lag<5000"), RateReason(RateCause.IN_BAND, 4_500.0, aim=0.8)
    held = RateHeld(rate=12 * MB, figure=4_500.0, windows=1, kept=1, why=why)

    first, heading, row = (line.plain for line in objective_table(lag, held, 72))

    assert "Mean in ░: the rate stays" in first
    assert heading.split() == ["broker", "0", "3200", "5000", "lag", "rate", "in", "why"]
    assert row.split()[0] == "all"
    assert row.rstrip().endswith("4500    12 MB/s  stays: 4500")


def test_a_band_that_begins_low_leaves_no_room_for_the_zero_of_its_axis() -> None:
    felt = parse_objective("p99<400ms")
    why = RateReason(RateCause.UNDER, 193.1, aim=0.46)
    held = RateHeld(rate=MB, figure=193.1, windows=1, kept=1, why=why)

    heading = objective_table(felt, held, 72)[1].plain

    assert heading.split()[:3] == ["broker", "147.2", "400ms"]


def test_without_a_figure_the_reason_is_named() -> None:
    held = RateHeld(rate=MB, reason="no metrics", windows=3, kept=1)

    assert "No figure: no metrics." in objective_table(P99, held, 72)[0].plain
    assert "nothing was copied yet" in objective_table(P99, None, 72)[0].plain


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
