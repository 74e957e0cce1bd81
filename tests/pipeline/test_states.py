"""The table `states`: states of partitions, as defined in docs/pipeline-tables.md."""

from __future__ import annotations

from collections import defaultdict

import pytest
from pyspark.sql import DataFrame, SparkSession

from ktui.execution.run.events import Added, CancelAsked, Ended, Joined, OnConflict, PlannedPart
from ktui.execution.run.states import CancelKind, State
from ktui.pipeline.lake.tables import STATES
from ktui.pipeline.tables.listings import intervals, listed_samples
from ktui.pipeline.tables.moves import states
from ktui.pipeline.tables.runs import run_folds
from support.pipeline.lake_rows import assert_documented
from support.pipeline.sampled import (
    RUN,
    Row,
    ScriptedRun,
    elect,
    moment,
    ms,
    now,
    over,
    planned,
    resting,
    sample,
    second,
    started,
    step,
    tp,
)

history = ScriptedRun()


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    spans = intervals(listed_samples(history.samples(spark)))
    return states(spans, run_folds(history.run_events(spark)))


Rows = dict[str, list[Row]]
Spans = dict[str, list[tuple[str, float | None, float | None]]]
"""By topic: a state, the seconds at which it began and ended."""


@pytest.fixture(scope="module")
def rows(table: DataFrame) -> Rows:
    by_topic: Rows = defaultdict(list)
    for row in table.orderBy("topic", "partition", "began_t", "ended_t", "state").collect():
        by_topic[row.topic].append(row.asDict())
    return by_topic


@pytest.fixture(scope="module")
def spans(rows: Rows) -> Spans:
    spans: Spans = defaultdict(list)
    for topic, of_topic in rows.items():
        for row in of_topic:
            spans[topic].append((row["state"], second(row["began_t"]), second(row["ended_t"])))
    return spans


def grown(*ends: tuple[float, int]) -> str:
    """Record log ends of broker 4 at some seconds; the leader is far ahead."""
    return history.seen(*(sample(at, ends={1: 10_000, 4: end}) for at, end in ends))


standing_still = grown((0, 10), (10, 20), (20, 20), (39, 20), (40, 20), (50, 20))


def test_a_replica_whose_log_end_stands_still_for_thirty_seconds_is_stalled(spans: Spans) -> None:
    assert spans[standing_still] == [("catching up", 0, 20), ("stalled", 20, 50)]


growing_again = grown((0, 10), (30, 10), (45, 10), (46, 11), (50, 12))


def test_a_stalled_partition_catches_up_again_as_soon_as_its_replica_grows(spans: Spans) -> None:
    assert spans[growing_again] == [
        ("catching up", 0, 30),
        ("stalled", 30, 46),
        ("catching up", 46, 50),
    ]


unread = history.seen(
    sample(0, ends={1: 10}), sample(50, ends={1: 20}), sample(80, ends={4: 0}), sample(81)
)


def test_a_partition_is_adding_until_a_log_end_of_a_missing_replica_is_read(spans: Spans) -> None:
    assert spans[unread] == [("adding", 0, 80), ("catching up", 80, 81)]


in_sync = history.seen(
    sample(0, ends={4: 1}), sample(5, isr=(1, 2, 3, 4)), sample(6, adding=()), resting(9)
)


def test_a_partition_is_in_sync_from_its_last_added_replica_until_it_is_unlisted(
    spans: Spans,
) -> None:
    assert spans[in_sync] == [("catching up", 0, 5), ("in sync", 5, 9)]


one_of_two = history.seen(
    *(sample(at, adding=(4, 5), ends={4: 7, 5: at * 10}) for at in (0, 20, 40, 50))
)


def test_a_partition_with_one_growing_missing_replica_is_not_stalled(spans: Spans) -> None:
    assert spans[one_of_two] == [("catching up", 0, 50)]


only_others = history.seen(
    *(
        sample(at, adding=(4, 5), isr=(1, 2, 3, 5), ends={1: at * 9, 4: 7, 5: at * 9})
        for at in (0, 20, 40, 50)
    )
)


def test_growth_of_in_sync_replicas_is_no_progress_for_the_missing_one(spans: Spans) -> None:
    assert spans[only_others] == [("catching up", 0, 20), ("stalled", 20, 50)]


second_begins = history.seen(
    sample(0, adding=(4, 5), ends={4: 7}),
    sample(29, adding=(4, 5), ends={4: 7, 5: 0}),
    sample(58, adding=(4, 5), ends={4: 7, 5: 0}),
    sample(59, adding=(4, 5), ends={4: 7, 5: 0}),
)


def test_the_first_log_end_of_another_replica_is_progress(spans: Spans) -> None:
    assert spans[second_begins] == [("catching up", 0, 58), ("stalled", 58, 59)]


forgotten = history.seen(sample(0, ends={4: 7}), sample(10), sample(20, ends={4: 7}), sample(30))


def test_the_same_log_end_read_again_after_a_pause_is_no_progress(spans: Spans) -> None:
    assert spans[forgotten] == [("catching up", 0, 10), ("stalled", 10, 30)]


