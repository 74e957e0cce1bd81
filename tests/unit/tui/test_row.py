"""Rows of the watch list."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.run.events import (
    AnyRunEvent,
    CancelAsked,
    JournalEntry,
    Planned,
    PlannedPart,
    StateEntered,
    StepBegun,
    StepOver,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.progress.timeline import Cause, Lane, Mark, Phase, Role, Stall, StallKind, Timeline
from ktui.tui.draw.format import as_time
from ktui.tui.run_view.rows import RunRows
from ktui.tui.screens.dashboard.model import MAP_CELLS, map_state
from ktui.tui.screens.watch.columns import (
    BATCH,
    CURSOR_WIDTH,
    LAG,
    LEFT,
    PARTITION,
    RATE,
    REPLICAS,
    STATE,
    TARGET,
    TIMELINE,
    TO_COPY,
    Column,
    Extents,
    Ordering,
    layout,
    pieces_below,
    row_pieces,
)
from ktui.tui.screens.watch.row_model import Arrangement, RowChange, RowFilter
from ktui.tui.screens.watch.words import RowContext
from support.journals.journals import started
from support.simulated.moving_clusters import tp
from support.views.screens import BEGAN, BEGAN_S, history, plain, timeline

STEP = StepBegun(
    topic="a", partition=0, batch=1, replicas=(1, 2, 3, 4), adding=(4,), removing=(),
    elect=None, before=(1, 2, 3), leader=1, cut=False,
)  # fmt: skip
OVER = StepOver(topic="a", partition=0, replicas=(1, 2, 3, 4), leader=1, reached=True)
DONE = StateEntered(topic="a", partition=0, state=State.DONE)


def test_a_replica_that_waits_for_its_turn_keeps_its_partition_moving() -> None:
    seen = timeline(tp("a-0"), phase=Phase.MOVING, lanes={4: _waiting_lane()})
    words = row_pieces(seen, layout(200, Extents()), RowContext(BEGAN_S + 60))
    assert "moving 12%" in plain(words)
    assert ("waits for its turn", "waiting") in [(each.text.strip(), each.role) for each in words]
    assert not RowFilter("state:behind").matches(seen, RowContext(0.0))


def _waiting_lane() -> Lane:
    stall = Stall(StallKind.WAITING, Cause.THROTTLED, BEGAN_S, 4, "waits for its turn")
    return Lane(4, Role.ADDING, share=0.125, rate_bytes_s=0.0, stall=stall)


@pytest.mark.parametrize("width", [79, 96, 119, 150, 199])
def test_a_reason_is_whole_in_its_row_or_under_it_and_never_over_the_timeline(width: int) -> None:
    why = "0.3 MB/s throttle, 1.7 MB/s in"
    stall = Stall(StallKind.FALLING_BEHIND, Cause.THROTTLED, BEGAN_S, 4, why)
    lane = Lane(4, Role.ADDING, share=0.125, stall=stall, lag_messages=3_000, rate_bytes_s=2e5)
    seen = timeline(tp("payments-settled-12"), phase=Phase.MOVING, lanes={4: lane})
    columns, context = layout(width, Extents(19, 14)), RowContext(BEGAN_S + 60)
    text = plain(row_pieces(seen, columns, context))
    below = pieces_below(seen, columns, context)
    assert "behind 1m" in text
    assert (why in text) is (below is None)
    assert below is None or why in plain(below)
    assert text[columns.tail - CURSOR_WIDTH :].startswith("0.3 ")
    assert len(text) <= width


def test_a_reason_takes_the_figures_that_it_needs_and_leaves_the_others() -> None:
    stall = Stall(StallKind.STALLED, Cause.TARGET_DOWN, BEGAN_S, 4, "broker 4 is down")
    lanes = {4: Lane(4, Role.ADDING, lag_messages=3_000, rate_bytes_s=2e6, stall=stall)}
    seen = timeline(tp("payments-12"), phase=Phase.STALLED, lanes=lanes)
    text = plain(row_pieces(seen, layout(125, Extents(11, 16)), RowContext(BEGAN_S + 60)))
    assert "*1 2 +9" in text
    assert "broker 4 is down   3.0 k msg" in text
    assert "2.0 MB/s" not in text


def test_figures_without_a_column_stand_under_the_row() -> None:
    lanes = {4: Lane(4, Role.ADDING, lag_messages=3_000, rate_bytes_s=2e6)}
    seen, context = timeline(phase=Phase.MOVING, lanes=lanes), RowContext(BEGAN_S + 60)
    narrow = pieces_below(seen, layout(70, Extents(20, 14)), context) or []
    assert plain(narrow) == "└ lag 3.0 k msg   rate 2.0 MB/s"
    assert pieces_below(seen, layout(130, Extents(20, 14)), context) is None


@pytest.mark.parametrize("width", range(100, 150))
def test_no_figure_is_cut_in_when_a_move_ended(width: int) -> None:
    ended = BEGAN + timedelta(seconds=91)
    seen = timeline(phase=Phase.DONE, lanes={}, ended_at=ended)
    text = plain(row_pieces(seen, layout(width, Extents()), RowContext(BEGAN_S + 60))).rstrip()
    assert text.endswith((f"at {as_time(ended)} after 1m 31s", f"at {as_time(ended)}", ""))
    assert "after 1m" not in text or text.endswith("after 1m 31s")


def _in_a_run(state: State, why: str) -> RowContext:
    """Return the context of a run of a-0 alone."""
    run = Run("run")
    rows = RunRows(run)
    planned = Planned(
        topic="a", partition=0, topic_id=None, target=(4, 2, 3), original=(1, 2, 3), leader=1,
        size=1,
    )  # fmt: skip
    entered = StateEntered(topic="a", partition=0, state=state, reason=why)
    run_events: list[AnyRunEvent] = [started(1), PlannedPart(partitions=(planned,)), entered]
    entries = [JournalEntry(n, BEGAN, event) for n, event in enumerate(run_events, 1)]
    run.fold(entries)
    rows.apply_entries(entries)
    return RowContext(BEGAN_S + 60, run=rows)


@pytest.mark.parametrize(
    ("state", "calm"),
    [(State.DONE, True), (State.ROLLED_BACK, True), (State.FAILED, False), (State.READY, False)],
)
def test_a_dead_broker_is_red_only_where_a_hand_is_needed(
    state: State,
    calm: bool,  # noqa: FBT001 - a parameter
) -> None:
    alive = PartitionState(tp("a-0"), None, (4, 2, 3), (2, 3), 2, 7, (), (), (4,))
    marks = history((Mark.IN_SYNC, 7), (Mark.OUT_OF_SYNC, 8))
    seen = timeline(tp("a-0"), state=alive, phase=Phase.DONE, lanes={}, recent=marks)
    pieces = row_pieces(seen, layout(120, Extents()), _in_a_run(state, ""))
    drawn = {piece.text.strip("░"): piece.role for piece in pieces if piece.text in (">4!", "4!")}
    assert [*drawn.values()] == ["dim" if calm else "out-of-sync"]
    strokes = {piece.role for piece in pieces if set(piece.text) == {"░"}}
    assert strokes == ({"dim"} if calm else {"out-of-sync"})


def test_a_wide_row_has_the_replicas_that_the_partition_is_to_have_in_the_end() -> None:
    seen = timeline(tp("a-0"), phase=Phase.MOVING, lanes={4: Lane(4, Role.ADDING)})
    columns, context = layout(200, Extents(), batches=True), _in_a_run(State.ADDING, "")
    start = next(start for column, start, _ in columns.spans() if column is TARGET) - CURSOR_WIDTH
    text = plain(row_pieces(seen, columns, context))
    assert text[start:].startswith("4,2,3 ")


@pytest.mark.parametrize("state", [State.BLOCKED, State.FOREIGN, State.QUEUED])
def test_a_reason_spreads_over_the_empty_figures_of_its_row(state: State) -> None:
    why = "broker 4, which is to be added, is down"
    gone = Lane(4, Role.OUT_OF_SYNC)
    seen = timeline(tp("a-0"), phase=Phase.DONE, lanes={4: gone})
    text = plain(row_pieces(seen, layout(160, Extents(), batches=True), _in_a_run(state, why)))
    assert text.rstrip().endswith(why)


@pytest.mark.parametrize(
    ("why", "short"),
    [
        ("broker 5 is down", "b5 down"),
        ("drop waits: 3 of 5 ready", "3 of 5"),
        ("5 of 5 under way (P)", "5/5 (P)"),
        ("broker 5 of its target is down", "b5 down"),
    ],
)
def test_a_reason_with_a_few_cells_says_in_short_what_stands_under_the_cursor(
    why: str, short: str
) -> None:
    stall = Stall(StallKind.STALLED, Cause.TARGET_DOWN, BEGAN_S, 4, why)
    lanes = {4: Lane(4, Role.ADDING, lag_messages=3_000, rate_bytes_s=2e6, stall=stall)}
    seen, context = timeline(phase=Phase.STALLED, lanes=lanes), RowContext(BEGAN_S + 60)
    columns = layout(79, Extents(10, 14))
    assert plain(row_pieces(seen, columns, context)).rstrip().endswith(f"! {short}")
    assert why in plain(pieces_below(seen, columns, context) or ())


@pytest.mark.parametrize("width", range(72, 100))
def test_when_a_move_ended_is_whole_to_the_minute_at_least(width: int) -> None:
    ended = BEGAN + timedelta(seconds=91)
    seen = timeline(phase=Phase.DONE, lanes={}, ended_at=ended)
    text = plain(row_pieces(seen, layout(width, Extents(10, 14)), RowContext(BEGAN_S + 60)))
    last = text.rstrip().rpartition("┄ ")[2].strip().removeprefix("at ")
    assert last in (as_time(ended), f"@ {as_time(ended)[:5]}", f"{as_time(ended)} after 1m 31s")


def test_a_partition_changed_elsewhere_stays_so_and_shows_the_stall_of_its_move() -> None:
    stall = Stall(StallKind.STALLED, Cause.TARGET_DOWN, BEGAN_S, 7, "broker 7 is down")
    seen = timeline(tp("a-0"), phase=Phase.STALLED, lanes={7: Lane(7, Role.ADDING, stall=stall)})
    context = _in_a_run(State.CHANGED_ELSEWHERE, "it is on 7,2,3")
    text = plain(row_pieces(seen, layout(200, Extents()), context))
    assert "changed" in text
    assert "STALLED" not in text
    assert "broker 7 is down, stalled 1m" in text


@pytest.mark.parametrize("name", ["a-0", "b-0"])
@pytest.mark.parametrize("mover", ["drain-clicks", None])
def test_the_stall_of_a_move_beside_the_run_names_the_run_that_began_it(
    name: str, mover: str | None
) -> None:
    stall = Stall(StallKind.STALLED, Cause.TARGET_DOWN, BEGAN_S, 7, "broker 7 is down")
    seen = timeline(tp(name), phase=Phase.STALLED, lanes={7: Lane(7, Role.ADDING, stall=stall)})
    context = _in_a_run(State.FOREIGN, "")
    assert context.run is not None
    context.run.movers = {} if mover is None else {seen.tp: mover}
    text = plain(row_pieces(seen, layout(200, Extents()), context))
    assert "broker 7 is down" in text
    assert ("run drain-clicks: broker 7" in text) is (mover is not None)
    assert "foreign" in text or mover is not None


@pytest.mark.parametrize(
    ("kind", "before", "words", "role"),
    [
        (CancelKind.STOP, State.QUEUED, "not started", "dim"),
        (CancelKind.ROLLBACK, State.QUEUED, "not started", "dim"),
        (CancelKind.STOP, State.DONE, "stopped", "cancelled"),
        (CancelKind.ROLLBACK, State.DONE, "rolled back", "in-sync"),
    ],
)
def test_never_begun_is_grey_and_rolled_back_is_green(
    kind: CancelKind, before: State, words: str, role: str
) -> None:
    begun, context = before is State.DONE, _in_a_run(before, "")
    assert context.run is not None
    run = context.run.run
    if begun:
        run.apply(JournalEntry(run.seq + 1, BEGAN, STEP))
        run.apply(JournalEntry(run.seq + 1, BEGAN, OVER))
        run.apply(JournalEntry(run.seq + 1, BEGAN, DONE))
    cancel = CancelAsked(kind=kind, partitions=(tp("a-0"),))
    run.apply(JournalEntry(run.seq + 1, BEGAN, cancel))
    if begun:
        run.apply(JournalEntry(run.seq + 1, BEGAN, DONE))
    seen = timeline(tp("a-0"), phase=Phase.SETTLED, lanes={})
    pieces = row_pieces(seen, layout(140, Extents()), context)
    assert (words, role) in [(piece.text.strip(), piece.role) for piece in pieces]
    on_map = map_state(seen, context)
    assert MAP_CELLS[on_map].role == role


NOW = RowContext(0.0)
NAMES = [TopicPartition(topic, number) for topic in "abc" for number in range(3)]
some = st.dictionaries(
    st.sampled_from(NAMES), st.tuples(st.floats(0, 100), st.sampled_from(list(Phase))), max_size=9
)
orderings = st.builds(
    Ordering, st.sampled_from(["state", "partition", "lag", "rate", "left", "began"]), st.booleans()
)
filters = st.sampled_from(["", "a", "state:done", "partition:1", "topic:b state:mov"])


def timelines_of(
    facts: Mapping[TopicPartition, tuple[float, Phase]],
) -> dict[TopicPartition, Timeline]:
    return {
        tp: timeline(tp, began_s=began, phase=phase, lanes={})
        for tp, (began, phase) in facts.items()
    }


def belongs(each: Timeline) -> bool:
    return each.phase is not Phase.SETTLED


@given(st.lists(some, min_size=1, max_size=5), orderings, filters)
def test_updates_end_in_the_same_order_as_a_fresh_arrangement(
    steps: list[dict[TopicPartition, tuple[float, Phase]]], ordering: Ordering, text: str
) -> None:
    kept, fresh = Arrangement(belongs), Arrangement(belongs)
    kept.arrange(ordering=ordering, rowfilter=RowFilter(text))
    for step in steps:
        kept.update(timelines_of(step), NOW, reposition=True)
    fresh.update(timelines_of(steps[-1]), NOW, reposition=True)
    fresh.arrange(ordering=ordering, rowfilter=RowFilter(text))
    assert kept.rows == fresh.rows
    assert kept.belonging == fresh.belonging
    assert all(kept.rows[kept.index_of(tp) or 0] == tp for tp in kept.rows)


@given(st.lists(some, min_size=2, max_size=5), orderings)
def test_held_rows_keep_their_relative_order_until_they_are_released(
    steps: list[dict[TopicPartition, tuple[float, Phase]]], ordering: Ordering
) -> None:
    held = Arrangement(belongs)
    held.arrange(ordering=ordering)
    for step in steps:
        before = list(held.rows)
        held.update(timelines_of(step), NOW, reposition=False)
        stayed = [tp for tp in before if tp in held.rows]
        assert [tp for tp in held.rows if tp in stayed] == stayed
    held.reposition()
    fresh = Arrangement(belongs)
    fresh.update(timelines_of(steps[-1]), NOW, reposition=True)
    fresh.arrange(ordering=ordering)
    assert held.rows == fresh.rows


@given(before=some, after=some, ordering=orderings, text=filters, anew=st.booleans())
def test_rows_arranged_for_a_change_leave_the_rows_on_the_screen_as_they_are(
    *,
    before: dict[TopicPartition, tuple[float, Phase]],
    after: dict[TopicPartition, tuple[float, Phase]],
    ordering: Ordering,
    text: str,
    anew: bool,
) -> None:
    shown, fresh = Arrangement(belongs), Arrangement(belongs)
    shown.update(timelines_of(before), NOW, reposition=True)
    rows, belonging = list(shown.rows), shown.belonging
    change = RowChange(timelines=timelines_of(after), context=NOW)
    if anew:
        change = change.then(RowChange(ordering=ordering, rowfilter=RowFilter(text), anew=True))
        fresh.arrange(ordering=ordering, rowfilter=RowFilter(text))
    later, _ = shown.followed_by(change, reposition=True)
    fresh.update(timelines_of(after), NOW, reposition=True)
    assert (shown.rows, shown.belonging) == (rows, belonging)
    assert (later.rows, later.belonging) == (fresh.rows, fresh.belonging)


def test_an_update_without_a_change_returns_false() -> None:
    arrangement = Arrangement(belongs)
    timelines = timelines_of({NAMES[0]: (1.0, Phase.MOVING)})
    assert arrangement.update(timelines, NOW, reposition=True)
    assert not arrangement.update(dict(timelines), NOW, reposition=True)


@given(st.integers(50, 400), st.integers(1, 300), st.integers(1, 200), st.booleans())
def test_the_columns_always_fit_the_width(
    width: int,
    name: int,
    replicas: int,
    batches: bool,  # noqa: FBT001 - drawn by hypothesis
) -> None:
    columns = layout(width, Extents(name, replicas), batches=batches)
    last, start, size = list(columns.spans())[-1]
    assert start + size <= width, last
    assert columns.width_of(PARTITION) >= 9
    assert columns.width_of(REPLICAS) >= 8


@given(st.integers(79, 400), st.integers(1, 300), st.integers(1, 40), st.booleans())
def test_nothing_takes_the_room_of_the_timeline(
    width: int,
    name: int,
    replicas: int,
    batches: bool,  # noqa: FBT001 - drawn by hypothesis
) -> None:
    columns = layout(width, Extents(name, replicas), batches=batches)
    least = next(least for at, least in ((199, 70), (119, 40), (79, 24)) if width >= at)
    assert columns.width_of(TIMELINE) >= least


def test_a_name_is_cut_only_where_there_is_no_room_for_it() -> None:
    assert layout(79, Extents(20, 14)).width_of(PARTITION) == 16
    assert layout(119, Extents(38, 14)).width_of(PARTITION) == 36
    assert layout(160, Extents(38, 14)).width_of(PARTITION) == 38


def test_a_wider_terminal_shows_more() -> None:
    extents = Extents(21, 14)
    before: set[Column] = set()
    for width, *more in (
        (62, PARTITION, STATE, REPLICAS, TIMELINE),
        (79, LEFT),
        (96, RATE),
        (130, LAG),
        (140, BATCH),
        (160, TO_COPY),
        (190, TARGET),
    ):
        columns = {column for column, _ in layout(width, extents, batches=True).columns}
        assert columns - before == set(more), width
        assert before <= columns
        before = columns


def test_what_never_copies_has_no_columns_for_the_figures_of_copies() -> None:
    columns = {column for column, _ in layout(120, Extents(copying=False)).columns}
    assert not columns & {LAG, RATE, LEFT, TO_COPY}
