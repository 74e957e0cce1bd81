from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.run.states import CancelKind
from ktui.progress.row import RECENT_SLOTS
from ktui.progress.timeline import Mark, Slots
from ktui.tui.draw.cells import (
    BARS,
    CANCEL_SIGNS,
    SIGNS,
    SPANS,
    Piece,
    SignAt,
    WaitedSpan,
    cut_pieces,
    mark_cell,
    partition_text,
    pieces_width,
    replica_pieces,
    timeline_cells,
    timeline_width,
)
from ktui.tui.draw.paint import ROLES
from support.simulated.observations import T0, a_move, a_partition

any_mark = st.integers(0, 100) | st.sampled_from(list(Mark))
rows = st.lists(any_mark, min_size=1, max_size=RECENT_SLOTS).map(bytes)


def drawn(marks: bytes, width: int, now_s: float | None = None) -> str:
    end_s = 5.0 * 1_000
    slots = Slots(slot_s=5.0, end_s=end_s, marks=marks)
    pieces = timeline_cells(slots, width, end_s - 1 if now_s is None else now_s)
    return "".join(piece.text for piece in pieces)


def replicas(state: PartitionState) -> str:
    return "".join(piece.text for piece in replica_pieces(state))


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
    assert timeline_width(0) == 0


@given(st.integers(1, 300), st.sampled_from(SPANS))
def test_the_span_fits_the_room_with_a_whole_number_of_slots_a_cell(room: int, span: int) -> None:
    width = timeline_width(room, span)
    assert 1 <= width <= min(room, span)
    per_cell = -(-span // room)
    assert span - per_cell < width * per_cell <= span


def test_a_shorter_span_shows_the_same_moments_in_more_cells() -> None:
    slots = Slots(slot_s=5.0, end_s=5_000, marks=bytes([0] * 12 + [100] * 12))
    now_s = 4_999.0
    ten, two = (
        "".join(piece.text for piece in timeline_cells(slots, 24, now_s, span)).strip()
        for span in (RECENT_SLOTS, SPANS[-1])
    )
    assert (ten.count("▁"), ten.count("█"), len(ten)) == (2, 3, 5)
    assert two == "▁" * 12 + "█" * 12


def test_a_timeline_has_the_newest_slot_on_the_right_and_unwatched_slots_blank() -> None:
    assert drawn(bytes([0, 50, Mark.IN_SYNC]), 120).endswith("  ▁▅━")
    assert drawn(bytes([0]), 120).strip() == "▁"


@pytest.mark.parametrize("mark", [Mark.STALLED, Mark.LEADER_MOVED, Mark.CANCELLED])
def test_a_moment_of_trouble_is_shown_at_any_width_of_the_timeline(mark: Mark) -> None:
    marks = bytes([40] * 50 + [mark] + [60] * 69)
    for width in (120, 60, 24, 10, 5):
        assert SIGNS[mark].glyph in drawn(marks, width)


@given(rows, st.sampled_from([8, 10, 15, 24, 40, 60]))
def test_cells_move_left_with_time_and_never_change_what_they_show(
    marks: bytes, width: int
) -> None:
    per_cell = RECENT_SLOTS // width
    now_s = 5.0 * per_cell * 1_000 - 1
    slots = Slots(slot_s=5.0, end_s=5.0 * per_cell * 1_000, marks=marks)
    before = "".join(piece.text for piece in timeline_cells(slots, width, now_s))
    after = "".join(piece.text for piece in timeline_cells(slots, width, now_s + 5.0 * per_cell))
    assert after == before[1:] + " "


def test_the_sign_of_a_moment_is_in_its_cell_and_moves_left_with_it() -> None:
    slots = Slots(slot_s=5.0, end_s=600.0, marks=bytes((Mark.IN_SYNC,)) * 120)
    sign = SignAt(542.0, CANCEL_SIGNS[CancelKind.ROLLBACK])
    pieces = timeline_cells(slots, 120, 599.0, sign=sign)
    drawn = "".join(piece.text for piece in pieces)
    assert drawn.index("↩") == 542 // 5
    later = timeline_cells(slots, 120, 604.0, sign=sign)
    assert "".join(piece.text for piece in later).index("↩") == 542 // 5 - 1
    gone = timeline_cells(slots, 120, 1_200.0, sign=sign)
    assert "↩" not in "".join(piece.text for piece in gone)


def test_a_waiting_replica_is_drawn_as_waiting_even_if_it_was_in_sync() -> None:
    marks = [Mark.IN_SYNC, Mark.OUT_OF_SYNC, Mark.IN_SYNC, Mark.LEADER_MOVED, Mark.IN_SYNC]
    slots = Slots(slot_s=5.0, end_s=600.0, marks=bytes(marks))
    pieces = timeline_cells(slots, 120, 599.0, waits=WaitedSpan(565.0))
    assert "".join(piece.text for piece in pieces).strip() == "┄┄┄░┄★┄"


def test_a_replica_in_sync_after_its_wait_is_drawn_in_sync() -> None:
    slots = Slots(slot_s=5.0, end_s=600.0, marks=bytes([Mark.IN_SYNC, 50, *[Mark.IN_SYNC] * 3]))
    pieces = timeline_cells(slots, 120, 599.0, waits=WaitedSpan(0.0, 580.0))
    assert "".join(piece.text for piece in pieces) == "┄" * 116 + "▅━━━"
    blank = Slots(slot_s=5.0, end_s=600.0, marks=bytes([Mark.NOTHING, Mark.IN_SYNC]))
    pieces = timeline_cells(blank, 120, 599.0, waits=WaitedSpan(0.0, 500.0))
    assert "".join(piece.text for piece in pieces) == "┄" * 101 + " " * 18 + "━"


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
    assert "".join(piece.text for piece in replica_pieces(state, {1})) == words
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
    assert partition_text(TopicPartition("a-very-long-topic", 12), 12) == "a-very-l…-12"


@given(st.lists(texts.map(Piece), max_size=6), st.integers(0, 60))
def test_pieces_fill_their_room_exactly(pieces: list[Piece], width: int) -> None:
    assert pieces_width(cut_pieces(pieces, width)) == width


def test_pieces_that_do_not_fit_end_in_an_ellipsis() -> None:
    assert "".join(p.text for p in cut_pieces([Piece("abc"), Piece("def")], 5)) == "abcd…"
