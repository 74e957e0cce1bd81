from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.speed.answer import Span
from ktui.tui.draw import format as figures

amounts = st.floats(min_value=0, max_value=1e20, allow_nan=False)
SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY = {f"{prefix}iB": 1024.0**i for i, prefix in enumerate(["", *"KMGTPE"]) if prefix} | {
    "B": 1.0
}


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 msg"), (1, "1 msg"), (999, "999 msg"), (999.6, "1.0 k msg"), (1_234, "1.2 k msg"),
        (9_960, "10 k msg"), (12_000, "12 k msg"), (999_499, "999 k msg"),
        (999_500, "1.0 M msg"), (1_200_000, "1.2 M msg"), (48_000_000, "48 M msg"), (None, "-"),
    ],
)  # fmt: skip
def test_messages_have_at_most_three_digits_and_a_unit(count: float | None, words: str) -> None:
    assert figures.as_messages(count) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (1_023, "1.0 KiB"), (1_536, "1.5 KiB"), (412 * 2**30, "412 GiB"), (None, "-")],
)
def test_sizes_are_in_binary_units(count: float | None, words: str) -> None:
    assert figures.as_bytes(count) == words


@pytest.mark.parametrize(
    ("rate", "words"), [(0, "0 B/s"), (48e6, "48 MB/s"), (2_500, "2.5 kB/s"), (None, "-")]
)
def test_rates_are_in_decimal_units(rate: float | None, words: str) -> None:
    assert figures.as_rate(rate) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"), (4.2, "4 s"), (59.6, "1m"), (60, "1m"), (130, "2m 10s"), (3_600, "1h"),
        (3_900, "1h 5m"), (86_400 * 3 + 4 * 3_600, "3d 4h"), (1e12, ">99d"),
        (float("inf"), ">99d"), (float("nan"), "-"), (-5, "0 s"), (None, "-"),
    ],
)  # fmt: skip
def test_durations_are_shown_in_their_two_largest_units(seconds: float | None, words: str) -> None:
    assert figures.as_duration(seconds) == words


@pytest.mark.parametrize(
    ("share", "words"), [(0, "0%"), (0.999, "99%"), (1, "100%"), (1.5, "100%"), (None, "-")]
)
def test_a_share_is_100_percent_only_when_complete(share: float | None, words: str) -> None:
    assert figures.as_share(share) == words


def test_an_approximate_share_is_marked() -> None:
    assert figures.as_share(0.5, approximate=True) == "~50%"


def test_a_range_is_shown_with_its_ends() -> None:
    assert figures.as_duration_range(Span(110, 130, 180)) == "2m 10s (1m 50s-3m)"
    assert figures.as_duration_range(Span(3, 3.1, 3.4)) == "3 s"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (61, "1m"), (7_300, "2h"), (1e9, ">99d")],
)
def test_an_age_has_one_unit_and_is_never_too_old(seconds: float, words: str) -> None:
    assert figures.as_age(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.009, "9 ms"), (0.9996, "1.0 s"), (1.24, "1.2 s")]
)
def test_the_duration_of_a_poll_is_shown_in_milliseconds_up_to_a_second(
    seconds: float, words: str
) -> None:
    assert figures.as_took(seconds) == words


def test_counts_have_their_noun_in_singular_or_plural() -> None:
    assert figures.as_count(1, "partition") == "1 partition"
    assert figures.as_count(12_034, "partition") == "12,034 partitions"
    assert figures.as_count(2, "entry", "entries") == "2 entries"


def test_a_future_time_has_its_date_only_on_another_day() -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert re.fullmatch(r"\d\d:\d\d", figures.as_clock(now + timedelta(minutes=1), now))
    later = figures.as_clock(now + timedelta(days=2), now)
    assert re.fullmatch(r"Nov 2[34] \d\d:\d\d", later)


def test_the_offset_from_utc_is_shown_in_hours_and_minutes() -> None:
    assert re.fullmatch(r"[+-]\d\d:\d\d", figures.as_offset(datetime(2026, 1, 1, tzinfo=UTC)))


def _worth(words: str, scales: dict[str, float], pattern: str) -> float:
    match = re.fullmatch(pattern, words)
    assert match is not None, words
    assert len(match[1].replace(".", "")) <= 3, words
    return float(match[1]) * scales[match[2]]


@given(amounts)
def test_a_rounded_count_is_within_a_twentieth_of_the_truth(amount: float) -> None:
    for words, scales, pattern in (
        (figures.as_messages(amount), SCALES, r"([\d.]+) ([kMGTPE]?) ?msg"),
        (figures.as_rate(amount), SCALES, r"([\d.]+) ([kMGTPE]?)B/s"),
        (figures.as_bytes(amount), BINARY, r"([\d.]+) ((?:[KMGTPE]i)?B)"),
    ):
        assert _worth(words, scales, pattern) == pytest.approx(amount, rel=0.051, abs=0.51)


@given(amounts, amounts)
def test_a_larger_size_is_never_shown_as_smaller(one: float, other: float) -> None:
    small, large = sorted((one, other))
    worths: Callable[[float], float] = lambda x: _worth(  # noqa: E731 - named for the reader
        figures.as_bytes(x), BINARY, r"([\d.]+) ((?:[KMGTPE]i)?B)"
    )
    assert worths(small) <= worths(large)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_any_number_of_seconds_fits_the_column(seconds: float) -> None:
    assert 1 <= len(figures.as_duration(seconds)) <= 7
