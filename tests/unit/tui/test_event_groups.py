"""Events in groups, facts, changes, and the keys that are live."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.binding import ActiveBinding, Binding
from textual.content import Content
from textual.dom import DOMNode

from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import StateEntered, StepOver, ThrottleChanged
from ktui.execution.run.states import State
from ktui.execution.run.text import describe_event
from ktui.planning.intents.layout import BeforeAfter, BrokerBeforeAfter, Holding
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.progress.timeline import Event, Progress
from ktui.simulated.clock import VirtualClock
from ktui.tui.draw.cells import pieces_width
from ktui.tui.poll import Polling, unite
from ktui.tui.screens.event_list import (
    EventChoice,
    EventFilter,
    EventRows,
    Tone,
    Topic,
    event_kind,
    extend_groups,
    group_severity,
    group_words,
    splice,
)
from ktui.tui.screens.plan.preview_lines import change_lines
from ktui.tui.widgets.bindings import LiveKey, fit_keys, line_width
from ktui.tui.widgets.lines import facts
from support.simulated.observations import T0, T1, a_move, an_observation, folded
from support.views.screens import plain

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


PAIRS = [
    ("leader", Content("1, epoch 12")),
    ("topic id", Content("dPqkT3xvRHqXw8mXb0yZ9A")),
    ("ISR", Content("1 2 3")),
]


def rows(width: int) -> list[str]:
    return [line.plain.rstrip() for line in facts(PAIRS, width)]


def test_facts_are_side_by_side_in_a_wide_terminal() -> None:
    assert rows(100) == [
        "leader  1, epoch 12   topic id  dPqkT3xvRHqXw8mXb0yZ9A   ISR  1 2 3",
    ]


def test_facts_are_in_fewer_aligned_columns_in_a_narrower_terminal() -> None:
    assert rows(60) == [
        "leader  1, epoch 12   topic id  dPqkT3xvRHqXw8mXb0yZ9A",
        "ISR     1 2 3",
    ]


def test_facts_have_a_line_each_in_a_narrow_terminal() -> None:
    assert rows(20) == [
        "leader    1, epoch 12",
        "topic id  dPqkT3xvRHqXw8mXb0yZ9A",
        "ISR       1 2 3",
    ]


def test_the_value_of_a_fact_is_never_parsed_as_markup() -> None:
    (line,) = facts([("rack", Content("[red]a[/red]"))], 40)
    assert "[red]a[/red]" in line.plain


GIB = 1024**3
holdings = st.builds(
    Holding,
    bytes=st.integers(0, 10**15),
    replicas=st.integers(0, 99_999),
    leaders=st.integers(0, 9_999),
)


def change(*brokers: tuple[Holding, Holding], sizes_unknown: int = 0) -> BeforeAfter:
    return BeforeAfter(
        replicas=0,
        bytes=0,
        leaders=0,
        sizes_unknown=sizes_unknown,
        brokers=tuple(
            BrokerBeforeAfter(broker=broker, rack=None, before=before, after=after)
            for broker, (before, after) in enumerate(brokers, 1)
        ),
        racks=(),
    )


def drawn(of: BeforeAfter, width: int = 76, rows: int = 10) -> list[str]:
    return [plain(line) for line in change_lines(of, width, rows)]


def has(gib: int) -> Holding:
    return Holding(bytes=gib * GIB, replicas=gib, leaders=1)


def test_a_broker_that_does_not_change_has_its_figures_once() -> None:
    lines = drawn(change((has(20), has(15)), (has(10), has(10))))

    assert [part for part in lines[1].split() if not set(part) <= set("█▓░·")] == (
        ["1", "20", "GiB", "→", "15", "GiB", "20", "→", "15", "1"]
    )
    assert lines[2].split()[2:] == ["10", "GiB", "10", "1"]
    assert lines[3].split() == ["██", "stays", "▓▓", "comes", "░░", "goes"]


def test_of_many_brokers_those_that_change_most_are_shown_and_the_others_are_counted() -> None:
    same = (has(5), has(5))
    lines = drawn(change(same, (has(5), has(6)), same, (has(9), has(1)), (has(1), has(8))), rows=2)

    assert [line.split()[0] for line in lines[1:3]] == ["4", "5"]
    assert lines[3] == "and 1 more that changes less and 2 more that do not change"


def test_a_size_that_is_not_known_is_said_to_be_assumed() -> None:
    lines = drawn(change((has(5), has(6)), sizes_unknown=2))

    assert lines[2] == "the sizes of 2 partitions are not known: each counts as 1.0 GiB"


@pytest.mark.parametrize("width", [64, 76])
@given(st.lists(st.tuples(holdings, holdings), max_size=12))
def test_nothing_is_wider_than_the_screen_and_no_broker_is_forgotten(
    width: int, brokers: list[tuple[Holding, Holding]]
) -> None:
    lines = list(change_lines(change(*brokers), width, 5))

    assert max(map(pieces_width, lines), default=0) <= width
    assert sum(plain(line)[:1].isdigit() for line in lines) == (
        min(5, len(brokers)) if len(brokers) > 5 else len(brokers)
    )


_NODE = DOMNode()


def _key(action: str, role: str = "") -> LiveKey:
    binding = Binding(action[0], action, action)
    return LiveKey(action[0], action, ActiveBinding(_NODE, binding, enabled=True), role)


_KEYS = [
    _key("resume", "stalled"), _key("call_off", "stalled"),
    _key("filter"), _key("sort"), _key("show_help"), _key("quit_view"),
]  # fmt: skip


def _shown(room: int) -> list[str]:
    keys = fit_keys(_KEYS, room, ("sort", "filter"), kept=("show_help", "quit_view"))
    return [key.action for key in keys]


def test_all_keys_are_shown_where_there_is_room() -> None:
    assert _shown(200) == [key.action for key in _KEYS]


def test_those_to_be_left_out_first_go_first_then_help_and_quit_and_at_last_what_helps() -> None:
    shown = [_shown(room) for room in range(line_width(_KEYS), 0, -1)]
    in_turn = sorted({tuple(each) for each in shown}, key=len, reverse=True)
    assert [[*set(a) - set(b)] for a, b in pairwise(in_turn)] == [
        ["sort"], ["filter"], ["quit_view"], ["show_help"], ["call_off"],
    ]  # fmt: skip
    assert in_turn[-1] == ("resume",)


@given(st.integers(1, 120), st.lists(st.booleans(), min_size=1, max_size=8))
def test_what_fits_is_no_wider_than_the_line_unless_one_key_alone_is(
    room: int, helping: list[bool]
) -> None:
    keys = [_key(f"a{i}", "stalled" if helps else "") for i, helps in enumerate(helping)]
    keys.sort(key=lambda key: not key.role)
    fitting = fit_keys(keys, room, ())
    assert line_width(fitting) <= room or len(fitting) == 1 or not any(helping)


TP = TopicPartition("orders", 1)


class QuietCluster:
    """A source that shows no move, each time ten seconds later."""

    def __init__(self) -> None:
        self._seconds = 0.0

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        del interest
        self._seconds += 10.0
        return an_observation([], self._seconds)

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        raise AssertionError((topics, brokers))

    async def aclose(self) -> None:
        raise AssertionError("the view's polls end without their source")


def polls_of_a_view(
    complete: Callable[[Progress], Progress], source: QuietCluster | None = None
) -> Polling:
    return Polling(
        source or QuietCluster(),
        VirtualClock(),
        1.0,
        interest=lambda: NO_INTEREST,
        post=lambda _: None,
        complete=complete,
    )


async def test_a_history_that_comes_while_another_is_added_is_shown_after_the_next_poll() -> None:
    first, second = (folded([an_observation([a_move(tp)], 1.0)]) for tp in (T0, T1))
    coming = [second]

    def complete(progress: Progress) -> Progress:
        if coming:
            polling.add_history(coming.pop())
        return progress

    polling = polls_of_a_view(complete)
    polling.add_history(first)

    await polling.poll_once()
    assert polling.progress.timelines.keys() == {T0}
    await polling.poll_once()
    assert polling.progress.timelines.keys() == {T0, T1}


async def test_a_history_is_kept_for_the_next_poll_if_one_fails_over_it() -> None:
    history = folded([an_observation([a_move(T0)], 1.0)])
    fails = [True]

    def complete(progress: Progress) -> Progress:
        if fails.pop():
            raise ValueError("a defect")
        return progress

    polling = polls_of_a_view(complete)
    polling.add_history(history)

    await polling.poll_once()
    assert polling.progress == Progress()
    fails.append(False)
    await polling.poll_once()
    assert polling.progress.timelines.keys() == {T0}


class CopyingCluster(QuietCluster):
    """A source that shows a replica being copied: 10 of its 100 messages in each poll."""

    def __init__(self, polls: int = 0) -> None:
        self.polls = polls

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        del interest
        self.polls += 1
        return a_copy(self.polls)


def a_copy(polls: int) -> Observation:
    ends = {(T0, 1): 100, (T0, 4): 10 * polls}
    return an_observation([a_move()], float(polls), ends=ends, starts={T0: 0})


async def test_polls_are_kept_while_a_history_is_read() -> None:
    polling = polls_of_a_view(lambda progress: progress, CopyingCluster(polls=2))
    await polling.poll_once()
    polling.expect_history()
    for _ in range(4):
        await polling.poll_once()
    polling.add_history(folded([a_copy(0), a_copy(1), a_copy(2)]))
    await polling.poll_once()

    whole = folded(map(a_copy, range(9)))
    assert polling.progress.timelines[T0].lanes[4].history == whole.timelines[T0].lanes[4].history


async def test_no_poll_is_kept_once_there_is_no_history() -> None:
    polling = polls_of_a_view(lambda progress: progress, CopyingCluster())
    polling.expect_history()
    await polling.poll_once()
    polling.add_history(None)
    await polling.poll_once()
    assert polling._kept is None


def test_polls_cover_what_each_open_screen_needs() -> None:
    topics = Interest(topics=frozenset({"payments"}), unhealthy=True)
    detail = Interest(partitions=frozenset({TP}), census=True)

    assert unite([topics, detail]) == Interest(
        topics=frozenset({"payments"}), partitions=frozenset({TP}), unhealthy=True, census=True
    )
    assert unite([]) == NO_INTEREST


def test_events_of_the_shown_run_lack_its_name_and_those_of_another_have_it() -> None:
    rows = EventRows()
    rows.wrap(80, "drain-3")
    whole = Event(_BEGAN, "run drain-3: note: to be looked at")
    rows.update([_event("run drain-3: ready"), whole, _event("run night: ready", 60)])
    assert [(row.text, row.subject) for row in rows.rows] == [
        ("ready", ""),
        ("note: to be looked at", "run"),
        ("run night: ready", ""),
    ]


@pytest.mark.parametrize(
    ("sentences", "tone", "words"),
    [
        (["setting: topic a x + 1:2"], Tone.SETTING, "setting: topic a x + 1:2"),
        (["limits: P 1 -> 2", "setting: topic a x + 1:2"] * 2, Tone.SETTING, "2 changes of limits"),
        (["batch 2: 1,2,3 -> 4,2,3 (+4)"], Tone.NEWS, "batch 2"),
        (
            ["step finished: 1,2,3, leader 1"] * 3 + ["done"],
            Tone.OUTCOME,
            "1 partition done, 3 steps",
        ),
    ],
)
def test_settings_are_quiet_and_outcomes_are_loud_and_stand_first(
    sentences: list[str], tone: Tone, words: str
) -> None:
    rows = EventRows()
    rows.wrap(80, "drain-3")
    rows.update([_event(f"run drain-3: {each}") for each in sentences])
    assert rows.rows[0].tone is tone
    assert rows.rows[0].text.startswith(words)
