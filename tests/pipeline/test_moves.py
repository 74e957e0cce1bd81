"""The table `moves`: moves of partitions, as defined in docs/pipeline-tables.md."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ktui.execution.run.events import CancelAsked, LimitsChanged
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits
from ktui.pipeline.lake.tables import MOVES
from ktui.pipeline.tables.listings import intervals, listed_samples, rate_pairs
from ktui.pipeline.tables.moves import moves
from ktui.pipeline.tables.runs import run_folds
from support.pipeline.lake_rows import assert_documented
from support.pipeline.sampled import (
    LIMITS,
    RUN,
    Row,
    ScriptedRun,
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

Rows = dict[str, list[Row]]


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    seen = listed_samples(history.samples(spark)).persist()
    return moves(
        seen, rate_pairs(seen), intervals(seen), run_folds(history.run_events(spark))
    ).persist()


@pytest.fixture(scope="module")
def rows(table: DataFrame) -> Rows:
    by_topic: Rows = defaultdict(list)
    for row in table.orderBy("topic", "partition", "began_t").collect():
        by_topic[row.topic].append(row.asDict())
    return by_topic


def only(rows: Rows, topic: str) -> Row:
    (row,) = rows[topic]
    return row


def known(row: Row, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


by_others = history.seen(sample(0), sample(1), resting(2))


def test_a_move_outside_any_run_is_described_by_its_polls(rows: Rows) -> None:
    row = only(rows, by_others)
    assert (second(row["began_t"]), second(row["ended_t"])) == (0, 2)
    assert known(row, "run", "run_id", "batch", "limits", "steps") == (None, None, None, None, 1)
    assert known(row, "original", "target", "added") == ([1, 2, 3], [4, 2, 3], [4])
    assert known(row, "outcome", "looks") == ("done", 2)


def test_timestamps_are_the_same_moments(rows: Rows) -> None:
    row, began, ended = only(rows, by_others), moment(ms(0)), moment(ms(2))
    assert (row["began"], row["ended"]) == (began.replace(tzinfo=None), ended.replace(tzinfo=None))


taken_back = history.seen(sample(0), resting(1, (3, 2, 1)))
other_order = history.seen(sample(0), resting(1, (2, 4, 3)))
elsewhere = history.seen(sample(0), resting(1, (5, 2, 3)))


def test_a_move_that_ends_on_its_original_replicas_was_cancelled(rows: Rows) -> None:
    assert known(only(rows, taken_back), "outcome", "ended_t") == ("cancelled", ms(1))


def test_a_move_is_done_only_with_the_target_in_its_order(rows: Rows) -> None:
    assert only(rows, other_order)["outcome"] == "changed_elsewhere"
    assert only(rows, elsewhere)["outcome"] == "changed_elsewhere"


cut_off = history.seen(sample(0), sample(1))
seen_again_later = history.seen(sample(0), resting(60.001))


def test_a_move_with_an_unseen_end_has_an_unknown_outcome(rows: Rows) -> None:
    assert known(only(rows, cut_off), "outcome", "ended", "ended_t") == ("unknown", None, None)
    assert known(only(rows, seen_again_later), "outcome", "ended_t") == ("unknown", None)


retargeted = history.seen(
    sample(0), sample(1, replicas=(5, 2, 3, 4), adding=(5,), removing=(4,)), resting(2, (5, 2, 3))
)


def test_a_retargeted_move_goes_from_its_first_original_to_its_last_target(rows: Rows) -> None:
    row = only(rows, retargeted)
    assert known(row, "original", "target", "added") == ([1, 2, 3], [5, 2, 3], [4, 5])
    assert row["outcome"] == "done"


twice = history.seen(sample(0), resting(1), sample(2), resting(3))


def test_each_listing_is_a_move_of_its_own(rows: Rows) -> None:
    assert [(row["began_t"], row["ended_t"]) for row in rows[twice]] == [
        (ms(0), ms(1)),
        (ms(2), ms(3)),
    ]


copying = history.seen(
    sample(0, adding=(4, 5), ends={1: 900, 4: 150}, sizes={4: 77}),
    sample(10, adding=(4, 5), ends={1: 900, 4: 250, 5: 90}, log_start=100),
    sample(20, adding=(4, 5), ends={1: 900, 4: 400, 6: 7}, sizes={4: 4000, 5: 50}, log_start=300),
    sample(25, adding=(4, 5), sizes={1: 9000}),
)


def test_copied_bytes_are_the_last_known_sizes_of_the_added_replicas(rows: Rows) -> None:
    row = only(rows, copying)
    assert row["messages"] == (400 - 100) + 0  # by the first log start; broker 5 counts as 0
    assert row["bytes"] == 4000 + 50


OLD = {1: 6_000, 4: 3_500}
"""The replica's size was read some seconds before its move ended."""
copied_whole = history.seen(
    sample(0, sizes={1: 5_000, 4: 100}), sample(1, sizes=OLD), sample(2), resting(3)
)
seen_in_sync = history.seen(sample(0, sizes=OLD), sample(1, isr=(1, 2, 3, 4)))
too_quick_for_its_size = history.seen(sample(0, sizes={1: 6_000}), resting(1))
greater_than_its_leader = history.seen(sample(0, sizes={1: 6_000, 4: 6_001}), resting(1))


