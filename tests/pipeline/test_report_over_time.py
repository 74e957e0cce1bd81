"""Figures over time in the report: states, concurrency, and bytes into brokers."""

from __future__ import annotations

import msgspec
import pytest

from ktui.pipeline.lake.records import (
    InFlightCounts,
    InflowRecord,
    Interval,
    MoveRecord,
    ReportFacts,
)
from ktui.pipeline.report.figures.rates import brokers_figure
from ktui.pipeline.report.figures.states import concurrency_figure, states_figure
from support.pipeline.report_facts import BEGAN, MINUTE, a_run, drawn

_WAITED = (Interval(topic="t", partition=0, state="queued", began=BEGAN - MINUTE, ended=BEGAN),)


def _move(partition: int, minutes: tuple[float, float]) -> MoveRecord:
    began, ended = (BEGAN + int(minute * MINUTE) for minute in minutes)
    return MoveRecord(
        topic="t", partition=partition, began=began, ended=ended, outcome="done", steps=1
    )


def test_every_partition_is_counted_once_in_the_states() -> None:
    found = drawn(states_figure(a_run(24)))

    counts = [sum(of) for of in zip(*(trace["y"] for trace in found.traces), strict=True)]
    assert set(counts) == {24}
    assert (
        found.says
        == "At most 20 queued, 4 catching up, 1 stalled at a time. In the end 24 of 24 partitions"
        " had ended."
    )


def test_a_move_unseen_for_a_while_is_still_counted() -> None:
    facts = a_run(24)
    seen = tuple(i for i in facts.intervals if i.state not in {"adding", "in sync"})

    found = drawn(states_figure(msgspec.structs.replace(facts, intervals=seen)))

    assert "no state seen" in [trace["name"] for trace in found.traces]
    counts = [sum(of) for of in zip(*(trace["y"] for trace in found.traces), strict=True)]
    assert set(counts) == {24}


def test_a_partition_stopped_before_its_move_has_ended_but_a_queued_one_has_not() -> None:
    facts = a_run(24)
    until = facts.span[1] - MINUTE
    stopped = Interval(
        topic="payments", partition=5, state="queued", began=facts.span[0], ended=until
    )
    waits = Interval(
        topic="payments", partition=6, state="queued", began=facts.span[0], ended=until, open=True
    )
    facts = msgspec.structs.replace(facts, intervals=(*facts.intervals, stopped, waits))

    found = drawn(states_figure(facts))

    assert next(trace["y"][-1] for trace in found.traces if trace["name"] == "ended") == 25
    assert found.says.endswith("In the end 25 of 26 partitions had ended, after 24 moves in all.")


def test_a_partition_that_moved_four_times_has_ended_once() -> None:
    moves = tuple(_move(0, (10 * n, 10 * n + 5)) for n in range(4))
    facts = ReportFacts(cluster_id="one", runs=(), of_run=False, moves=moves, intervals=_WAITED)

    found = drawn(states_figure(facts))

    ended = next(trace for trace in found.traces if trace["name"] == "ended")
    between = [n for t, n in zip(ended["x"], ended["y"], strict=True) if t == BEGAN + 7 * MINUTE]
    assert (max(ended["y"]), between) == (1, [1])
    assert found.says.endswith("In the end 1 of 1 partition had ended, after 4 moves in all.")


def test_peak_concurrency_is_drawn_against_the_limits_of_the_time() -> None:
    facts = a_run(8)
    peak = InFlightCounts(BEGAN + 61_500, 9, 31)
    facts = msgspec.structs.replace(
        facts, in_flight=tuple(sorted([*facts.in_flight, peak], key=lambda seen: seen.t))
    )

    found = drawn(concurrency_figure(facts))

    traces = {trace["name"]: trace for trace in found.traces}
    assert traces["limit of partitions"]["y"] == [4, 4, 6, 6, None, 6, 6]
    assert traces["limit of replicas"]["y"] == [10, 10, 12, 12, None, 12, 12]
    assert max(count for count in traces["replicas"]["y"] if count is not None) == 31
    assert "31 replicas were under way at a time; the limits were changed 1 time" in found.says


def test_no_limit_line_is_drawn_without_recorded_limits() -> None:
    facts = msgspec.structs.replace(a_run(8), limits=())

    found = drawn(concurrency_figure(facts))

    assert [trace["name"] for trace in found.traces] == ["partitions", "replicas"]
    assert "no limits of the run were recorded" in found.says


def test_the_busiest_brokers_have_strips_of_one_scale_and_the_rest_is_counted() -> None:
    minutes = tuple(
        InflowRecord(broker=broker, began=BEGAN, bytes_in=60e6 * broker) for broker in range(1, 12)
    )

    found = drawn(brokers_figure(msgspec.structs.replace(a_run(4), inflow=minutes)))

    strips = [found.layout[name] for name in found.layout if name.startswith("yaxis")]
    assert [strip["title"]["text"] for strip in strips] == [f"broker {n}" for n in range(4, 12)]
    assert len({tuple(strip["range"]) for strip in strips}) == 1
    assert (
        found.says == "Copies went into 11 brokers; broker 11 took in the most at a time, 11 MB/s."
    )
    assert "3 brokers that took in less left out" in found.caption


def test_the_throttle_line_follows_time_and_breaks_at_unrecorded_minutes() -> None:
    minutes = [
        InflowRecord(broker=4, began=BEGAN + place * MINUTE, bytes_in=60e6, follower_throttle=rate)
        for place, rate in ((0, 2_000_000), (1, 3_000_000), (3, 3_000_000))
    ]
    mixed = (minutes[2], minutes[0], minutes[1])

    found = drawn(brokers_figure(msgspec.structs.replace(a_run(4), inflow=mixed)))

    line = next(trace for trace in found.traces if trace["name"] == "throttle")
    assert [(t - BEGAN) // MINUTE for t in line["x"]] == [0, 1, 1, 2, 3, 3, 4]
    assert line["y"] == [2_000_000, 2_000_000, 3_000_000, 3_000_000, None, 3_000_000, 3_000_000]


def test_a_throttle_far_above_the_copied_bytes_does_not_flatten_the_strips() -> None:
    minute = InflowRecord(broker=4, began=BEGAN, bytes_in=60e6, follower_throttle=10**12)

    found = drawn(brokers_figure(msgspec.structs.replace(a_run(4), inflow=(minute,))))

    assert found.layout["yaxis"]["range"][1] == pytest.approx(1.08e6)
