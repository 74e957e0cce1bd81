"""Cells of the lists, and their words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.foreign_cancels import ListedReassignment
from ktui.execution.run.states import CancelKind
from ktui.progress.row import RECENT_SLOTS
from ktui.progress.timeline import Mark, Slots
from ktui.speed.answer import Span
from ktui.tui.draw import format as figures
from ktui.tui.draw.bars import chart_top, limited_chart
from ktui.tui.draw.cells import (
    BARS,
    CANCEL_SIGNS,
    SIGNS,
    UNKNOWN,
    Piece,
    SignAt,
    SpanOf,
    Window,
    cell_seconds,
    cut_pieces,
    mark_cell,
    partition_text,
    pieces_width,
    replica_pieces,
    timeline_cells,
)
from ktui.tui.draw.paint import ROLES
from ktui.tui.run_view.messages import cancel_consequences
from support.simulated.observations import T0, a_move, a_partition
from support.views.screens import plain

any_mark = st.integers(0, 100) | st.sampled_from(list(Mark))
rows = st.lists(any_mark, min_size=1, max_size=RECENT_SLOTS).map(bytes)


def drawn(marks: bytes, width: int, now_s: float | None = None, cell_s: float = 5) -> str:
    """Draw slots of 5 s that end after 5,000 s."""
    slots = Slots(slot_s=5.0, end_s=5_000.0, marks=marks)
    return plain(timeline_cells(slots, width, Window(4_999.0 if now_s is None else now_s, cell_s)))


def replicas(state: PartitionState) -> str:
    return plain(replica_pieces(state))


# --- marks -----------------------------------------------------------------------------------


def test_every_mark_has_its_own_sign_and_a_role_that_themes_colour() -> None:
    assert len({cell.glyph for cell in SIGNS.values()}) == len(SIGNS) == len(Mark)
    assert not {cell.glyph for cell in SIGNS.values()} & set(BARS)
    assert {cell.role for cell in SIGNS.values()} <= ROLES.keys()


def test_a_share_is_a_bar_that_is_never_empty_and_full_only_near_the_end() -> None:
    assert [mark_cell(share).glyph for share in (0, 50, 100)] == ["▁", "▅", "█"]
    heights = [BARS.index(mark_cell(share).glyph) for share in range(101)]
    assert heights == sorted(heights)


def test_a_byte_that_is_no_mark_draws_nothing() -> None:
    assert mark_cell(255) == SIGNS[Mark.NOTHING]


# --- the timeline ----------------------------------------------------------------------------


@given(rows, st.integers(1, 200), st.floats(0, 1_000))
def test_a_timeline_fills_exactly_the_cells_it_is_given(
    marks: bytes, width: int, ahead_s: float
) -> None:
    assert cell_len(drawn(marks, width, 5_000 + ahead_s)) == width


def test_without_room_there_is_no_timeline() -> None:
    assert drawn(b"\x00", 0) == ""


@given(st.integers(2, 300), st.floats(0, 1e8))
def test_a_window_has_room_for_all_that_is_to_be_shown_and_little_else(
    width: int, seconds: float
) -> None:
    cell_s = cell_seconds(seconds, width)
    assert (width - 1) * cell_s >= seconds
    assert cell_s == 1 or seconds > (width - 1) * cell_s / 1.26


def test_a_cell_of_less_time_shows_the_same_moments_in_more_cells() -> None:
    marks = bytes([0] * 12 + [100] * 12)
    assert drawn(marks, 24, cell_s=25).strip() == "▁▁███"
    assert drawn(marks, 24, cell_s=5) == "▁" * 12 + "█" * 12
    assert drawn(marks, 60, cell_s=1) == "█" * 60


def test_a_timeline_has_the_newest_slot_on_the_right_and_unwatched_slots_blank() -> None:
    assert drawn(bytes([0, 50, Mark.IN_SYNC]), 120).endswith("  ▁▅━")
    assert drawn(bytes([0]), 120).strip() == "▁"


@pytest.mark.parametrize("mark", [Mark.STALLED, Mark.LEADER_MOVED, Mark.CANCELLED])
def test_a_moment_of_trouble_is_shown_at_any_width_of_the_timeline(mark: Mark) -> None:
    marks = bytes([40] * 50 + [mark] + [60] * 69)
    for width in (120, 60, 24, 10, 5):
        assert SIGNS[mark].glyph in drawn(marks, width, cell_s=cell_seconds(600, width))


@given(
    rows,
    st.integers(2, 120),
    st.sampled_from([1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12.5, 15, 120]),
)
@example(b"l", 3, 1)  # the sign of a moment whose slot begins before the window
def test_cells_move_left_with_time_and_never_change_what_they_show(
    marks: bytes, width: int, cell_s: float
) -> None:
    slots = Slots(slot_s=5.0, end_s=6_000.0, marks=marks)
    before = plain(timeline_cells(slots, width, Window(6_000.0, cell_s)))
    after = plain(timeline_cells(slots, width, Window(6_000.0 + cell_s, cell_s)))
    assert after == before[1:] + " "


def test_the_sign_of_a_moment_is_in_its_cell_and_moves_left_with_it() -> None:
    slots = Slots(slot_s=5.0, end_s=600.0, marks=bytes((Mark.IN_SYNC,)) * 120)
    signs = [SignAt(542.0, CANCEL_SIGNS[CancelKind.ROLLBACK])]

    def place(now_s: float) -> int:
        return plain(timeline_cells(slots, 120, Window(now_s, 5), signs=signs)).find("↩")

    assert place(599.0) == 542 // 5
    assert place(604.0) == 542 // 5 - 1
    assert place(1_200.0) == -1


def test_a_waiting_replica_is_drawn_as_waiting_even_if_it_was_in_sync() -> None:
    marks = [Mark.IN_SYNC, Mark.OUT_OF_SYNC, Mark.IN_SYNC, Mark.LEADER_MOVED, Mark.IN_SYNC]
    slots = Slots(slot_s=5.0, end_s=600.0, marks=bytes(marks))
    assert waited(slots, 565.0, None).strip() == "┄┄┄░┄★┄"


def test_a_replica_in_sync_after_its_wait_is_drawn_in_sync() -> None:
    slots = Slots(slot_s=5.0, end_s=600.0, marks=bytes([Mark.IN_SYNC, 50, *[Mark.IN_SYNC] * 3]))
    assert waited(slots, 0.0, 580.0) == "┄" * 116 + "▅━━━"
    blank = Slots(slot_s=5.0, end_s=600.0, marks=bytes([Mark.NOTHING, Mark.IN_SYNC]))
    assert waited(blank, 0.0, 500.0) == "┄" * 101 + " " * 18 + "━"


def waited(slots: Slots, from_s: float, until_s: float | None) -> str:
    wait = SpanOf(from_s, until_s, SIGNS[Mark.WAITING], healthy_too=True)
    return plain(timeline_cells(slots, 120, Window(599.0, 5), spans=[wait]))


def test_what_nobody_saw_is_drawn_as_unknown_and_never_over_what_somebody_saw() -> None:
    slots = Slots(slot_s=5.0, end_s=600.0, marks=bytes([40, 60]))
    unseen = SpanOf(-1e15, 593.0, UNKNOWN)
    pieces = timeline_cells(slots, 10, Window(599.0, 5), spans=[unseen])
    assert plain(pieces) == "?" * 8 + "▄▅"


def test_what_was_before_the_last_ten_minutes_comes_from_the_lanes() -> None:
    recent = Slots(slot_s=5.0, end_s=1_200.0, marks=bytes([90] * 120))
    slow = Slots(slot_s=8.0, end_s=1_200.0, marks=bytes([*range(75), *[90] * 75]))
    quick = Slots(slot_s=8.0, end_s=1_200.0, marks=bytes([Mark.IN_SYNC] * 150))
    pieces = timeline_cells(recent, 60, Window(1_199.0, 20), older=[quick, slow])
    bars = plain(pieces)
    assert bars[30:] == "█" * 30, "of the last ten minutes the partition's own marks tell"
    heights = [BARS.index(bar) for bar in bars[:30]]
    assert heights == sorted(heights)
    assert (heights[0], heights[-1]) == (0, 5), "the slower of two copies counts"


def test_a_timeline_without_new_slots_keeps_moving_left() -> None:
    assert drawn(bytes([100]), 120, 5_000 + 5 * 10).endswith("█" + " " * 11)


# --- replicas --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (a_partition(), "*1 2 3"),
        (a_partition(leader=2), ">1 *2 3"),
        (a_partition(isr=(1, 2)), "*1 2 3!"),
        (a_partition(leader=None, isr=()), ">1! 2! 3!"),
        (a_move(T0, (1, 2, 3), (1, 2, 4)), "*1 2 +4 -3"),
        (a_move(T0, (1, 2, 3), (4, 5, 6)), ">+4 +5 +6 *-1 -2 -3"),
        (a_move(T0, (1, 2, 3), (4, 2, 3), isr=(1, 2, 3, 4)), "2 3 >+4= *-1"),
        (a_move(T0, (1, 2, 3), (1, 2, 9), offline=(9,)), "*1 2 +9! -3"),
        (a_move(T0, (1, 2, 3), (1, 2, 3, 4)), "*1 2 3 +4"),
        (a_move(T0, described=False, isr=(), leader=None), "2 3 +4 -1"),
        (a_partition(replicas=()), ""),
    ],
)
def test_replicas_are_drawn_with_a_sign_for_their_state(state: PartitionState, words: str) -> None:
    assert replicas(state) == words


@pytest.mark.parametrize(
    ("state", "words"),
    [(a_partition(), ">1! 2 3"), (a_partition(leader=2), ">1 *2 3")],
)
def test_a_broker_that_is_down_is_not_drawn_as_the_leader(
    state: PartitionState, words: str
) -> None:
    assert plain(replica_pieces(state, {1})) == words
    assert all(piece.role != "leader" for piece in replica_pieces(state, {1, 2}))


def test_every_role_of_a_replica_can_be_coloured() -> None:
    states = [a_partition(isr=(1,)), a_move(), a_move(described=False)]
    roles = {piece.role for state in states for piece in replica_pieces(state)} - {""}
    assert roles <= ROLES.keys()


# --- fitting ---------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cc", "Cs", "Mn", "Me", "Cf"]), max_size=30)


@given(texts, st.integers(0, 10**6), st.integers(0, 60))
def test_a_name_fills_its_column_exactly(topic: str, number: int, width: int) -> None:
    assert cell_len(partition_text(TopicPartition(topic, number), width)) == width


def test_a_long_name_keeps_its_partition() -> None:
    assert partition_text(TopicPartition("a-very-long-topic", 12), 12) == "a-…-topic-12"


@given(st.lists(texts.map(Piece), max_size=6), st.integers(0, 60))
def test_pieces_fill_their_room_exactly(pieces: list[Piece], width: int) -> None:
    assert pieces_width(cut_pieces(pieces, width)) == width


def test_pieces_that_do_not_fit_end_in_an_ellipsis() -> None:
    assert "".join(p.text for p in cut_pieces([Piece("abc"), Piece("def")], 5)) == "abcd…"


amounts = st.floats(min_value=0, max_value=1e20, allow_nan=False)
SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY = {f"{prefix}iB": 1024.0**i for i, prefix in enumerate(["", *"KMGTPE"]) if prefix} | {
    "B": 1.0
}


FORMS: tuple[tuple[Callable[[Any], str], dict[Any, str]], ...] = (
    (figures.as_messages, {
        0: "0 msg", 1: "1 msg", 999: "999 msg", 999.6: "1.0 k msg", 1_234: "1.2 k msg",
        9_960: "10 k msg", 12_000: "12 k msg", 999_499: "999 k msg", 999_500: "1.0 M msg",
        1_200_000: "1.2 M msg", 48_000_000: "48 M msg", None: "-",
    }),
    (figures.as_bytes, {0: "0 B", 1_023: "1.0 KiB", 1_536: "1.5 KiB", 412 * 2**30: "412 GiB"}),
    (figures.as_rate, {0: "0 B/s", 48e6: "48 MB/s", 2_500: "2.5 kB/s", None: "-"}),
    (figures.as_duration, {
        0: "0 s", 4.2: "4 s", 59.6: "1m", 60: "1m", 130: "2m 10s", 3_600: "1h", 3_900: "1h 5m",
        86_400 * 3 + 4 * 3_600: "3d 4h", 1e12: ">99d", math.inf: ">99d", math.nan: "-",
        -5: "0 s", None: "-",
    }),
    (figures.as_share, {0: "0%", 0.999: "99%", 1: "100%", 1.5: "100%", None: "-"}),
    (partial(figures.as_share, approximate=True), {0.5: "~50%"}),
    (figures.as_duration_range, {
        Span(110, 130, 180): "2m 10s (1m 50s-3m)", Span(3, 3.1, 3.4): "3 s",
    }),
    (figures.as_age, {0: "0 s", 59.9: "59 s", 61: "1m", 7_300: "2h", 1e9: ">99d"}),
    (figures.as_took, {0.009: "9 ms", 0.9996: "1.0 s", 1.24: "1.2 s"}),
)  # fmt: skip
"""Ways to write figures: in three digits and a unit, all of a whole only when it is complete."""


@pytest.mark.parametrize(("form", "words"), FORMS)
def test_figures_are_short_and_have_a_unit(
    form: Callable[[Any], str], words: dict[Any, str]
) -> None:
    assert [form(value) for value in words] == [*words.values()]


def test_counts_have_their_noun_in_singular_or_plural() -> None:
    assert figures.as_count(1, "partition") == "1 partition"
    assert figures.as_count(12_034, "partition") == "12,034 partitions"
    assert figures.as_count(2, "entry", "entries") == "2 entries"


def test_a_future_time_has_its_date_only_on_another_day() -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert re.fullmatch(r"\d\d:\d\d", figures.as_clock(now + timedelta(minutes=1), now))
    later = figures.as_clock(now + timedelta(days=2), now)
    assert re.fullmatch(r"Nov 2[34] \d\d:\d\d", later)


def test_the_offset_from_utc_is_shown_in_hours_and_minutes() -> None:
    assert re.fullmatch(r"[+-]\d\d:\d\d", figures.as_offset(datetime(2026, 1, 1, tzinfo=UTC)))


def _worth(words: str, scales: dict[str, float], pattern: str) -> float:
    match = re.fullmatch(pattern, words)
    assert match is not None, words
    assert len(match[1].replace(".", "")) <= 3, words
    return float(match[1]) * scales[match[2]]


@given(amounts)
def test_a_rounded_count_is_within_a_twentieth_of_the_truth(amount: float) -> None:
    for words, scales, pattern in (
        (figures.as_messages(amount), SCALES, r"([\d.]+) ([kMGTPE]?) ?msg"),
        (figures.as_rate(amount), SCALES, r"([\d.]+) ([kMGTPE]?)B/s"),
        (figures.as_bytes(amount), BINARY, r"([\d.]+) ((?:[KMGTPE]i)?B)"),
    ):
        assert _worth(words, scales, pattern) == pytest.approx(amount, rel=0.051, abs=0.51)


@given(amounts, amounts)
def test_a_larger_size_is_never_shown_as_smaller(one: float, other: float) -> None:
    small, large = sorted((one, other))
    worths: Callable[[float], float] = lambda x: _worth(  # noqa: E731 - named for the reader
        figures.as_bytes(x), BINARY, r"([\d.]+) ((?:[KMGTPE]i)?B)"
    )
    assert worths(small) <= worths(large)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_any_number_of_seconds_fits_the_column(seconds: float) -> None:
    assert 1 <= len(figures.as_duration(seconds)) <= 7


def test_a_cancel_of_many_foreign_moves_counts_the_dangers_that_it_does_not_name() -> None:
    risky = "only 1 of its 2 replicas in sync would stay"
    moves = [
        ListedReassignment(
            tp=TopicPartition("orders", number),
            topic_id=None,
            original=(1, 2, 3),
            target=(4, 2, 3),
            danger=risky,
        )
        for number in range(5)
    ]

    words = cancel_consequences(moves)

    assert f" ! orders-0: {risky}" in words
    assert "and 2 more." in words


def test_a_chart_has_a_line_at_its_limit_while_there_is_one() -> None:
    drawn = limited_chart([40.0] * 4, [None, None, 80.0, 80.0], 4, 2, 100.0)
    assert [plain(line) for line in drawn] == ["  ▁▁", "▆▆▆▆"]
    assert [piece.role for piece in drawn[0]] == ["moving", "falling-behind"]


def _drawn_chart(values: list[float | None], limit: float, height: int) -> list[str]:
    limits: list[float | None] = [limit] * len(values)
    top = chart_top(values, limits, height)
    lines = limited_chart(values, limits, len(values), height, top)
    return [plain(line) for line in lines]


def test_what_fills_a_limit_reaches_its_line() -> None:
    assert _drawn_chart([40.0, 20.0], 40.0, 2) == ["▁▁", "█▄"]
    assert _drawn_chart([33.0], 33.0, 4) == ["▁", "█", "█", "█"]


def test_a_line_breaks_only_where_a_limit_is_well_passed() -> None:
    assert _drawn_chart([41.0, 40.0, 60.0], 40.0, 5)[:2] == ["  ▄", "▁▁█"]


def test_a_limit_is_drawn_on_over_a_moment_in_which_nothing_is_copied() -> None:
    one, other = 80.0, 40.0
    limits = [one, None, one, None, other, *[None] * 10, other]
    line, *_ = limited_chart([0.0] * 16, limits, 16, 1, 100.0)
    assert plain(line) == "▁▁▁·▁··········▁"