undescribed = history.seen(
    sample(0, ends={4: 7}),
    sample(10, ends={4: 7}, described=False, isr=()),
    sample(20, ends={4: 7}),
    sample(30, ends={4: 7}),
    sample(31, ends={4: 7}),
)


def test_a_poll_without_metadata_ends_an_interval_but_not_the_stall_timer(spans: Spans) -> None:
    expected = [("catching up", 0, 10), ("stalled", 20, 31)]
    assert spans[undescribed] == expected


a_minute = history.seen(sample(0, ends={4: 7}), sample(60, ends={4: 9}), sample(120, isr=(4,)))
longer = history.seen(sample(0, ends={4: 7}), sample(10, ends={4: 8}), sample(70.001), sample(71))


def test_samples_a_minute_apart_are_continuous(spans: Spans) -> None:
    assert spans[a_minute] == [("catching up", 0, 120), ("in sync", 120, 120)]


def test_a_gap_longer_than_a_minute_has_no_state_and_restarts_the_intervals(spans: Spans) -> None:
    assert spans[longer] == [("catching up", 0, 10), ("adding", 70.001, 71)]


def test_only_an_interval_that_reaches_the_last_sample_is_open(rows: Rows) -> None:
    assert [row["open"] for row in rows[longer]] == [False, True]
    assert [row["open"] for row in rows[in_sync]] == [False, False]
    assert [row["open"] for row in rows[standing_still]] == [False, True]


twice = history.seen(sample(0), sample(1), resting(2), sample(3), sample(4))


def test_a_partition_that_is_moved_again_has_two_intervals(spans: Spans) -> None:
    assert spans[twice] == [("adding", 0, 2), ("adding", 3, 4)]


never_listed = history.seen(resting(0), resting(1))


def test_a_partition_at_rest_is_in_no_state(spans: Spans) -> None:
    assert spans[never_listed] == []


beside = history.seen(sample(0), sample(1), sample(1.5, isr=(4,), shadowed=True), sample(2))


def test_a_shadowed_sample_changes_nothing(spans: Spans) -> None:
    assert spans[beside] == [("adding", 0, 2)]


recreated = history.seen(
    sample(0, topic_id="one"), sample(1, topic_id="one"), sample(2, topic_id="two"), sample(3)
)


def test_a_recreated_topic_is_a_different_topic(rows: Rows) -> None:
    found = [(row["topic_id"], second(row["began_t"])) for row in rows[recreated]]
    assert found == [("one", 0), ("two", 2), (None, 3)]


siblings = history.seen(sample(0), sample(1, partition=1), sample(2), sample(3, partition=1))


def test_partitions_are_kept_apart(rows: Rows) -> None:
    found = [(r["partition"], r["began_t"], r["ended_t"]) for r in rows[siblings]]
    assert found == [(0, ms(0), ms(2)), (1, ms(1), ms(3))]


adopted = history.seen(
    *(sample(at, ends={4: 10 * at}) for at in (0, 10)),
    *(sample(at, isr=(4,)) for at in (20, 30)),
    *(sample(at, ends={4: 10 * at}) for at in (31, 32)),
    resting(40),
)
history.ran(
    (1, started()), (2, planned(adopted)), (20, step(adopted)), (30, over(adopted)),
    (30, now(adopted)), run_id="taking-up",
)  # fmt: skip


def test_an_interval_belongs_to_the_run_with_a_step_in_flight_at_its_beginning(rows: Rows) -> None:
    found = [(row["state"], row["run_id"]) for row in rows[adopted]]
    assert found == [
        ("catching up", None),
        ("queued", "taking-up"),
        ("in sync", "taking-up"),
        ("catching up", None),
    ]
    assert {row["run"] for row in rows[adopted] if row["run_id"]} == {RUN}


fought_over = history.seen(sample(10), sample(11))
for run_id, second_of_step in (("b-first", 3), ("c-last", 5), ("a-last", 5)):
    history.ran(
        (0, started()), (1, planned(fought_over)), (second_of_step, step(fought_over)),
        run_id=run_id,
    )  # fmt: skip


def test_an_interval_belongs_to_the_run_that_stepped_last(rows: Rows) -> None:
    found = [row["run_id"] for row in rows[fought_over] if row["state"] == "adding"]
    assert found == ["a-last"]


whole_run = history.topic()
history.ran(
    (0, started()), (1, planned(whole_run)),
    (5, step(whole_run)), (7, elect(whole_run)), (8, elect(whole_run)), (9, over(whole_run)),
    (12, step(whole_run, 2)), (20, over(whole_run)), (20, now(whole_run)),
    (21, Ended(counts={State.DONE: 1})),
    run_id="whole",
)  # fmt: skip


def test_a_partition_of_a_run_is_queued_then_electing_then_between_steps(spans: Spans) -> None:
    assert spans[whole_run] == [("queued", 1, 5), ("electing", 7, 9), ("between steps", 9, 12)]


