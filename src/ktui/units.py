"""Parse sizes, rates, times and shares, `4GiB`, `50MB/s`, `2m30s`, `30%`, and moments."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any

_DECIMAL = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
_BYTES = {**_DECIMAL, **_BINARY}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_NUMBER = r"\d{1,15}(?:\.\d{1,15})?"
_SIZE = re.compile(rf"({_NUMBER}) ?([A-Za-z]+)")
_DURATION = re.compile(rf"(?:{_NUMBER} ?(?:ms|[smhd]) ?)+")
_PART = re.compile(rf"({_NUMBER}) ?(ms|[smhd])")
_PERCENT = re.compile(rf"({_NUMBER}) ?%")
_LARGEST = 1e18
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")


class Size(int):
    """A size in bytes."""


class Rate(float):
    """A rate in bytes a second."""


class Seconds(float):
    """A time or a duration, in seconds."""


class Share(float):
    """A share from 0 to 1."""


def parse_quantity(kind: type, value: Any) -> Any:
    """Parse a quantity from a file: a number in the base unit, or text; else ValueError."""
    if kind is Size:
        return Size(_bytes(value, "expected a size such as 50MB, 4GiB or a count of bytes"))
    if kind is Rate:
        text = value.removesuffix("/s") if isinstance(value, str) else value
        return Rate(_bytes(text, "expected a rate such as 50MB/s or a count of bytes a second"))
    if kind is Seconds:
        return Seconds(_seconds(value, "expected a time such as 90s, 5m, 1h30m or seconds"))
    if kind is Share:
        return Share(_share(value, "expected a share such as 30% or 0.3"))
    raise NotImplementedError(kind)


def parse_typed(kind: type, text: str) -> Any:
    """Parse a quantity that was typed: with a unit, or digits alone in the base unit."""
    return parse_quantity(kind, int(text) if text.isdecimal() else text)


def parse_clock(text: str) -> tuple[int, int, int] | None:
    """Return the hour, minute and second of a time of day, `15:00` or `15:00:30`; else None."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups())
    return hour, minute, second


def parse_moment(text: str) -> datetime | None:
    """Return a date and time in ISO 8601, local unless it has an offset; None for anything else."""
    if "T" not in text.upper() and " " not in text:
        return None  # a date alone would mean the midnight at its start, which is hardly meant
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None


def _bytes(value: Any, expected: str) -> float:
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return _number(value, expected)
    unit = match[2]
    if unit not in _BYTES:
        raise ValueError(f"unknown unit {unit!r}; {expected}")
    return _within(float(match[1]) * _BYTES[unit], expected)


def _seconds(value: Any, expected: str) -> float:
    if not isinstance(value, str) or not _DURATION.fullmatch(value.strip()):
        return _number(value, expected)
    parts = _PART.findall(value)
    return _within(sum(float(number) * _SECONDS[unit] for number, unit in parts), expected)


def _share(value: Any, expected: str) -> float:
    match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    share = _number(value, expected) if match is None else float(match[1]) / 100
    if share > 1:
        raise ValueError(f"{expected}, and at most 100 %")
    return share


def _number(value: Any, expected: str) -> float:
    """Accept a number without a unit: YAML has parsed it already."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{expected}, got {value!r:.40}")  # noqa: TRY004 - a mistake in a file
    return _within(value, expected)


def _within(value: float, expected: str) -> float:
    if value > _LARGEST and value != math.inf:  # an int may be too large for a float
        raise ValueError(f"{expected}; {str(value)[:20]} is too large")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{expected}, and not less than 0")
    return value
