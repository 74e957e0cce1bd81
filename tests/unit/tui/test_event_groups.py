"""Events that belong together are one line: every event once, in order, and the worst is named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import StateEntered, StepOver, ThrottleChanged
from ktui.execution.run.states import State
from ktui.execution.run.text import describe_event
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.progress.timeline import Event
from ktui.tui.screens.event_list import (
    EventChoice,
    EventFilter,
    EventRows,
    Topic,
    event_kind,
    extend_groups,
    group_severity,
    group_words,
    splice,
)

_BEGAN = datetime(2026, 11, 21, tzinfo=UTC)
_SENTENCES = (
    "run drain-3: step finished: 4,5,6, leader 4",
    "run drain-3: batch 2: 1,2,3 -> 4,2,3 (+4)",
    "run drain-3: throttle: 50 MB/s -> 80 MB/s, at once",
    "under-replicated: 2 of 3 in sync",
    "broker 4 left the ISR",
    "run drain-3: note: to be looked at",
)


def _event(what: str, at_s: float = 0.0, number: int = 0, severity: int = 0) -> Event:
    return Event(
        _BEGAN + timedelta(seconds=at_s), what, TopicPartition("orders", number), None, severity
    )


_EVENTS = st.lists(
    st.tuples(st.sampled_from(_SENTENCES), st.sampled_from((0.0, 0.5, 3.0, 60.0))), max_size=60
)


def _timed(drawn: list[tuple[str, float]]) -> list[Event]:
    at_s, events = 0.0, []
    for what, pause_s in drawn:
        at_s += pause_s
        events.append(_event(what, at_s))
    return events


def _grouped(events: list[Event]) -> list[list[Event]]:
    groups: list[list[Event]] = []
    extend_groups(groups, events)
    return groups


@given(_EVENTS, st.integers(0, 60))
def test_groups_have_every_event_once_and_in_order_however_the_events_come(
    drawn: list[tuple[str, float]], first: int
) -> None:
    events = _timed(drawn)
    groups = _grouped(events[:first])
    extend_groups(groups, events[first:])
    assert [id(event) for group in groups for event in group] == [id(each) for each in events]
    assert groups == _grouped(events)


@given(_EVENTS, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=6))
def test_the_lines_show_every_event_once_whatever_comes_and_falls_off(
    drawn: list[tuple[str, float]], windows: list[tuple[int, int]]
) -> None:
    events = _timed(drawn)
    rows = EventRows()
    rows.wrap(200)
    for start, end in windows:
        part = tuple(events[start:end])
        rows.update(part)
        line = 0
        while line < len(rows.rows):  # unfolded, the lines are the events and a line a group
            rows.fold(line, unfolds=True)
            line += 1
        shown = [id(row.event) for row in rows.rows if row.unfolds is None]
        assert shown == [id(event) for event in part]


@given(_EVENTS, st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_what_stays_of_the_events_is_found(
    drawn: list[tuple[str, float]], start: int, cut: int, more: int
) -> None:
    events = _timed(drawn)
    old, new = events[:cut], [*events[start:cut], *_timed(drawn)[:more]]
    dropped, kept = splice(old, new)
    assert [*map(id, old[dropped : dropped + kept])] == [*map(id, new[:kept])]
    if start < cut <= len(events):
        assert (dropped, kept) == (start, cut - start)


@given(_EVENTS, st.sampled_from(EventChoice), st.sampled_from(("", "step", "broker 4")))
def test_the_filters_show_what_passes_while_events_come_and_fall_off(
    drawn: list[tuple[str, float]], choice: EventChoice, words: str
) -> None:
    events = _timed(drawn)
    chosen = EventFilter(lambda event: event.what)
    chosen.choose(choice)
    chosen.look_for(words)
    for part in (events[:20], events[:40], events[10:50], events[5:8], events[30:]):
        chosen.update(tuple(part))
        assert [*map(id, chosen.shown)] == [
            id(event) for event in part if choice.includes(event) and words in event.what
        ]
        assert chosen.counts[choice] == sum(map(choice.includes, part))


def test_a_broker_that_goes_down_names_what_it_caused_the_worst_first() -> None:
    down = Event(_BEGAN, "broker 4 is down", None, 4, 2)
    reduced = [_event("under-replicated: 2 of 3 in sync", 1, n, 1) for n in range(34)]
    blocked = [_event("run drain-3: blocked: broker 4 is down", 2, n, 1) for n in range(11)]
    stalled = [_event("replica 4 stalled: broker 4 is down", 2, 7, 2)]
    (group,) = _grouped([down, *reduced, *blocked, *stalled])
    assert group_words(group) == "broker 4 down: 1 stalled, 34 under-replicated, 11 blocked"
    assert group_severity(group) == 2


def test_steps_and_trouble_stand_apart_and_so_do_other_moments() -> None:
    step, reduced = _SENTENCES[0], _SENTENCES[3]
    events = [_event(step), _event(step, 1), _event(reduced, 1), _event(step, 2), _event(step, 60)]
    assert [len(group) for group in _grouped(events)] == [2, 1, 1, 1]


@pytest.mark.parametrize(
    ("event", "topic"),
    [
        (StepOver(topic="a", partition=0, reached=True, replicas=(1, 2), leader=1), Topic.STEP),
        (StateEntered(topic="a", partition=0, state=State.BLOCKED, reason="x"), Topic.HEALTH),
        (
            ThrottleChanged(
                old=parse_throttle_rates("50MB"), new=parse_throttle_rates("80MB"), who="ann"
            ),
            Topic.SETTING,
        ),
    ],
    ids=lambda each: getattr(each, "name", None),
)
def test_the_sentences_of_a_run_are_told_apart(event: object, topic: Topic) -> None:
    words = describe_event(event)  # type: ignore[arg-type]  # one of the events of a run
    assert event_kind(_event(f"run drain-3: {words}")).topic is topic


def test_new_events_leave_the_lines_of_the_old_ones_as_they_are() -> None:
    events = [_event(_SENTENCES[n // 7 % 5], n * 0.5, n) for n in range(2_000)]
    rows = EventRows()
    rows.wrap(80)
    rows.update(tuple(events[:1_980]))
    before = list(rows.rows)
    gone = rows.update((*events[100:1_975], _event("under-replicated", 987, 1), *events[1_975:]))
    assert gone > 0
    kept = before[gone:-8]
    same = [old is new for old, new in zip(kept, rows.rows, strict=False)]
    assert all(same[2:])  # the first group has lost most of its events
    assert len(same) > len(before) * 0.9


def test_one_of_a_kind_is_named_in_the_singular() -> None:
    moved = _event("leader moved from broker 3 to broker 1", 0, 1)
    down = _event("broker 3 left the ISR", 0, 2)

    assert group_words([moved, down, down]) == "1 leader moved, 2 out of the ISR"
    assert group_words([moved, moved, down]) == "2 leaders moved, 1 out of the ISR"
