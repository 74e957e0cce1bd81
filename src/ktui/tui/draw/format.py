"""Numbers as the screens show them: the formats of `quantities`, and some for screens only."""

from __future__ import annotations

import math
from datetime import datetime

from ktui.quantities import DECIMAL, MOST, UNKNOWN, as_bytes, as_count, as_duration, as_rate, scaled
from ktui.speed.answer import Span

__all__ = [
    "UNKNOWN", "as_age", "as_bytes", "as_clock", "as_copying", "as_count", "as_duration",
    "as_duration_range", "as_message_rate", "as_messages", "as_offset", "as_rate", "as_seen",
    "as_share", "as_time", "as_took",
]  # fmt: skip

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_LONGEST_S = 100 * _DAY


def as_messages(count: float | None) -> str:
    """Format a number of messages: `0 msg`, `999 msg`, `1.2 k msg`, `12 M msg`."""
    if count is None:
        return UNKNOWN
    number, unit = scaled(count, 1000.0, DECIMAL)
    return f"{number} {unit} msg" if unit else f"{number} msg"


def as_copying(bytes_s: float | None) -> str:
    """Format the rate of copies: like `as_rate`, but `-` where nothing is copied."""
    return UNKNOWN if bytes_s is None or round(bytes_s) < 1 else as_rate(bytes_s)


def as_message_rate(messages_s: float | None) -> str:
    """Format a rate in messages: `12 k msg/s`."""
    return UNKNOWN if messages_s is None else f"{as_messages(messages_s)}/s"


def as_seen(seconds: float, *, whole: bool) -> str:
    """Format how long something lasted, as `at least 3m` where its beginning was not seen."""
    return as_duration(seconds) if whole else f"at least {as_duration(seconds)}"


def as_age(seconds: float) -> str:
    """Format an age in one unit: `12 s`, `3m`, `2h`, `4d`."""
    if seconds >= _LONGEST_S:
        return ">99d"
    whole = max(0, int(seconds))
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole} s"


def as_duration_range(left: Span) -> str:
    """Format a duration with its p10-p90, unless they read alike: `2m 10s (1m 50s-3m)`."""
    low, middle, high = map(as_duration, (left.low, left.middle, left.high))
    return middle if low == high == middle else f"{middle} ({low}-{high})"


def as_share(share: float | None, *, approximate: bool = False) -> str:
    """Format a share of 0 to 1 in percent, 100 only when it is all: `42%`, `~99%`."""
    if share is None or math.isnan(share):
        return UNKNOWN
    percent = int(min(max(share, 0.0), 1.0) * 100)
    return f"{'~' if approximate else ''}{percent}%"


def as_took(seconds: float) -> str:
    """Format how long a poll took: `9 ms`, `1.2 s`."""
    milliseconds = round(max(0.0, seconds) * 1000)
    return f"{milliseconds} ms" if milliseconds < MOST else f"{seconds:.1f} s"


def as_time(at: datetime) -> str:
    """Format a wall time in the operator's own time zone: `14:02:31`."""
    return f"{at.astimezone():%H:%M:%S}"


def as_offset(at: datetime) -> str:
    """Format the operator's offset from UTC at a moment: `+02:00`."""
    text = f"{at.astimezone():%z}"
    return f"{text[:3]}:{text[3:5]}"


def as_clock(at: datetime, now: datetime) -> str:
    """Format a coming time by the minute, with the date once it is another day: `15:20`."""
    local = at.astimezone()
    return f"{local:%H:%M}" if local.date() == now.astimezone().date() else f"{local:%b %-d %H:%M}"
