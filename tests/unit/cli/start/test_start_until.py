"""`--until` takes a time of day, or an exact moment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from ktui.cli.context.errors import BadInput
from ktui.cli.options.run import parse_until
from ktui.ops.start import fits
from ktui.speed.answer import Basis, HowLong, Span

NOW = datetime(2026, 11, 21, 13, 30, tzinfo=UTC)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(os.environ, "TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("15:00", datetime(2026, 11, 21, 14, 0, tzinfo=UTC)),
        ("14:30", datetime(2026, 11, 22, 13, 30, tzinfo=UTC)),
        ("9:05:30", datetime(2026, 11, 22, 8, 5, 30, tzinfo=UTC)),
        ("2026-11-21T15:00", datetime(2026, 11, 21, 14, 0, tzinfo=UTC)),
        ("2026-11-21 15:00:00+00:00", datetime(2026, 11, 21, 15, 0, tzinfo=UTC)),
        ("2026-11-22T00:00Z", datetime(2026, 11, 22, 0, 0, tzinfo=UTC)),
    ],
)
def test_until_takes_a_local_time_and_its_next_occurrence_unless_given_in_full(
    text: str, utc: datetime
) -> None:
    assert parse_until(text, NOW) == utc


@pytest.mark.usefixtures("berlin")
def test_until_takes_a_time_of_day_across_a_clock_change() -> None:
    evening = datetime(2026, 10, 24, 20, 0, tzinfo=UTC)

    assert parse_until("06:00", evening) == datetime(2026, 10, 25, 5, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["25:00", "15:60", "15", "tomorrow", "", "2026-11-31T10:00", "2026-11-22", "3 pm"]
)
def test_until_refuses_a_malformed_time_with_an_example(text: str) -> None:
    with pytest.raises(BadInput, match=r"--until .*: is not a time\. Give a time such as 15:00"):
        parse_until(text, NOW)


def test_until_refuses_a_time_in_the_past() -> None:
    with pytest.raises(BadInput, match="is in the past"):
        parse_until("2026-11-21T13:29Z", NOW)


@pytest.mark.parametrize(
    ("high_s", "low_s", "verdict"),
    [(600, 60, "the plan fits"), (7200, 60, "may not fit"), (9000, 3601, "does not fit")],
)
def test_a_dry_run_judges_whether_the_plan_fits_before_until(
    high_s: float, low_s: float, verdict: str
) -> None:
    time = HowLong(time_s=Span(low_s, 600, high_s), basis=Basis())
    words = fits(time, NOW + timedelta(hours=1), NOW).sentence

    assert verdict in words
    assert ("ktui resume" in words) == (verdict != "the plan fits")


def test_a_dry_run_cannot_judge_the_fit_with_unknown_sizes() -> None:
    assert "sizes are unknown" in fits(None, NOW + timedelta(hours=1), NOW).sentence
