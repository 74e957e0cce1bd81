"""Moments of a recording as people type them: a time of day, a date and time, or how far in."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from ktui.recording.replay_tape import Tape
from ktui.units import Seconds, read

EXAMPLES = "14:02:31, 2026-11-21 14:02, or +1h30m from the beginning"
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")


def second_of(text: str, tape: Tape) -> float:
    """Give the second of a tape that is meant.

    Args:
        text: a time of day is the first one after the beginning; times are local unless an offset
            stands with them.
        tape: the recording.

    Raises:
        ValueError: it is none of its moments; says why, and what can be given.
    """
    text = text.strip()
    if text.startswith("+"):
        at_s = tape.from_s + _duration(text[1:])
    else:
        at = _time_of_day(text, tape.wall(tape.from_s)) or _exact(text)
        if at is None:
            raise ValueError(f"{text!r} is no moment. Give {EXAMPLES}")
        at_s = tape.second(at)
    if not tape.from_s <= at_s <= tape.until_s:
        raise ValueError(f"{text} is not in the recording, which goes {reach(tape)}")
    return at_s


def reach(tape: Tape) -> str:
    """Say from when to when a recording goes, in local time."""
    first, last = tape.wall(tape.from_s).astimezone(), tape.wall(tape.until_s).astimezone()
    day = "" if last.date() == first.date() else f"{last:%Y-%m-%d} "
    return f"from {first:%Y-%m-%d %H:%M:%S} to {day}{last:%H:%M:%S}"


def _duration(text: str) -> float:
    try:
        return float(read(Seconds, text.strip()))
    except ValueError as error:
        raise ValueError(f"+{text} is no moment: {error}") from None


def _time_of_day(text: str, begins: datetime) -> datetime | None:
    """Give the first moment not before the beginning at which local clocks show this."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups())
    local = begins.astimezone().replace(tzinfo=None)  # without an offset: it may change meanwhile
    given = local.replace(hour=hour, minute=minute, second=second, microsecond=0)
    whole = local.replace(microsecond=0)
    found = (given if given >= whole else given + timedelta(days=1)).astimezone()
    return max(found, begins) if given == whole else found


def _exact(text: str) -> datetime | None:
    if "T" not in text.upper() and " " not in text:
        return None  # a date alone is the midnight that it begins with: hardly meant
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None
