"""The options of a run beside its limits: when its steps may begin, and what to do in a mishap."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import NamedTuple

import msgspec

from ktui.json_text import Dated
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances
from ktui.planning.throttle_rates import (
    NO_THROTTLE,
    Objective,
    ThrottleRates,
    canary_topic,
    not_measured_by_canary,
)
from ktui.preview.facts import Terms

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
    """When steps may begin, by local clocks, as shown where they change; may pass midnight."""

    opens_min: int  # minutes after midnight
    closes_min: int
    days: tuple[int, ...] = ()  # the weekdays on which it opens, Monday is 0; empty for every day

    def __str__(self) -> str:
        span = f"{_clock(self.opens_min)}-{_clock(self.closes_min)}"
        return ",".join((span, *(_DAYS[day] for day in self.days)))

    @property
    def length_s(self) -> float:
        return (self.closes_min - self.opens_min) % _DAY_MIN * 60.0

    def closes_at(self, now: datetime) -> datetime | None:
        first = next(self._from(now))
        return first.closes if first.opens <= now else None

    def opens_at(self, now: datetime) -> datetime:
        return max(next(self._from(now)).opens, now)

    def after(self, now: datetime, seconds: float) -> datetime | None:
        """Return when it will have been open for `seconds` more; None for years from now."""
        for opening in self._from(now):
            begins = max(opening.opens, now)
            there_s = (opening.closes - begins).total_seconds()
            if seconds <= there_s:
                return begins + timedelta(seconds=seconds)
            seconds -= there_s
        return None

    def _from(self, now: datetime) -> Iterator[Opening]:
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
    """Parse a window as typed. Raises WindowProblem: it is not one."""
    span, *days = (part.strip() for part in text.split(","))
    match = _SPAN.fullmatch(span)
    if match is None:
        raise WindowProblem(f"{text!r} is not a window. {_FIX}")
    opens, closes = _minutes(match[1], match[2]), _minutes(match[3], match[4])
    if opens is None or closes is None:
        raise WindowProblem(f"{span!r}: one of these is not a time of day. {_FIX}")
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


class Schedule(Dated, frozen=True, kw_only=True, omit_defaults=True):
    """When steps may begin. Steps in flight finish whenever they do."""

    start_at: datetime | None = None  # no step begins before
    window: str = ""  # steps begin, and should end, within it; empty for any time
    while_command: str = ""  # no step begins while it fails; empty for none
    by: datetime | None = None  # the run should end by then, at the lowest rate that does

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window:
            parse_window(self.window)

    @property
    def hours(self) -> Window | None:
        return parse_window(self.window) if self.window else None

    def begins_at(self, now: datetime) -> datetime | None:
        earliest = now if self.start_at is None else max(now, self.start_at)
        opens = earliest if self.hours is None else self.hours.opens_at(earliest)
        return None if opens <= now else opens

    def reason(self, begins_at: datetime) -> str:
        shown = local_minute(begins_at)
        if self.start_at is not None and begins_at == self.start_at:
            return f"the run starts at {shown}"
        return f"its window, {self.window}, opens at {shown}"

    def closes_at(self, now: datetime) -> datetime | None:
        if self.hours is None or self.begins_at(now) is not None:
            return None
        return self.hours.closes_at(now)

    def after(self, now: datetime, seconds: float) -> datetime | None:
        """Return when steps will have been allowed for `seconds`; None for years from now."""
        earliest = now if self.start_at is None else max(now, self.start_at)
        if self.hours is None:
            try:
                return earliest + timedelta(seconds=seconds)
            except OverflowError:  # at 1 B/s, or from a time that the calendar ends soon after
                return None
        return self.hours.after(earliest, seconds)


def local_minute(moment: datetime) -> str:
    """Format a moment by local clocks: "2026-11-25 22:00"."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


NO_SCHEDULE = Schedule()


USUAL_POLL_S = 1.0


class OnStall(enum.StrEnum):
    """What to do with a step whose added broker has been offline for too long."""

    WAIT = "wait"  # the step keeps its place, and goes on when the broker is back
    CANCEL = "cancel"  # cancel the step, and free its place


class OnForeignChange(enum.StrEnum):
    """What to do with a waiting partition whose replicas someone else has changed."""

    SKIP = "skip"
    REPLAN = "replan"  # move the partition to its target from its present replicas


class OnForeignThrottle(enum.StrEnum):
    """What to do when somebody else sets another rate on a broker that the run throttles."""

    HOLD = "hold"  # add nothing there until the other rate is gone, or the run's is set again
    GO_ON = "go-on"  # go on under the other rate


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a run deals with trouble, its throttle, and how it polls and records."""

    on_stall: OnStall = OnStall.WAIT
    stall_timeout_s: float = 300.0
    on_foreign_change: OnForeignChange = OnForeignChange.SKIP
    stop_on_failure: bool = False  # begin nothing more once a partition has failed
    most_under_min_isr: int | None = None  # no more outside the run; None: no check
    most_offline: int | None = None  # begin no step above this many outside the run; None: no check
    urgent_first: bool = False  # too few in sync: before all others, with room of their own
    throttle: ThrottleRates = NO_THROTTLE  # to begin with; unlike most options they may change
    throttle_leaders: bool = False  # also the side of leaders, to replicas out of the ISR
    on_foreign_throttle: OnForeignThrottle = OnForeignThrottle.HOLD
    schedule: Schedule = NO_SCHEDULE  # to begin with; may change
    sli_command: str = ""  # prints the figure of an objective; empty for none
    sli_prometheus: tuple[str, ...] = ()  # URL and query of the figure; empty for none
    canary: bool = False  # measure the figure by a producer and a topic of ktui's own
    poll_s: float = USUAL_POLL_S  # seconds between two polls of the cluster
    record: bool = True  # record observations next to the journal
    on_event: str | None = None  # gets the notices; empty for none, None for the context's
    metrics_file: str = ""  # the run's metrics for Prometheus; empty for none

    @property
    def throttles(self) -> bool:
        """Whether the run may set throttles: rates are named, or --by chooses one."""
        return bool(self.throttle) or self.schedule.by is not None

    def figure_problem(self, objective: Objective | None) -> str | None:
        if objective is None:
            return None
        if not (self.sli_command or self.sli_prometheus or self.canary):
            return (
                f"nothing measures the figure of {objective}. Use the canary (--canary), or start "
                "the run with --sli-command CMD or --sli-prometheus URL QUERY"
            )
        if self.canary and objective.percent is None:
            return not_measured_by_canary(objective)
        return None

    def canary_of(self, run: str, rates: ThrottleRates) -> str:
        """Return the topic by which a run measures the objective of rates; empty for none."""
        return canary_topic(run) if self.canary and rates.objective is not None else ""

    def terms(self, limits: Limits, allowed: Allowances, run: str) -> Terms:
        return Terms(
            limits=limits,
            throttle=self.throttle,
            throttle_leaders=self.throttle_leaders,
            allowed=allowed,
            canary=self.canary_of(run, self.throttle),
            chooses_rates=self.schedule.by is not None,
        )

    @property
    def gated(self) -> bool:
        return self.most_under_min_isr is not None or self.most_offline is not None
