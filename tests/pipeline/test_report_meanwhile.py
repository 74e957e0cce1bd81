"""What happened meanwhile, in all figures over time: signs, gaps of the recording, idle hours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from ktui.cluster.partition import TopicPartition
from ktui.execution.run import events
from ktui.execution.run.events import Continued, LimitsChanged, Noted, Paused, PauseOrigin
from ktui.pacing.limits import Limits
from ktui.pipeline.lake.records import (
    BROKER,
    LIMITS,
    OTHER,
    PAUSE,
    THROTTLE,
    InFlightCounts,
    LogEndRecord,
    Mark,
    PollRecord,
    ReportFacts,
    Sample,
)
from ktui.pipeline.report.figures.counts import concurrency_figure
from ktui.pipeline.report.figures.figure import Figure
from ktui.pipeline.report.figures.overlay import MOST_SIGNS, events_figure, with_overlay
from ktui.pipeline.report.figures.sizes import lag_figure
from ktui.pipeline.report.lake import (
    Happened,
    RunEventRecord,
    broker_marks,
    decoded,
    idle_spans,
    recording_gaps,
    run_marks,
)
from ktui.pipeline.report.page import FIGURES, summary
from support.pipeline.report_facts import BEGAN, MINUTE, a_run, drawn

HOUR = 60 * MINUTE


def _overlaid(facts: ReportFacts) -> list[Figure]:
    found = [with_overlay(figure(facts), facts) for figure in FIGURES]
    return [one for one in found if isinstance(one, Figure) and one.along_time]


def test_no_line_of_what_was_under_way_bridges_a_gap_in_the_recording() -> None:
    facts = a_run(24)
    ((began, ended),) = facts.gaps

    found = drawn(concurrency_figure(facts))

    line = next(trace for trace in found.traces if trace["name"] == "partitions")
    within = [n for t, n in zip(line["x"], line["y"], strict=True) if began <= t < ended]
    assert within
    assert set(within) == {None}
    assert "connectgaps" not in line


@pytest.mark.parametrize("figure", ["concurrency", "rates", "brokers", "lag", "eta"])
def test_no_line_of_any_figure_goes_across_a_gap_and_each_goes_on_after_it(figure: str) -> None:
    gap = (BEGAN + 3 * MINUTE + 10_000, BEGAN + 3 * MINUTE + 50_000)
    facts = msgspec.structs.replace(a_run(24), gaps=(gap,))

    (found,) = (one for one in _overlaid(facts) if one.id == figure)

    lines = [t for t in found.traces if t["type"] == "scatter" and t["mode"].startswith("lines")]
    on_both_sides = 0
    for line in lines:
        points = list(zip(line["x"], line["y"], strict=True))
        drawn_ = [(a, b) for (a, n), (b, m) in pairwise(points) if None not in (n, m)]
        assert [(a, b) for a, b in drawn_ if a < gap[1] and gap[0] < b] == []
        on_both_sides += any(b <= gap[0] for _, b in drawn_) and any(a >= gap[1] for a, _ in drawn_)
    assert on_both_sides


@pytest.mark.parametrize("figure", ["lanes", "stalls", "states"])
def test_nothing_is_drawn_of_any_state_in_a_gap_and_states_go_on_after_it(figure: str) -> None:
    gap = (BEGAN + 4 * MINUTE, BEGAN + 5 * MINUTE + 10_000)
    facts = msgspec.structs.replace(a_run(24), gaps=(gap,))

    (found,) = (one for one in _overlaid(facts) if one.id == figure)

    shown = [bar for trace in found.traces for bar in _extents(trace)]
    assert [(a, b) for a, b in shown if a < gap[1] and gap[0] < b] == []
    assert any(b == gap[0] for _, b in shown)
    assert any(a == gap[1] for a, _ in shown)


def _extents(trace: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield the times in which a trace of bars, or of a stacked count, shows anything."""
    if trace["type"] == "bar":
        for base, took in zip(trace["base"], trace["x"], strict=True):
            yield base, base + took
    elif "stackgroup" in trace:
        points = [*zip(trace["x"], trace["y"], strict=True)]
        yield from ((a, b) for (a, count), (b, _) in pairwise(points) if count)


