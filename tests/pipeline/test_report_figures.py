"""The contents of the figures of a report, over time too, and what they leave out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.dataset import Dataset, dataset

from ktui.insights import SIMULATE
from ktui.pipeline.lake.records import (
    InFlightCounts,
    InflowRecord,
    Interval,
    JudgedStall,
    LogEndRecord,
    MoveRecord,
    RateRecord,
    ReportFacts,
    Sample,
    Span,
)
from ktui.pipeline.report.figures import figure as names
from ktui.pipeline.report.figures.counts import concurrency_figure, states_figure
from ktui.pipeline.report.figures.figure import Figure, Missing
from ktui.pipeline.report.figures.forecasts import eta_figure, limits_words, what_if_figure
from ktui.pipeline.report.figures.lanes import moves_figure, stalls_figure
from ktui.pipeline.report.figures.overlay import with_overlay
from ktui.pipeline.report.figures.rates import brokers_figure, rates_figure
from ktui.pipeline.report.figures.sizes import lag, lag_figure
from ktui.pipeline.report.load import bin_ms, binned, inflow
from ktui.pipeline.report.page import FIGURES, summary
from ktui.progress.timeline import Cause
from support.pipeline.report_facts import BEGAN, MINUTE, a_run, drawn
from support.pipeline.report_lake import copying, dataset_of

MB = 1_000_000
EMPTY = ReportFacts(cluster_id="one", runs=(), of_run=False)


def _sample(**other: object) -> Sample:
    usual = {"topic": "orders", "partition": 0, "t": 0, "leader": 1, "isr": (1, 2), "adding": (4,)}
    return msgspec.convert({**usual, **other}, Sample)


@pytest.mark.parametrize("figure", FIGURES)
def test_the_drawing_library_accepts_each_figure(
    figure: Callable[[ReportFacts], Figure | Missing],
) -> None:
    found = drawn(with_overlay(figure(a_run()), a_run()))
    sent = msgspec.json.encode({"data": found.traces, "layout": found.layout})

    coloured = json.loads(re.sub(rb"var\(--[a-z0-9-]+\)", b"#123456", sent))

    go.Figure(coloured)
    assert found.says.endswith(".")
    assert found.caption.endswith(".")
    assert found.table.rows


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_without_recorded_data_is_replaced_by_a_sentence(
    figure: Callable[[ReportFacts], Figure | Missing],
) -> None:
    found = figure(EMPTY)

    assert isinstance(found, Missing)
    assert found.why.endswith(".")


def test_a_recorded_run_without_simulations_is_told_what_to_record_for_them() -> None:
    found = what_if_figure(msgspec.structs.replace(a_run(), what_ifs=()))

    assert isinstance(found, Missing)
    assert f"To do so: {SIMULATE}." in found.why


def test_the_longest_moves_have_lanes_and_the_caption_counts_the_rest() -> None:
    found = drawn(moves_figure(a_run(100)))

    assert (
        found.says
        == "The 40 slowest of 100 partitions. The longest move was that of orders-7: 4m 7s, 1 stall"
        " in it."
    )
    assert "60 faster ones are in the next figure only" in found.caption
    assert len(found.layout["yaxis"]["ticktext"]) == 40


def test_lanes_are_grouped_by_batch_and_every_other_batch_is_shaded() -> None:
    found = drawn(moves_figure(a_run(12)))

    assert [label.split(" ")[0] for label in found.layout["yaxis"]["ticktext"]] == [
        *"0000", *"1111", *"2222",
    ]  # fmt: skip
    assert [(s["y0"], s["y1"]) for s in found.layout["shapes"]] == [(3.5, 7.5)]


def test_the_batches_of_several_runs_are_not_mixed_in_the_lanes_of_a_cluster() -> None:
    facts = msgspec.structs.replace(a_run(12), of_run=False)

    found = drawn(moves_figure(facts))

    assert found.layout["yaxis"]["ticktext"][0] == "orders-0"
    assert found.layout["shapes"] == []


def test_an_unfinished_move_extends_to_the_end_of_the_recording() -> None:
    facts = a_run(4)
    unfinished = msgspec.structs.replace(facts.moves[0], ended=None, outcome="adding")
    facts = msgspec.structs.replace(facts, moves=(unfinished, *facts.moves[1:]), intervals=())

    bars = drawn(moves_figure(facts)).traces[0]

    ends = (base + took for base, took in zip(bars["base"], bars["x"], strict=True))
    assert max(ends) == facts.span[1]


def test_lag_is_the_distance_of_the_furthest_new_replica_from_its_leader() -> None:
    ends = (LogEndRecord(1, 100), LogEndRecord(4, 70), LogEndRecord(5, 90))

    assert lag(_sample(adding=(4, 5), ends=ends)) == 30
    assert lag(_sample(adding=(5,), ends=ends)) == 10
    assert lag(_sample(adding=(6,), ends=ends)) is None
    assert lag(_sample(leader=None, ends=ends)) is None
    assert lag(_sample(ends=(LogEndRecord(1, 100), LogEndRecord(4, 105)))) == 0


def test_each_slow_move_has_a_curve_with_its_own_style() -> None:
    found = drawn(lag_figure(a_run(24)))

    styles = {(trace["line"]["color"], trace["line"]["dash"]) for trace in found.traces[:8]}
    assert len(styles) == 8


def test_the_longest_move_is_one_move_and_not_all_moves_of_its_partition() -> None:
    facts = a_run(8)
    again = tuple(
        msgspec.structs.replace(
            facts.moves[0], began=BEGAN + n * MINUTE, ended=BEGAN + n * MINUTE + 1
        )
        for n in range(30, 40)
    )

    found = drawn(moves_figure(msgspec.structs.replace(facts, moves=(*facts.moves, *again))))

    assert found.says.endswith("The longest move was that of orders-7: 4m 7s, 1 stall in it.")
    assert "has all its moves in one lane" in found.caption


def _stall(seconds: int, cause: Cause) -> JudgedStall:
    ended = BEGAN + seconds * 1000
    stall = Interval(topic="other", partition=seconds, state="stalled", began=BEGAN, ended=ended)
    return JudgedStall(stall, cause)


def test_the_cause_of_every_stall_is_summed_up_though_only_the_longest_are_drawn() -> None:
    more = tuple(
        JudgedStall(
            Interval(
                topic="other", partition=n, state="stalled", began=BEGAN, ended=BEGAN + n * 1000
            ),
            Cause.UNKNOWN if n % 2 else Cause.THROTTLED,
        )
        for n in range(40, 0, -1)
    )
    facts = msgspec.structs.replace(a_run(12), stalls=(*a_run(12).stalls, *more))

    found = drawn(stalls_figure(facts))

    assert found.table.rows[0] == ("orders-7", "2026-05-04 13:03:40", "2m", "broker 4 was down")
    assert found.table.rows[1][:1] == ("other-40",)
    assert len(found.table.rows) == 41
    assert found.says == (
        "41 stalls, 15m 40s in all. By cause: throttled 7m (20), unknown 6m 40s (20), target broker"
        " down 2m (1)."
    )
    assert sum(len(trace["y"]) for trace in found.traces) == 30
    assert "the other 11 are in the sums and the table." in found.caption


@pytest.mark.parametrize(
    ("truth_s", "unit", "drawn_as"),
    [(40.0, "seconds", 40.0), (600.0, "minutes", 10.0), (20_000.0, "hours", 5.556)],
)
def test_the_time_left_is_drawn_in_seconds_minutes_or_hours(
    truth_s: float, unit: str, drawn_as: float
) -> None:
    run = a_run(24)
    guesses = [msgspec.structs.replace(guess, truth_s=truth_s) for guess in run.guesses]

    found = drawn(eta_figure(msgspec.structs.replace(run, guesses=tuple(guesses))))

    assert found.layout["yaxis"]["title"]["text"] == f"time left, {unit}"
    assert found.traces[-1]["y"][0] == drawn_as


def test_the_eta_figure_compares_ktui_with_the_truth_and_naive_forecasts_half_way() -> None:
    found = drawn(eta_figure(a_run(24)))

    assert found.says == (
        "At half way the prediction was off by 10% (median); the naive ways by 60% stretched"
        " and 50% at the last rate."
    )
    assert found.layout["yaxis"]["range"][1] < 2 * 18


def test_limits_beyond_the_recorded_range_get_a_note_instead_of_a_time() -> None:
    facts = a_run()
    why = ("16 partitions at once, and 4 at most were recorded",)
    tried = tuple(
        msgspec.structs.replace(
            one,
            recommended=False,
            beyond=() if one.own else why,
            reason="2 runs have to be recorded" if one.own else None,
            record="--partitions 16" if one.own else None,
            assumed=("no time beside copying",) if one.own else ("50 MB/s into a broker",),
        )
        for one in facts.what_ifs
    )

    found = drawn(what_if_figure(msgspec.structs.replace(facts, what_ifs=tried)))

    assert "None is recommended: 2 runs have to be recorded." in found.says
    assert found.says.endswith("Assumed, as no recording shows it: no time beside copying.")
    assert found.commands == ("ktui start PLAN --partitions 16", SIMULATE)
    (heat,) = found.traces
    assert [z for row in heat["z"] for z in row if z is not None] == [7200 / 4 + 600]
    assert [text for row in heat["text"] for text in row if text] == ["40m ●"]
    assert found.table is not None
    cells = [cell for row in found.table.rows for cell in row]
    assert cells.count(why[0]) == len(tried) - 1
    assert sum("40m" in cell for cell in cells) == 1


def test_the_example_report_names_its_origin_and_has_a_recommendation_and_what_to_record() -> None:
    example = (Path(__file__).parents[2] / "docs" / "example-report.html").read_text()

    assert "from a simulated cluster of six brokers" in example
    assert "Recommended is " in example
    assert "To know more, record such a run" in example


def test_the_recommended_limits_are_named_with_their_reason() -> None:
    found = drawn(what_if_figure(a_run()))

    assert found.says == (
        "16 combinations of limits and throttle played through.\n"
        "The run took 18m; as it was started, 40m are predicted for it.\n"
        "Recommended is P8, throttle 100 MB/s: the gentlest that fits 30 minutes.\n"
        "Predicted from other runs only, it is off by 12%.\n"
        "Assumed, as no recording shows it: 30 MB/s into a broker without a throttle."
    )
    cells = [cell for row in found.traces[0]["text"] for cell in row]
    assert [cell for cell in cells if "★" in cell or "●" in cell] == ["40m ●", "20m ★"]


def test_what_held_a_run_up_stands_beside_the_time_it_took() -> None:
    facts = a_run()
    tried = tuple(
        msgspec.structs.replace(one, disturbed=("it was paused",) if one.own else ())
        for one in facts.what_ifs
    )

    found = drawn(what_if_figure(msgspec.structs.replace(facts, what_ifs=tried)))

    assert "The run took 18m (it was paused); as it was started, 40m are predicted" in found.says


def test_a_driven_run_has_a_column_of_its_own_and_its_promises_are_named() -> None:
    facts = a_run()
    tried = tuple(
        msgspec.structs.replace(one, driven_by="by, objective", throttle="none") if one.own else one
        for one in facts.what_ifs
    )

    found = drawn(what_if_figure(msgspec.structs.replace(facts, what_ifs=tried)))

    assert found.layout["xaxis"]["ticktext"][-1] == "as driven"
    assert [row[-1] for row in found.traces[0]["text"]] == ["", "40m ●", "", ""]
    assert "with the rates over time that --by and the objective chose" in found.says
    assert "'as driven'" in found.caption


def test_other_limits_are_ordered_from_strict_to_loose() -> None:
    facts = a_run()
    mixed = tuple(sorted(facts.what_ifs, key=lambda one: one.limits))

    layout = drawn(what_if_figure(msgspec.structs.replace(facts, what_ifs=mixed))).layout

    assert layout["yaxis"]["ticktext"] == ["P2", "P4", "P8", "P16"]
    assert layout["xaxis"]["ticktext"] == [
        "none", "100 MB/s", "50 MB/s", "20 MB/s",
    ]  # fmt: skip


def test_throttles_are_shown_with_their_unit_however_they_were_given() -> None:
    facts = a_run()
    given = {"100MB": "400000", "50MB": "50MB,3=20MB"}
    tried = tuple(
        msgspec.structs.replace(one, throttle=given.get(one.throttle, one.throttle))
        for one in facts.what_ifs
    )

    layout = drawn(what_if_figure(msgspec.structs.replace(facts, what_ifs=tried))).layout

    assert layout["xaxis"]["ticktext"] == ["none", "50MB,3=20MB", "20 MB/s", "400 kB/s"]


def test_limits_are_named_by_their_letters() -> None:
    limits = (
        '{"partitions":5,"replica_movements":10,"shape":"gentle","mode":"rolling","replicas":null}'
    )

    assert limits_words(limits) == "P5 M10 gentle rolling"
    assert limits_words("{}") == "no limit"


def test_the_summary_describes_the_outcome_of_the_run() -> None:
    made = summary(msgspec.structs.replace(a_run(24), cluster_id="one"))

    assert made.title == "Run drain-4"
    assert made.words == (
        "plan.json on cluster one, from 2026-05-04 13:00:00 to 2026-05-04 13:18:00 UTC, 18m.",
        "24 moves of partitions: 24 done. 22 GiB were copied.",
        "Held p99<150ms in 57 of 60 windows (95%). Done 3m before 2026-05-04 13:21:00 UTC.",
        "1 partition stood still, 1 time, 2m in all.",
        "Not recorded: 1m in 1 gap. Nothing is known of that time but a run's own events.",
    )
    assert dict(made.figures)["median rate of a replica"] == "8.0 MB/s"


def test_the_summary_says_at_least_where_a_replicas_size_was_never_seen() -> None:
    first, *others = a_run(24).moves
    unseen = msgspec.structs.replace(first, original=(1, 2), target=(3, 2), bytes=None)

    made = summary(msgspec.structs.replace(a_run(24), moves=(unseen, *others)))

    assert "At least 21 GiB were copied." in made.words[1]
    assert dict(made.figures)["copied"] == "≥ 21 GiB"


def test_the_summary_of_an_unfinished_run_states_that_it_had_not_ended() -> None:
    facts = a_run(4)
    run = msgspec.structs.replace(facts.runs[0], ended=None, partitions=6)
    unfinished = msgspec.structs.replace(facts.moves[0], ended=None, outcome="adding")
    facts = msgspec.structs.replace(facts, runs=(run,), moves=(unfinished, *facts.moves[1:]))

    made = summary(facts).words

    assert made[0].endswith("It had not ended when the recording did.")
    assert made[1].startswith("4 moves of partitions: 3 done, 1 adding.")
    assert made[1].endswith("Of the plan, 2 partitions never began.")


def _promised(**changed: object) -> str:
    """Return what the summary says of the promises of a run with these facts."""
    facts = a_run(4)
    none: dict[str, object] = dict.fromkeys(("objective", "windows", "kept", "by", "late_ms"))
    run = msgspec.structs.replace(facts.runs[0], **{**none, **changed})
    return summary(msgspec.structs.replace(facts, runs=(run,))).words[2]


def test_the_summary_states_whether_a_run_kept_its_promises() -> None:
    by = BEGAN + 60 * MINUTE

    assert _promised() == "No move stood still for 30 seconds."
    assert _promised(by=by, late_ms=4 * MINUTE) == (
        "Done 4m late: it was to be done by 2026-05-04 14:00:00 UTC."
    )
    assert _promised(by=by) == "It was to be done by 2026-05-04 14:00:00 UTC."
    assert _promised(objective="lag<5000") == "Nothing was measured of lag<5000."


def test_the_rate_is_drawn_by_the_one_who_chose_it_with_gaps_where_another_did() -> None:
    found = drawn(rates_figure(a_run(24)))
    by = next(trace for trace in found.traces if trace["name"] == "rate by --by")

    assert {trace["name"] for trace in found.traces} == {
        "rate by the objective", "rate by --by", "p99", "p99&lt;150ms",
    }  # fmt: skip
    assert {rate for rate in by["y"] if rate is not None} == {30_000_000}
    assert None in by["y"]
    assert found.says == (
        "The rate was 1.0 MB/s to 30 MB/s; while steps were in flight it was chosen 14m by the"
        " objective and 4m by --by. The figure p99 was 195ms at most, and missing 4 times."
    )


def test_times_without_a_figure_are_gaps_beside_the_objective() -> None:
    facts = msgspec.structs.replace(a_run(24), gaps=())
    figure, objective = drawn(rates_figure(facts)).traces[-2:]

    assert figure["y"].count(None) == 4
    assert "connectgaps" not in figure
    assert {*objective["y"]} == {150.0}


def test_an_operators_throttle_is_drawn_without_figures() -> None:
    rate = RateRecord(entry=1, t=BEGAN, kind="started", bytes_s=MB, chosen_by="operator")

    found = drawn(rates_figure(msgspec.structs.replace(a_run(4), rates=(rate,), gaps=())))

    (line,) = found.traces
    assert (line["name"], line["y"]) == ("rate by an operator", [MB, MB])
    assert found.says == "The rate was 1.0 MB/s."


def test_a_run_without_any_rate_has_no_figure_of_rates() -> None:
    rate = RateRecord(entry=1, t=BEGAN, kind="started")

    found = rates_figure(msgspec.structs.replace(a_run(4), rates=(rate,)))

    assert isinstance(found, Missing)


def test_the_summary_of_a_quiet_cluster_is_one_sentence() -> None:
    assert summary(EMPTY).words == ("No partition has moved.",)


@settings(deadline=None)
@given(st.text())
def test_no_name_is_ever_markup_to_the_drawing_library(name: str) -> None:
    shown = names.without_markup(name)

    assert "<" not in shown
    assert ">" not in shown
    assert shown.isprintable()


def test_a_long_name_keeps_its_beginning_and_its_end() -> None:
    row = _sample(topic="orders-of-the-eastern-warehouse", partition=117)

    assert names.short_partition_name(row) == "orders-of-the…arehouse-117"
    assert len(names.short_partition_name(row)) == 26


def test_the_span_of_a_report_ends_with_the_run() -> None:
    assert a_run(4).span == (BEGAN, BEGAN + 8 * MINUTE)


ALL = pc.scalar(value=True)


class _Samples:
    """A lake of samples alone."""

    def __init__(self, samples: Dataset) -> None:
        self._samples = samples

    def dataset(self, table: str) -> Dataset | None:
        return self._samples if table == "samples" else None


def _received(
    samples: Iterable[Mapping[str, Any]], gaps: Sequence[Span] = ()
) -> dict[tuple[int, int], float]:
    """Return the bytes by broker and bar, in seconds, of bars of 5 s."""
    found = binned(dataset_of("samples", samples), ALL, gaps, 5_000)
    return {(one.broker, one.began // 1_000): one.bytes_in for one in found if one.bytes_in}


def test_bytes_are_spread_over_the_time_between_two_readings() -> None:
    assert _received([copying(4_000, 100), copying(8_000, 140)]) == {(4, 0): 30, (4, 5): 90}


def test_only_what_a_replica_grew_while_it_was_added_is_copied() -> None:
    already_there = copying(3_000, 50, adding=[], removing=[3])
    not_yet_again = copying(3_000, 50, adding=[], removing=[])

    assert _received([copying(1_000, 10), copying(2_000, 11), copying(3_000, 50)]) == {(4, 0): 120}
    for between in (already_there, not_yet_again):
        samples = [copying(1_000, 10), copying(2_000, 11), between, copying(4_000, 90)]
        assert _received([*samples, copying(4_500, 91)]) == {(4, 0): 6}


def test_what_was_truncated_skipped_or_read_long_ago_is_no_copy() -> None:
    assert _received([copying(1_000, 10), copying(2_000, 9)]) == {}
    assert _received([copying(1_000, 10), copying(2_000, 70, log_start=60)]) == {}
    assert _received([copying(1_000, 10), copying(61_001, 70)]) == {}
    assert _received([copying(1_000, 10), copying(2_000, 70, leader=None)]) == {}


def test_what_grew_across_a_gap_in_the_recording_is_left_out() -> None:
    samples = [copying(1_000, 10), copying(2_000, 11), copying(32_000, 90), copying(33_000, 91)]

    assert _received(samples, [(2_000, 32_000)]) == {(4, 0): 3, (4, 30): 3}


def test_partitions_and_topics_of_the_same_name_are_told_apart() -> None:
    samples = [
        copying(t, t + n, topic_id=topic_id, partition=n)
        for t in (1_000, 2_000)
        for n, topic_id in enumerate(("a", "b", None))
    ]

    assert _received(samples) == {(4, 0): 3 * 1_000 * 3}


def test_a_bar_has_the_highest_throttle_that_was_seen_in_it() -> None:
    rates = ((1_000, 7, 70), (2_000, 7, 90), (6_000, 7, 80), (6_000, 8, None))
    samples = [
        copying(t, 0, adding=[], rates=[{"broker": broker, "follower": rate, "leader": 1}])
        for t, broker, rate in rates
    ]

    assert binned(dataset_of("samples", samples), ALL, (), 5_000) == [
        InflowRecord(broker=7, began=0, follower_throttle=90),
        InflowRecord(broker=7, began=5_000, follower_throttle=80),
    ]


def test_a_run_of_two_minutes_has_bars_of_seconds_however_much_moves() -> None:
    one = dataset_of("samples", [copying(t, t) for t in range(0, 2 * MINUTE, 1_000)]).to_table()
    place = one.schema.get_field_index("partition")
    many = pa.concat_tables(
        one.set_column(place, "partition", pa.array([n] * len(one), pa.int32()))
        for n in range(1_000)
    )
    minutes = [InflowRecord(broker=4, began=t, bytes_in=1.0) for t in (0, MINUTE)]
    bins = bin_ms(2 * MINUTE)

    found = inflow(_Samples(dataset(many)), minutes, ALL, (), bins)

    assert bins == 5_000
    assert [bar.began for bar in found] == list(range(0, 2 * MINUTE, 5_000))
    assert sum(bar.bytes_in or 0 for bar in found) == pytest.approx(1_000 * 119_000 * 3)


_WAITED = (Interval(topic="t", partition=0, state="queued", began=BEGAN - MINUTE, ended=BEGAN),)


def _move(partition: int, minutes: tuple[float, float]) -> MoveRecord:
    began, ended = (BEGAN + int(minute * MINUTE) for minute in minutes)
    return MoveRecord(
        topic="t", partition=partition, began=began, ended=ended, outcome="done", steps=1
    )


def test_every_partition_is_counted_once_in_the_states() -> None:
    found = drawn(states_figure(msgspec.structs.replace(a_run(24), gaps=())))

    counts = [sum(of) for of in zip(*(trace["y"] for trace in found.traces), strict=True)]
    assert set(counts) == {24}
    assert (
        found.says
        == "At most 20 queued, 4 catching up, 1 stalled at a time. In the end 24 of 24 partitions"
        " had ended."
    )


def test_a_move_unseen_for_a_while_is_still_counted() -> None:
    facts = msgspec.structs.replace(a_run(24), gaps=())
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