def test_a_replica_that_joined_the_isr_has_copied_the_size_of_its_leader(rows: Rows) -> None:
    assert only(rows, copied_whole)["bytes"] == 6_000
    assert only(rows, seen_in_sync)["bytes"] == 6_000
    assert only(rows, too_quick_for_its_size)["bytes"] == 6_000
    assert only(rows, greater_than_its_leader)["bytes"] == 6_001


rolled_back = history.seen(sample(0, sizes=OLD), resting(1, (1, 2, 3)))
out_of_sight = history.seen(sample(0, sizes=OLD), resting(60.001))
fell_out = history.seen(sample(0, isr=(1, 2, 3, 4), sizes=OLD), sample(1), sample(2))


def test_a_replica_outside_the_isr_at_the_end_counts_by_its_own_size(rows: Rows) -> None:
    assert only(rows, rolled_back)["bytes"] == 3_500
    assert only(rows, out_of_sight)["bytes"] == 3_500
    assert only(rows, fell_out)["bytes"] == 3_500


led_by_another = history.seen(
    sample(0, sizes=OLD), sample(1, leader=2, sizes={2: 7_000}), sample(2, leader=3), resting(3)
)


def test_the_last_known_leader_size_counts_after_a_change_of_leader(rows: Rows) -> None:
    assert only(rows, led_by_another)["bytes"] == 7_000


half_cancelled = history.seen(
    sample(0, adding=(4, 5), sizes=OLD | {5: 900}), resting(1, (1, 2, 3, 4))
)
in_two_steps = history.seen(
    sample(3, sizes=OLD),
    resting(4, (4, 1, 2, 3)),
    sample(6, replicas=(4, 5, 1, 2, 3), adding=(5,), sizes={1: 6_100, 5: 800}),
    resting(7, (4, 1, 2, 3)),
)
history.ran(
    (0, started()), (1, planned(in_two_steps)), (2, step(in_two_steps)),
    (5, step(in_two_steps, 2)), (8, over(in_two_steps)), run_id="whole-and-called-off",
)  # fmt: skip


def test_each_replica_and_step_of_a_move_counts_by_its_own_outcome(rows: Rows) -> None:
    assert only(rows, half_cancelled)["bytes"] == 6_000 + 900
    assert only(rows, in_two_steps)["bytes"] == 6_000 + 800


def test_copy_figures_are_null_without_readings(rows: Rows) -> None:
    names = ("messages", "bytes", "rate_messages_p50", "rate_bytes_p50", "throttle_min")
    assert known(only(rows, cut_off), *names) == (None,) * 5


FULL = {1: 10_000}
growing = history.seen(
    *(
        sample(at, ends={1: 1_000, 4: end}, sizes=FULL, log_start=0)
        for at, end in ((0, 0), (10, 100), (20, 300), (30, 600), (40, 1_000))
    )
)