def _read_at(seconds: Iterable[int]) -> ReportFacts:
    """Return facts of a run of which every poll was recorded, but one move was read only then."""
    (move,) = (each for each in a_run(8).moves if each.partition == 7)
    ends = (LogEndRecord(1, 1_000_000), LogEndRecord(4, 1_000))
    samples = tuple(
        Sample(
            topic=move.topic, partition=7, topic_id="id", t=BEGAN + 1_000 * at, leader=1,
            adding=(4,), ends=ends,
        )
        for at in seconds
    )  # fmt: skip
    return msgspec.structs.replace(a_run(8), slowest=samples, gaps=())


@pytest.mark.parametrize("every_s", [2, 15, 25])
def test_no_curve_bridges_seventy_seconds_without_a_reading_of_its_move(every_s: int) -> None:
    before, after = range(0, 101, every_s), range(170, 301, every_s)

    found = drawn(lag_figure(_read_at([*before, *after])))

    points = [*zip(found.traces[0]["x"], found.traces[0]["y"], strict=True)]
    pieces = [b - a for (a, n), (b, m) in pairwise(points) if None not in (n, m)]
    assert set(pieces) == {1_000 * every_s}
    assert len(pieces) == len(before) + len(after) - 2


def test_a_curve_that_is_read_each_minute_is_one_line() -> None:
    found = drawn(lag_figure(_read_at(range(0, 600, 60))))

    assert None not in found.traces[0]["y"]


def test_polls_in_which_nothing_moved_count_as_nothing_under_way() -> None:
    polls = tuple(InFlightCounts(BEGAN + s * 1000, int(s < 60), 0) for s in range(120))

    found = drawn(concurrency_figure(msgspec.structs.replace(a_run(4), in_flight=polls, gaps=())))

    line = next(trace for trace in found.traces if trace["name"] == "partitions")
    at = dict(zip(line["x"], line["y"], strict=True))
    assert at[BEGAN + 90_000] == 0


def test_no_curve_of_a_move_bridges_a_gap_in_the_recording() -> None:
    facts = a_run(24)
    gap = (BEGAN + 3 * MINUTE, BEGAN + 4 * MINUTE)
    seen = tuple(sample for sample in facts.slowest if not gap[0] < sample.t < gap[1])

    found = drawn(lag_figure(msgspec.structs.replace(facts, slowest=seen, gaps=(gap,))))

    slowest = next(trace for trace in found.traces if trace["name"] == "orders-7")
    assert slowest["y"].count(None) == 1


def test_every_figure_over_time_shades_the_gap_and_says_that_it_was_not_recorded() -> None:
    facts = a_run(24)

    for figure in _overlaid(facts):
        if figure.id == "events":
            assert "not recorded" in figure.layout["yaxis"]["ticktext"]
            continue
        shaded = [s for s in figure.layout["shapes"] if s.get("fillcolor") == "var(--gap)"]
        assert [(s["x0"], s["x1"]) for s in shaded] == list(facts.gaps)
        if figure.height > 200:
            assert shaded[0]["label"]["text"] == "not recorded"


def test_every_figure_over_time_has_a_sign_and_a_line_for_all_that_happened() -> None:
    facts = a_run(24)

    for figure in _overlaid(facts):
        signs = [trace for trace in figure.traces if trace.get("mode") == "markers"]
        said = " ".join(text for trace in signs for text in trace.get("customdata", ()))
        assert {t for trace in signs for t in trace["x"]} == {mark.t for mark in facts.marks}
        for mark in facts.marks:
            assert mark.says.replace(">", "&gt;") in said.replace("<br>", " ")
        if figure.id != "events":
            lines = {s["x0"] for s in figure.layout["shapes"] if s.get("type") == "line"}
            assert lines == {mark.t for mark in facts.marks}


def test_signs_stand_above_the_drawing_and_not_on_it() -> None:
    for figure in _overlaid(a_run(24)):
        strip = figure.layout.get("yaxis99")
        if strip is not None:
            tops = [
                axis["domain"][1]
                for name, axis in figure.layout.items()
                if name.startswith("yaxis") and axis is not strip
            ]
            assert max(tops) < strip["domain"][0] < strip["domain"][1]


