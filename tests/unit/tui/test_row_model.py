from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.screens.watch.columns import (
    BATCH,
    LAG,
    LEFT,
    PARTITION,
    RATE,
    REASON,
    REPLICAS,
    STATE,
    TARGET,
    TIMELINE,
    TO_COPY,
    Column,
    Extents,
    Ordering,
    layout,
)
from ktui.tui.screens.watch.filter import RowFilter
from ktui.tui.screens.watch.row_model import Arrangement, RowChange
from ktui.tui.screens.watch.words import RowContext
from support.views.screens import timeline

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


@given(st.integers(40, 400), st.integers(1, 300), st.integers(1, 200))
def test_the_columns_always_fit_the_width(width: int, name: int, replicas: int) -> None:
    columns = layout(width, Extents(name, replicas))
    last, start, size = list(columns.spans())[-1]
    assert start + size <= max(width, 72), last
    assert columns.width_of(PARTITION) >= 9
    assert columns.width_of(REPLICAS) >= 8


def test_a_wider_terminal_shows_more() -> None:
    extents = Extents(21, 14)
    before: set[Column] = set()
    for width, *more in (
        (60, PARTITION, STATE, REPLICAS, LEFT),
        (76, LAG),
        (79, RATE),
        (90, TIMELINE),
        (120, BATCH),
        (135, REASON),
        (150, TO_COPY),
        (160, TARGET),
    ):
        columns = {column for column, _ in layout(width, extents, batches=True).columns}
        assert columns - before == set(more)
        assert before <= columns
        before = columns


def test_what_never_copies_has_no_columns_for_the_figures_of_copies() -> None:
    columns = {column for column, _ in layout(120, Extents(copying=False)).columns}
    assert not columns & {LAG, RATE, LEFT, TO_COPY}