def test_rates_are_percentiles_of_the_growth_of_an_added_replica_between_readings(
    rows: Rows,
) -> None:
    row = only(rows, growing)  # 10, 20, 30, 40 messages a second, of 10 bytes each
    assert row["rate_messages_p10"] == pytest.approx(13)
    assert row["rate_messages_p50"] == pytest.approx(25)
    assert row["rate_messages_p90"] == pytest.approx(37)
    assert row["rate_bytes_p10"] == pytest.approx(130)
    assert row["rate_bytes_p50"] == pytest.approx(250)
    assert row["rate_bytes_p90"] == pytest.approx(370)


read_rarely = history.seen(
    sample(0, ends={4: 0}, read=0),
    sample(1, ends={4: 0}, read=0),
    sample(2),
    sample(10, ends={4: 50}, read=5),
    sample(11, ends={4: 10}, read=6),
    sample(13, ends={4: 20}, read=8),
)


def test_a_rate_is_taken_between_readings_and_never_over_a_truncation(rows: Rows) -> None:
    row = only(rows, read_rarely)  # 10 messages a second from 0 to 5, 5 from 6 to 8
    assert row["rate_messages_p50"] == pytest.approx(7.5)
    assert row["rate_messages_p10"] == pytest.approx(5.5)
    assert row["rate_bytes_p50"] is None


too_far_apart = history.seen(
    sample(0, ends={4: 0}), sample(30), sample(60.001, ends={4: 9}), sample(62, ends={4: 9})
)


def test_readings_more_than_a_minute_apart_give_no_rate(rows: Rows) -> None:
    assert only(rows, too_far_apart)["rate_messages_p90"] == 0


not_always_adding = history.seen(
    sample(0, ends={4: 0, 5: 0}),
    sample(10, adding=(4, 5), ends={4: 10, 5: 700}),
    sample(20, adding=(5,), ends={4: 900, 5: 720}),
)


def test_only_a_replica_being_added_at_both_readings_has_a_rate(rows: Rows) -> None:
    row = only(rows, not_always_adding)
    assert known(row, "rate_messages_p10", "rate_messages_p90") == pytest.approx((1.1, 1.9))


unsized = history.seen(
    sample(0, ends={1: 50, 4: 50}, sizes=FULL, log_start=50),
    sample(10, ends={1: 50, 4: 60}, sizes=FULL, log_start=50),
    sample(20, ends={1: 51, 4: 70}, sizes=FULL, log_start=50, leader=None),
)


def test_byte_rates_require_a_leader_with_messages_of_known_size(rows: Rows) -> None:
    row = only(rows, unsized)
    assert known(row, "rate_messages_p50", "rate_bytes_p50") == (1, None)


jumping = history.seen(
    *(sample(10 * n, ends={1: 900, 4: end}, log_start=500) for n, end in enumerate((0, 510, 530)))
)


def test_a_jump_to_the_log_start_is_no_rate(rows: Rows) -> None:
    assert known(only(rows, jumping), "rate_messages_p10", "rate_messages_p90") == (2, 2)


throttled = history.seen(
    sample(0, throttles={1: 1, 4: 500}), sample(1, throttles={1: 9_999, 4: 700}), sample(2)
)


def test_the_throttles_of_a_move_are_those_of_the_gaining_brokers(rows: Rows) -> None:
    assert known(only(rows, throttled), "throttle_min", "throttle_max") == (500, 700)


troubled = history.seen(
    sample(0),
    *(sample(at, ends={4: end}) for at, end in ((5, 1), (35, 1), (40, 2), (70, 2), (80, 3))),
    sample(90, isr=(4,)),
    resting(97),
)


def test_a_move_sums_its_time_in_each_state(rows: Rows) -> None:
    row = only(rows, troubled)
    assert known(row, "stalls", "stalled_ms") == (2, 15_000)
    assert known(row, "adding_ms", "catching_up_ms") == (5_000, 30_000 + 30_000 + 10_000)
    assert row["in_sync_ms"] == 7_000


by_a_run = history.seen(sample(3), sample(4), resting(5), sample(7), resting(8), sample(20))
history.ran(
    (0, started()), (1, planned(by_a_run)), (2, step(by_a_run, 3)),
    (5, over(by_a_run)), (6, step(by_a_run, 4)), (9, over(by_a_run)), (10, now(by_a_run)),
    run_id="two-steps",
)  # fmt: skip