def _signs_in_other_figures(marks: tuple[Mark, ...]) -> set[Mark]:
    """Return the marks that have a line in the other figures over time, alike in all of them."""
    facts = msgspec.structs.replace(a_run(4), marks=marks)
    (times,) = {
        tuple(s["x0"] for s in figure.layout["shapes"] if s.get("type") == "line")
        for figure in _overlaid(facts)
        if figure.id != "events"
    }
    return {mark for mark in marks if mark.t in times}


def test_of_very_many_signs_the_figures_have_the_weightiest_however_late() -> None:
    notes = tuple(Mark(BEGAN + n * 1000, OTHER, f"note {n}") for n in range(150))
    late = (
        Mark(BEGAN + 200_000, PAUSE, "paused by an operator", BEGAN + 201_000),
        Mark(BEGAN + 202_000, LIMITS, "limits: P 4 -> 6"),
        Mark(BEGAN + 203_000, THROTTLE, "throttle: 50 MB/s -> 60 MB/s"),
        Mark(BEGAN + 204_000, BROKER, "broker 4 went down", BEGAN + 205_000),
        Mark(BEGAN + 205_000, BROKER, "broker 4 was back"),
    )

    shown = _signs_in_other_figures((*notes, *late))

    assert {*late} <= shown
    assert len(shown) == MOST_SIGNS


def test_a_broker_that_was_down_has_its_sign_among_very_many_changes() -> None:
    changes = tuple(Mark(BEGAN + n * 1000, LIMITS, f"change {n}") for n in range(150))
    blips = tuple(Mark(BEGAN + 150_000 + n, BROKER, "5 down", BEGAN + 151_000) for n in range(120))
    death = Mark(BEGAN + 300_000, BROKER, "broker 4 went down", BEGAN + 400_000)

    assert death in _signs_in_other_figures((*changes, death))
    assert death in _signs_in_other_figures((*changes, *blips, death))


def test_the_report_says_how_many_signs_are_in_the_figure_of_events_only() -> None:
    many = tuple(Mark(BEGAN + n * 1000, LIMITS, f"change {n}") for n in range(150))

    found = drawn(events_figure(msgspec.structs.replace(a_run(4), marks=many)))

    assert found.says.startswith("150 changes of limits")
    assert len(found.table.rows) == 150 + len(a_run(4).gaps)
    assert found.caption.endswith("; 50 signs are here only.")
    assert "here only" not in drawn(events_figure(a_run(4))).caption


def test_the_events_are_counted_and_listed_with_how_long_they_lasted() -> None:
    found = drawn(events_figure(a_run(24)))

    assert found.says == (
        "1 pause, 1 change of limits, 1 change of throttles, 1 broker that was down, 1 gap in the"
        " recording."
    )
    assert ("2026-05-04 13:03:00", "pauses", "paused by an operator", "30 s") in found.table.rows
    assert ("2026-05-04 13:06:00", "not recorded", "not recorded", "1m") in found.table.rows


def _happened(*found: tuple[float, events.AnyRunEvent]) -> list[Happened]:
    return [
        (RunEventRecord(t=BEGAN + int(at * MINUTE), event="", run="drain"), event)
        for at, event in found
    ]


def test_a_pause_lasts_until_it_is_lifted_or_the_report_ends() -> None:
    by = PauseOrigin.OPERATOR
    end = BEGAN + 9 * MINUTE

    marks = run_marks(
        _happened((1, Paused(by=by)), (3, Continued(by=by)), (5, Paused(by=by, reason="lunch"))),
        end,
        named=False,
    )

    assert [(mark.t - BEGAN) / MINUTE for mark in marks] == [1, 3, 5]
    assert [mark.until for mark in marks] == [BEGAN + 3 * MINUTE, None, end]
    assert {mark.kind for mark in marks} == {PAUSE}
    assert marks[2].says == "paused by an operator: lunch"


def test_a_pause_of_some_partitions_is_a_sign_without_a_length() -> None:
    some = Paused(by=PauseOrigin.OPERATOR, partitions=(TopicPartition("orders", 3),))

    (mark,) = run_marks(_happened((1, some)), BEGAN + MINUTE, named=False)

    assert mark.until is None
    assert "orders-3" in mark.says


