"""Parse moments of a recording: a time of day, a date and time, or an offset from the beginning."""

from __future__ import annotations

from datetime import datetime, timedelta

from ktui.recording.replay_tape import Tape
from ktui.units import Seconds, parse_clock, parse_moment, parse_quantity

EXAMPLES = "14:02:31, 2026-11-21 14:02, or +1h30m from the beginning"


def parse_second(text: str, tape: Tape) -> float:
    """Return the second of a tape that a text means.

    Args:
        text: the moment. A time of day is the first one after the beginning. Times are local unless
            they have an offset.
        tape: the recording.

    Raises:
        ValueError: the text is not a moment of the recording; the message says why, and which
            moments are possible.
    """
    text = text.strip()
    if text.startswith("+"):
        at_s = tape.from_s + _duration(text[1:])
    else:
        at = _time_of_day(text, tape.wall(tape.from_s)) or parse_moment(text)
        if at is None:
            raise ValueError(f"{text!r} is not a moment. Use {EXAMPLES}")
        at_s = tape.second(at)
    if not tape.from_s <= at_s <= tape.until_s:
        raise ValueError(f"{text} is not in the recording, which runs {describe_range(tape)}")
    return at_s


def describe_range(tape: Tape) -> str:
    """Return the first and the last moment of a recording as text, in local time."""
    first, last = tape.wall(tape.from_s).astimezone(), tape.wall(tape.until_s).astimezone()
    day = "" if last.date() == first.date() else f"{last:%Y-%m-%d} "
    return f"from {first:%Y-%m-%d %H:%M:%S} to {day}{last:%H:%M:%S}"


def _duration(text: str) -> float:
    try:
        return float(parse_quantity(Seconds, text.strip()))
    except ValueError as error:
        raise ValueError(f"+{text} is not a moment: {error}") from None


def _time_of_day(text: str, beginning: datetime) -> datetime | None:
    """Return the first moment, not before the beginning, at which local clocks show this time."""
    clock = parse_clock(text)
    if clock is None:
        return None
    hour, minute, second = clock
    # without an offset: the offset may change meanwhile
    local = beginning.astimezone().replace(tzinfo=None)
    typed = local.replace(hour=hour, minute=minute, second=second, microsecond=0)
    whole = local.replace(microsecond=0)
    found = (typed if typed >= whole else typed + timedelta(days=1)).astimezone()
    return max(found, beginning) if typed == whole else found
