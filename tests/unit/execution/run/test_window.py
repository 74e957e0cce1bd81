"""A window of local time: when it is open, and when it opens and closes next."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.run.options import Schedule, Window, WindowProblem, parse_window

NIGHT = parse_window("22:00-05:00")
NIGHTS = str(NIGHT)


@pytest.fixture(autouse=True, scope="module")
def _in_berlin() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone()


@pytest.mark.parametrize(
    ("text", "now", "opens", "closes"),
    [
        ("22:00-05:00", "2026-11-24T23:00", "2026-11-24T23:00", "2026-11-25T05:00"),
        ("22:00-05:00", "2026-11-25T04:59", "2026-11-25T04:59", "2026-11-25T05:00"),
        ("22:00-05:00", "2026-11-25T05:00", "2026-11-25T22:00", None),
        ("09:00-17:30", "2026-11-25T17:30", "2026-11-26T09:00", None),
        ("22:00-05:00,Sat,Sun", "2026-11-24T23:00", "2026-11-28T22:00", None),
        ("22:00-05:00,sat,sun", "2026-11-30T04:00", "2026-11-30T04:00", "2026-11-30T05:00"),
        ("22:00-05:00,Sat,Sun", "2026-11-30T22:00", "2026-12-05T22:00", None),
    ],
)
def test_a_window_is_open_from_its_opening_to_its_closing_on_the_days_on_which_it_opens(
    text: str, now: str, opens: str, closes: str | None
) -> None:
    window = parse_window(text)

    assert window.opens_at(at(now)) == at(opens)
    assert window.closes_at(at(now)) == (None if closes is None else at(closes))


def test_a_window_follows_the_clocks_when_they_change() -> None:
    before_spring = at("2026-03-28T23:00")
    before_winter = at("2026-10-24T23:00")

    assert NIGHT.closes_at(before_spring) == before_spring + timedelta(hours=5)
    assert NIGHT.closes_at(before_winter) == before_winter + timedelta(hours=7)


def test_a_window_that_clocks_jump_over_opens_when_they_would_have_shown_its_time() -> None:
    window = parse_window("02:10-02:50")

    assert window.opens_at(at("2026-03-29T01:00")) == at("2026-03-29T03:10")
    assert window.closes_at(at("2026-03-29T03:20")) == at("2026-03-29T03:50")


def test_time_in_the_window_is_counted_over_several_nights() -> None:
    now = at("2026-11-24T12:00")

    assert NIGHT.after(now, 3_600) == at("2026-11-24T23:00")
    assert NIGHT.after(now, 8 * 3_600) == at("2026-11-25T23:00")
    assert NIGHT.after(at("2026-11-25T04:00"), 2 * 3_600) == at("2026-11-25T23:00")
    assert NIGHT.after(now, 1e12) is None


@given(
    st.integers(0, 1439),
    st.integers(0, 1439),
    st.lists(st.integers(0, 6), max_size=7, unique=True).map(sorted),
    st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)),  # noqa: DTZ001 - made aware below
)
def test_whatever_the_window_it_is_open_just_when_it_says_so(
    opens: int, closes: int, days: list[int], naive: datetime
) -> None:
    if opens == closes:
        return
    window, now = Window(opens, closes, tuple(days)), naive.replace(tzinfo=UTC)

    assert parse_window(str(window)) == window
    opens_at, closes_at = window.opens_at(now), window.closes_at(now)
    assert (opens_at == now) == (closes_at is not None)
    if closes_at is None:
        assert window.closes_at(opens_at - timedelta(seconds=1)) is None
    until = window.closes_at(opens_at)
    assert until is not None
    assert window.closes_at(until - timedelta(seconds=1)) == until
    assert window.after(now, 0) == opens_at
    assert window.after(now, (until - opens_at).total_seconds()) == until


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a window"),
        ("22-5", "is not a window"),
        ("22:00", "is not a window"),
        ("24:00-05:00", "one of these is not a time of day"),
        ("22:00-05:60", "one of these is not a time of day"),
        ("05:00-05:00", "has no length"),
        ("22:00-05:00,Caturday", "'Caturday' is not a day. Days are Mon, Tue, Wed"),
        ("22:00-05:00,", "'' is not a day"),
    ],
)
def test_what_is_no_window_is_refused_with_the_fix(text: str, words: str) -> None:
    with pytest.raises(WindowProblem, match=words):
        parse_window(text)


def test_a_run_begins_at_its_start_and_then_in_its_window() -> None:
    schedule = Schedule(start_at=at("2026-11-25T12:00"), window=NIGHTS)

    assert schedule.begins_at(at("2026-11-24T23:00")) == at("2026-11-25T22:00")
    assert schedule.closes_at(at("2026-11-24T23:00")) is None
    assert schedule.begins_at(at("2026-11-25T22:00")) is None
    assert schedule.closes_at(at("2026-11-25T22:00")) == at("2026-11-26T05:00")
    assert Schedule().begins_at(at("2026-11-24T23:00")) is None


def test_the_end_of_a_run_is_expected_by_the_time_in_which_its_steps_may_begin() -> None:
    now = at("2026-11-24T12:00")

    assert Schedule().after(now, 60) == now + timedelta(seconds=60)
    assert Schedule(start_at=at("2026-11-24T13:00")).after(now, 60) == at("2026-11-24T13:01")
    assert Schedule(window=NIGHTS).after(now, 60) == at("2026-11-24T22:01")