def test_all_steps_of_a_run_for_a_partition_are_one_move(rows: Rows) -> None:
    row = rows[by_a_run][0]
    assert known(row, "run", "run_id", "steps", "batch", "looks") == (RUN, "two-steps", 2, 3, 3)
    assert known(row, "original", "target", "added") == ([1, 2, 3], [4, 2, 3], [4])
    assert known(row, "outcome", "began_t", "ended_t") == ("done", ms(2), ms(10))


def test_a_later_foreign_reassignment_of_the_partition_is_a_separate_move(rows: Rows) -> None:
    assert [row["run_id"] for row in rows[by_a_run]] == ["two-steps", None]
    assert rows[by_a_run][1]["began_t"] == ms(20)


unseen = history.topic()
history.ran((0, started()), (1, planned(unseen)), (2, step(unseen)), run_id="unseen")


def test_a_move_that_no_poll_saw_is_described_by_its_run_alone(rows: Rows) -> None:
    row = only(rows, unseen)
    assert known(row, "outcome", "ended", "added", "looks") == ("adding", None, [], 0)
    nobody_knows = known(row, "stalls", "stalled_ms", "catching_up_ms", "in_sync_ms", "adding_ms")
    assert {*nobody_knows, row["messages"]} == {None}


never_begun = history.topic()
history.ran((0, started()), (1, planned(never_begun)), run_id="never-begun")


def test_a_partition_that_never_left_the_queue_has_no_move(rows: Rows) -> None:
    assert rows[never_begun] == []


between_limits = history.topic()
wider = Limits(replicas=2, partitions=9)
history.ran(
    (0, started()), (1, planned(between_limits)),
    (2, LimitsChanged(old=LIMITS, new=wider, batch=0, in_flight=0)), (3, step(between_limits)),
    (4, LimitsChanged(old=wider, new=LIMITS, batch=1, in_flight=1)), run_id="limits",
)  # fmt: skip


def test_a_move_has_the_limits_that_were_in_force_when_it_began(rows: Rows) -> None:
    limits = json.loads(only(rows, between_limits)["limits"])
    assert (limits["replicas"], limits["partitions"]) == (2, 9)


stopped = history.topic()
history.ran(
    (0, started()), (1, planned(stopped)), (2, step(stopped)),
    (3, CancelAsked(kind=CancelKind.STOP, partitions=(tp(stopped),))), (4, over(stopped)),
    (9, started()), run_id="called-off",
)  # fmt: skip


def test_a_move_that_an_operator_stopped_ended_with_its_step(rows: Rows) -> None:
    assert known(only(rows, stopped), "outcome", "ended_t") == ("stopped", ms(4))


between_steps = history.topic()
history.ran(
    (0, started()), (1, planned(between_steps)), (2, step(between_steps)),
    (3, over(between_steps)), run_id="between",
)  # fmt: skip


def test_a_move_has_not_ended_between_two_steps(rows: Rows) -> None:
    assert known(only(rows, between_steps), "outcome", "ended_t") == ("queued", None)


headless = history.seen(sample(2), resting(3))
history.ran(
    (1, step(headless, 7)), (3, over(headless)), (4, now(headless, State.FAILED)),
    run_id="headless",
)  # fmt: skip


def test_a_run_with_an_unrecorded_beginning_still_has_its_moves(rows: Rows) -> None:
    row = only(rows, headless)
    assert known(row, "run_id", "batch", "looks") == ("headless", 7, 1)
    assert known(row, "outcome", "ended_t") == ("unknown", ms(4))
    assert known(row, "original", "target", "limits") == (None, None, None)


recreated = history.seen(
    sample(0, topic_id="one"), resting(1, topic_id="one"), sample(2, topic_id="two")
)


def test_moves_of_a_recreated_topic_are_kept_apart(rows: Rows) -> None:
    assert [row["topic_id"] for row in rows[recreated]] == ["one", "two"]


shadowed = history.seen(sample(0), sample(1, ends={4: 9}, shadowed=True), resting(2, shadowed=True))


def test_shadowed_samples_do_not_count_for_a_move(rows: Rows) -> None:
    row = only(rows, shadowed)
    assert known(row, "looks", "outcome", "messages") == (1, "unknown", None)


def test_the_table_has_its_documented_schema(table: DataFrame) -> None:
    assert_documented(table, MOVES)
