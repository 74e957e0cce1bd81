"""Stalls, and the causes that their samples show, in the words of the live view."""

from __future__ import annotations

import msgspec
import pytest

from ktui.pipeline.lake.records import Interval, LogEndRecord, Sample, ThrottleRecord
from ktui.pipeline.tables.stall_cause import MOST_TELLING, cause_of, cause_window, stalls
from ktui.progress.timeline import Cause

BEHIND = (LogEndRecord(1, 100), LogEndRecord(4, 70))
CAUGHT_UP = (LogEndRecord(1, 100), LogEndRecord(4, 100))
HELD = {"isr": (1, 2, 4), "replicas": (4, 1, 2, 3), "removing": (3,)}
"""Broker 4 is added and in sync; 1 and 2 are kept, and 3 is removed."""


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
def test_a_sample_shows_the_cause_that_blocks_a_copy(
    sample: Sample, cause: Cause, words: str
) -> None:
    assert cause_of([sample]) == (cause, words)


def test_a_lagging_replica_without_another_cause_is_not_fetching() -> None:
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
def test_a_lagging_replica_under_a_high_throttle_has_an_unknown_cause(
    rates: ThrottleRecord,
) -> None:
    assert cause_of([_sample(ends=BEHIND, rates=(rates,))]) == (Cause.UNKNOWN, "")


@pytest.mark.parametrize("ends", [(), (LogEndRecord(1, 100),), (LogEndRecord(4, 70),)])
def test_a_replica_of_unknown_lag_is_not_reported_as_not_fetching(
    ends: tuple[LogEndRecord, ...],
) -> None:
    assert cause_of([_sample(ends=ends)]) == (Cause.UNKNOWN, "")


@pytest.mark.parametrize("rates", [(), (ThrottleRecord(4, 30_000),)])
def test_a_caught_up_replica_outside_the_isr_is_kept_out_of_sync(
    rates: tuple[ThrottleRecord, ...],
) -> None:
    found = cause_of([_sample(ends=CAUGHT_UP, rates=rates)])

    assert found == (Cause.KEPT_OUT_OF_SYNC, "broker 4 had all, and was not in the ISR")


def test_the_lagging_one_of_two_new_replicas_is_the_cause() -> None:
    ends = (*CAUGHT_UP, LogEndRecord(5, 70))

    found = cause_of([_sample(adding=(4, 5), ends=ends)])

    assert found == (Cause.NOT_FETCHING, "broker 5 did not fetch from 1")


def test_a_kept_replica_out_of_the_isr_is_the_cause_that_holds_a_move() -> None:
    held = _sample(**HELD | {"isr": (1, 4)})
    down = _sample(**HELD | {"isr": (1, 4), "down": (2,)})

    assert cause_of([held]) == (Cause.KEPT_OUT_OF_SYNC, "broker 2 was out of the ISR")
    assert cause_of([down]) == (Cause.KEPT_OUT_OF_SYNC, "broker 2 was out of the ISR and down")
    assert cause_of([_sample(**HELD)]) == (Cause.UNKNOWN, "all in sync, yet not completed")


def test_a_stall_has_the_strongest_cause_in_its_samples() -> None:
    samples = [_sample(), _sample(leader=None), _sample(down=(4,)), _sample(ends=BEHIND)]

    assert cause_of(samples) == (Cause.TARGET_DOWN, "broker 4 was down")
    assert cause_of([]) == (Cause.UNKNOWN, "")


def test_causes_are_ranked_as_in_the_live_view() -> None:
    assert tuple(Cause) == MOST_TELLING


def test_a_move_that_does_not_end_in_half_a_minute_stood_still_since_it_was_in_sync() -> None:
    seen = [
        _interval("in sync", 0, 30_000),
        _interval("stalled", 30_000, 31_000),
        _interval("catching up", 31_000, 900_000),
        _interval("in sync", 900_000, 990_000),
    ]

    assert [(one.began, one.ended) for one in stalls(seen)] == [
        (30_000, 31_000),
        (900_000, 990_000),
    ]


def test_the_cause_is_searched_only_in_the_first_minute_of_a_stall() -> None:
    assert cause_window(_interval("stalled", 1_000, 9_000)) == (1_000, 9_000)
    assert cause_window(_interval("stalled", 1_000, 900_000)) == (1_000, 61_000)
    assert cause_window(_interval("stalled", 1_000, 1_000)) == (1_000, 1_001)
