"""What stood still, and the cause that its samples show, in the live view's words."""

from __future__ import annotations

import msgspec
import pytest

from ktui.pipeline.lake.records import Interval, LogEndRecord, Sample, ThrottleRecord
from ktui.pipeline.tables.stall_cause import MOST_TELLING, cause_of, cause_window, stalls
from ktui.progress.timeline import Cause

BEHIND = (LogEndRecord(1, 100), LogEndRecord(4, 70))
CAUGHT_UP = (LogEndRecord(1, 100), LogEndRecord(4, 100))
HELD = {"isr": (1, 2, 4), "replicas": (4, 1, 2, 3), "removing": (3,)}
"""Added and in sync is 4; 1 and 2 are to stay, and 3 is to go."""


def _sample(**other: object) -> Sample:
    usual = {"topic": "orders", "partition": 0, "t": 0, "leader": 1, "isr": (1, 2), "adding": (4,)}
    return msgspec.convert({**usual, **other}, Sample)


def _interval(state: str, began: int, ended: int) -> Interval:
    return Interval(topic="orders", partition=0, state=state, began=began, ended=ended)


@pytest.mark.parametrize(
    ("sample", "cause", "words"),
    [
        (_sample(down=(4,)), Cause.TARGET_DOWN, "broker 4 was down"),
        (_sample(down=(2,)), Cause.UNKNOWN, ""),
        (_sample(offline=(4,)), Cause.LOG_DIR_OFFLINE, "a log dir of broker 4 was offline"),
        (_sample(leader=None), Cause.NO_LEADER, "there was no leader to copy from"),
        (_sample(leader=None, described=False), Cause.UNKNOWN, ""),
        (_sample(ends=BEHIND, described=False), Cause.UNKNOWN, ""),
        (
            _sample(rates=(ThrottleRecord(4, 30_000),), ends=BEHIND),
            Cause.THROTTLED,
            "the throttle of broker 4 was 30,000 B/s",
        ),
        (
            _sample(rates=(ThrottleRecord(1, None, 30_000),), ends=BEHIND),
            Cause.THROTTLED,
            "the throttle of broker 1 was 30,000 B/s",
        ),
    ],
)  # fmt: skip
def test_a_sample_tells_what_stands_in_the_way_of_a_copy(
    sample: Sample, cause: Cause, words: str
) -> None:
    assert cause_of([sample]) == (cause, words)


def test_a_replica_that_lags_though_nothing_stands_in_its_way_does_not_fetch() -> None:
    elsewhere = (
        ThrottleRecord(1, 30_000, None),
        ThrottleRecord(2, 30_000, 30_000),
        ThrottleRecord(4, None, 30_000),
    )

    for rates in ((), elsewhere):
        found = cause_of([_sample(ends=BEHIND, rates=rates)])
        assert found == (Cause.NOT_FETCHING, "broker 4 did not fetch from 1")


@pytest.mark.parametrize(
    "rates", [ThrottleRecord(4, 50_000_000), ThrottleRecord(1, None, 50_000_000)]
)
def test_a_throttle_that_may_give_others_their_turn_is_no_reason_to_call_a_replica_not_fetching(
    rates: ThrottleRecord,
) -> None:
    assert cause_of([_sample(ends=BEHIND, rates=(rates,))]) == (Cause.UNKNOWN, "")


@pytest.mark.parametrize("ends", [(), (LogEndRecord(1, 100),), (LogEndRecord(4, 70),)])
def test_a_replica_of_which_it_is_not_known_how_far_it_is_is_not_called_not_fetching(
    ends: tuple[LogEndRecord, ...],
) -> None:
    assert cause_of([_sample(ends=ends)]) == (Cause.UNKNOWN, "")


@pytest.mark.parametrize("rates", [(), (ThrottleRecord(4, 30_000),)])
def test_a_replica_that_has_all_and_is_not_in_the_isr_is_kept_out_of_it(
    rates: tuple[ThrottleRecord, ...],
) -> None:
    found = cause_of([_sample(ends=CAUGHT_UP, rates=rates)])

    assert found == (Cause.KEPT_OUT_OF_SYNC, "broker 4 had all, and was not in the ISR")


def test_of_two_new_replicas_the_one_that_lags_tells_the_cause() -> None:
    ends = (*CAUGHT_UP, LogEndRecord(5, 70))

    found = cause_of([_sample(adding=(4, 5), ends=ends)])

    assert found == (Cause.NOT_FETCHING, "broker 5 did not fetch from 1")


def test_a_move_is_held_by_a_replica_that_is_to_stay_and_is_out_of_the_isr() -> None:
    held = _sample(**HELD | {"isr": (1, 4)})
    down = _sample(**HELD | {"isr": (1, 4), "down": (2,)})

    assert cause_of([held]) == (Cause.KEPT_OUT_OF_SYNC, "broker 2 was out of the ISR")
    assert cause_of([down]) == (Cause.KEPT_OUT_OF_SYNC, "broker 2 was out of the ISR and down")
    assert cause_of([_sample(**HELD)]) == (Cause.UNKNOWN, "all in sync, yet not completed")


def test_a_stall_has_the_most_telling_cause_that_its_samples_show() -> None:
    samples = [_sample(), _sample(leader=None), _sample(down=(4,)), _sample(ends=BEHIND)]

    assert cause_of(samples) == (Cause.TARGET_DOWN, "broker 4 was down")
    assert cause_of([]) == (Cause.UNKNOWN, "")


def test_causes_are_ranked_as_the_live_view_does() -> None:
    assert tuple(Cause) == MOST_TELLING


def test_a_move_that_does_not_end_though_all_is_in_sync_stands_still_after_half_a_minute() -> None:
    seen = [
        _interval("in sync", 0, 30_000),
        _interval("stalled", 30_000, 31_000),
        _interval("catching up", 31_000, 900_000),
        _interval("in sync", 900_000, 990_000),
    ]

    assert [(one.began, one.ended) for one in stalls(seen)] == [
        (30_000, 31_000),
        (930_000, 990_000),
    ]


def test_the_cause_is_looked_for_in_the_first_minute_of_a_stall_and_not_in_what_follows_it() -> (
    None
):
    assert cause_window(_interval("stalled", 1_000, 9_000)) == (1_000, 9_000)
    assert cause_window(_interval("stalled", 1_000, 900_000)) == (1_000, 61_000)
    assert cause_window(_interval("stalled", 1_000, 1_000)) == (1_000, 1_001)