left_waiting = history.topic()
history.ran((0, started()), (1, planned(left_waiting)), (30, started()), run_id="left")


def test_a_partition_still_queued_when_the_recording_ends_is_open(rows: Rows) -> None:
    found = [(row["state"], row["ended_t"], row["open"]) for row in rows[left_waiting]]
    assert found == [("queued", ms(30), True)]


still_electing = history.topic()
history.ran(
    (0, started()), (1, planned(still_electing)), (2, step(still_electing)),
    (4, elect(still_electing)), (5, now(still_electing, State.STALLED)),
    (6, elect(still_electing)), run_id="electing",
)  # fmt: skip


def test_an_election_ends_with_the_next_state_or_lasts_to_the_last_event(rows: Rows) -> None:
    found = [
        (row["began_t"], row["ended_t"], row["open"])
        for row in rows[still_electing]
        if row["state"] == "electing"
    ]
    assert found == [(ms(4), ms(5), False), (ms(6), ms(6), True)]


stopped = history.topic()
history.ran(
    (0, started()), (1, planned(stopped)),
    (9, CancelAsked(kind=CancelKind.STOP, partitions=(tp(stopped),))), (20, started()),
    run_id="stopped",
)  # fmt: skip


def test_a_partition_cancelled_in_the_queue_is_no_longer_queued(rows: Rows) -> None:
    assert [(row["ended_t"], row["open"]) for row in rows[stopped]] == [(ms(9), False)]


stopped_half_way = history.topic()
history.ran(
    (0, started()), (1, planned(stopped_half_way)), (2, step(stopped_half_way)),
    (3, CancelAsked(kind=CancelKind.STOP, partitions=(tp(stopped_half_way),))),
    (4, over(stopped_half_way)),
    (50, CancelAsked(kind=CancelKind.ROLLBACK, partitions=(tp(stopped_half_way),))),
    (60, step(stopped_half_way, 2)), run_id="stopped-half-way",
)  # fmt: skip


def test_a_stopped_partition_is_not_between_steps(spans: Spans) -> None:
    assert spans[stopped_half_way] == [("queued", 1, 2)]


ended_by_the_run = history.topic()
history.ran(
    (0, started()), (1, planned(ended_by_the_run)), (7, Ended(counts={})), (8, started()),
    run_id="ended",
)  # fmt: skip


def test_nothing_is_queued_after_the_end_of_its_run(rows: Rows) -> None:
    assert [(row["ended_t"], row["open"]) for row in rows[ended_by_the_run]] == [(ms(7), False)]


joining, extra = history.topic(), history.topic()
both = PlannedPart(partitions=(*planned(joining).partitions, *planned(extra).partitions))
history.ran(
    (0, started()), (1, planned(joining)), (2, step(joining)), (3, over(joining)),
    (3, now(joining)),
    (10, Added(plan="more.json", plan_sha256="0", partitions=2, on_conflict=OnConflict.KEEP)),
    (11, both), (14, Joined(partitions=(tp(joining),))), (15, step(joining, 2)),
    (16, step(extra, 2)), run_id="joining",
)  # fmt: skip


def test_partitions_of_an_extra_plan_are_queued_from_the_moment_the_run_accepts_it(
    spans: Spans,
) -> None:
    assert spans[extra] == [("queued", 11, 16)]
    assert spans[joining] == [("queued", 1, 2), ("queued", 14, 15)]


headless = history.topic()
history.ran(
    (5, over(headless)), (9, step(headless)), (12, elect(headless)), (13, now(headless)),
    run_id="headless",
)  # fmt: skip


def test_a_run_with_an_unrecorded_beginning_reports_what_it_can(spans: Spans) -> None:
    assert spans[headless] == [("between steps", 5, 9), ("electing", 12, 13)]


readable = history.topic()
history.ran((0, started()), (1, planned(readable)), run_id="newer")
history.recorded(2, 3, '{"event":"of-a-newer-ktui"}', run_id="newer")
history.recorded(3, 4, '{"event":"step","topic":7}', run_id="newer")


def test_events_unreadable_by_this_version_are_left_out(rows: Rows) -> None:
    assert [(row["state"], row["ended_t"]) for row in rows[readable]] == [("queued", ms(1))]


set_back = history.topic()
history.ran((10, started()), (10, planned(set_back)), (7, step(set_back)), run_id="set-back")


def test_no_interval_ends_before_it_begins_even_if_recorder_clocks_differ(spans: Spans) -> None:
    assert spans[set_back] == [("queued", 10, 10)]


def test_timestamps_match_the_times_and_the_date_is_that_of_the_beginning(rows: Rows) -> None:
    row = rows[standing_still][0]
    began, ended = moment(ms(0)), moment(ms(20))
    assert (row["began"], row["ended"]) == (began.replace(tzinfo=None), ended.replace(tzinfo=None))
    assert row["date"] == began.date()


def test_the_table_has_its_documented_schema(table: DataFrame) -> None:
    assert_documented(table, STATES)