def test_signs_of_a_cluster_name_the_run() -> None:
    changed = LimitsChanged(
        old=Limits(partitions=4), new=Limits(partitions=6), batch=1, in_flight=0
    )

    marks = run_marks(_happened((1, changed), (2, Noted(text="hello"))), BEGAN + HOUR, named=True)

    assert marks[0].says.startswith("drain: limits: P 4 -> 6")
    assert [mark.kind for mark in marks] == [LIMITS, OTHER]


def test_events_of_a_newer_ktui_are_left_out() -> None:
    known = events.encode(Noted(text="hello")).decode()
    rows = [
        RunEventRecord(t=2, event='{"event":"of-a-newer-ktui"}'),
        RunEventRecord(t=1, event=known),
    ]

    assert [row.t for row, _ in decoded(rows)] == [1]


def test_a_broker_is_down_from_the_first_poll_without_it_until_it_is_back() -> None:
    polls = [
        PollRecord(t=t, brokers=(1, 2, 3), alive=alive)
        for t, alive in ((0, (1, 2)), (10, (1, 2, 3)), (20, (2, 3)), (30, (2, 3)), (40, (1, 2, 3)))
    ]

    assert broker_marks(polls, 50) == [
        Mark(0, BROKER, "broker 3 was down when the recording began", 10),
        Mark(10, BROKER, "broker 3 was back"),
        Mark(20, BROKER, "broker 1 went down", 40),
        Mark(40, BROKER, "broker 1 was back"),
    ]
    assert broker_marks(polls[:3], 50)[-1].until == 50


@pytest.mark.parametrize(
    ("every_s", "holes", "found"),
    [
        (1, {(100, 105)}, []),
        (1, {(100, 130)}, [(100, 130)]),
        (15, {(90, 150)}, []),
        (15, {(90, 165)}, [(90, 165)]),
        (15, {(90, 180)}, [(90, 180)]),
        (30, {(90, 150)}, []),
    ],
)
def test_a_gap_is_much_longer_than_the_usual_time_between_two_polls(
    every_s: int, holes: set[tuple[int, int]], found: list[tuple[int, int]]
) -> None:
    times = [t * 1000 for t in range(0, 301, every_s) if not any(a < t < b for a, b in holes)]

    assert recording_gaps(times, (0, 300_000)) == [(a * 1000, b * 1000) for a, b in found]


def test_what_was_not_recorded_at_the_beginning_and_the_end_is_a_gap_too() -> None:
    assert recording_gaps(range(60_000, 120_000, 1000), (0, 180_000)) == [
        (0, 60_000), (119_000, 180_000),
    ]  # fmt: skip
    assert recording_gaps([], (0, 5000)) == [(0, 5000)]


def test_hours_in_which_nothing_moved_are_cut_out_of_all_axes_and_said_in_words() -> None:
    run = msgspec.structs.replace(a_run(4).runs[0], ended=BEGAN + 8 * HOUR)
    idle = ((BEGAN + 7 * MINUTE, BEGAN + 7 * HOUR),)
    facts = msgspec.structs.replace(a_run(4), runs=(run,), idle=idle, gaps=())

    for figure in _overlaid(facts):
        (cut,) = figure.layout["xaxis"]["rangebreaks"]
        assert cut["bounds"] == ["2026-05-04 13:07:00.000", "2026-05-04 20:00:00.000"]
    assert summary(facts).words[-1] == (
        "No move is known for 6h 53m, which figures over time leave out: 2026-05-04 13:07:00 to"
        " 2026-05-04 20:00:00 UTC."
    )


def test_only_hours_are_cut_out_and_some_time_stays_next_to_what_moved() -> None:
    day = (0, 24 * HOUR)

    assert idle_spans([(0, HOUR), (HOUR + 59 * MINUTE, 24 * HOUR)], day) == []
    ((since, to),) = idle_spans([(20 * HOUR, 24 * HOUR), (0, HOUR)], day)
    assert HOUR < since < HOUR + 15 * MINUTE
    assert 20 * HOUR - 15 * MINUTE < to < 20 * HOUR
