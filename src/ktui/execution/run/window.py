"""A recurring window of local time: `22:00-05:00`, or on some days, `22:00-05:00,Sat,Sun`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import NamedTuple

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SPAN = re.compile(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})")
_DAY_MIN = 24 * 60
_MOST_DAYS = 1_000
_FIX = "Give it such as 22:00-05:00, or on some days only: 22:00-05:00,Sat,Sun"


class WindowProblem(ValueError):
    """A window cannot be used. The message has the problem and the fix."""


class Opening(NamedTuple):
    """One opening of a window, with the offsets that hold then."""

    opens: datetime
    closes: datetime


@dataclass(frozen=True)
class Window:
    """When steps may begin, by local clocks; past midnight if it closes before it opens.

    Where clocks change within it, it opens and closes at the times that they show.
    """

    opens_min: int
    """Minutes after midnight."""
    closes_min: int
    days: tuple[int, ...] = ()
    """The weekdays on which it opens, Monday is 0; empty for every day."""

    def __str__(self) -> str:
        """Return the window as it is typed."""
        span = f"{_clock(self.opens_min)}-{_clock(self.closes_min)}"
        return ",".join((span, *(_DAYS[day] for day in self.days)))

    @property
    def length_s(self) -> float:
        """Seconds from its opening to its closing, where clocks do not change."""
        return (self.closes_min - self.opens_min) % _DAY_MIN * 60.0

    def closes_at(self, now: datetime) -> datetime | None:
        """Return when it closes; None while it is closed."""
        first = next(self._from(now))
        return first.closes if first.opens <= now else None

    def opens_at(self, now: datetime) -> datetime:
        """Return when it opens next; now while it is open."""
        return max(next(self._from(now)).opens, now)

    def after(self, now: datetime, seconds: float) -> datetime | None:
        """Return when it will have been open for so many seconds more; None for years from now."""
        for opening in self._from(now):
            begins = max(opening.opens, now)
            there_s = (opening.closes - begins).total_seconds()
            if seconds <= there_s:
                return begins + timedelta(seconds=seconds)
            seconds -= there_s
        return None

    def _from(self, now: datetime) -> Iterator[Opening]:
        """Yield its openings that have not ended, the present or next one first."""
        today = now.astimezone().date()
        most = min(_MOST_DAYS, (date.max - today).days - 1)  # the calendar ends in the year 9999
        for number in range(-1, most):
            day = today + timedelta(days=number)
            if self.days and day.weekday() not in self.days:
                continue
            past_midnight = self.closes_min < self.opens_min
            opens = _local(day, self.opens_min)
            closes = _local(day + timedelta(days=past_midnight), self.closes_min)
            if closes > max(now, opens):
                yield Opening(opens, closes)


@cache
def parse_window(text: str) -> Window:
    """Parse a window as typed.

    Raises:
        WindowProblem: it is not one.
    """
    span, *days = (part.strip() for part in text.split(","))
    match = _SPAN.fullmatch(span)
    if match is None:
        raise WindowProblem(f"{text!r} is not a window. {_FIX}")
    opens, closes = _minutes(match[1], match[2]), _minutes(match[3], match[4])
    if opens is None or closes is None:
        raise WindowProblem(f"{span!r} has a time that no clock shows. {_FIX}")
    if opens == closes:
        raise WindowProblem(f"{span!r} has no length. {_FIX}")
    return Window(opens, closes, tuple(sorted({_day(day) for day in days})))


def _day(word: str) -> int:
    for number, day in enumerate(_DAYS):
        if word.casefold() == day.casefold():
            return number
    raise WindowProblem(f"{word!r} is not a day. Days are {', '.join(_DAYS)}")


def _minutes(hours: str, minutes: str) -> int | None:
    hour, minute = int(hours), int(minutes)
    return hour * 60 + minute if hour < 24 and minute < 60 else None  # noqa: PLR2004 - of a clock


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _local(day: date, minutes: int) -> datetime:
    """Return the moment at which local clocks show a time; of two the first.

    Of a time that they jump over, it is the moment at which they would have shown it.
    """
    shown = datetime.combine(day, time(minutes // 60, minutes % 60))
    moments = [shown.replace(fold=fold).astimezone() for fold in (0, 1)]
    real = [moment for moment in moments if moment.replace(tzinfo=None) == shown]
    return min(real) if real else max(moments)
