"""Sizes, rates, durations, shares and counts: formatted for people, and parsed as typed."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any, Final

UNKNOWN: Final = "-"
DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_UNITS = {f"{unit}B": 1000**power for power, unit in enumerate(DECIMAL[:6])}
_UNITS |= {unit: 1024**power for power, unit in enumerate(_BINARY[:6])}
_BYTES = {**_UNITS, "KB": 1000}
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_LONGEST_S = 100 * _DAY
MOST = 1000  # numbers have at most three digits; from here on the next unit is used


def as_bytes(count: float | None) -> str:
    """Format a size in binary units, as disks are measured: `0 B`, `1.5 MiB`, `412 GiB`."""
    if count is None:
        return UNKNOWN
    number, unit = scaled(count, 1024.0, _BINARY)
    return f"{number} {unit}"


def as_size(count: int) -> str:
    """Format a size exactly, in the largest unit without a remainder: `64MiB`, `50MB`, `1001B`."""
    units = sorted(_UNITS.items(), key=lambda unit: unit[1])
    name, unit = next((n, u) for n, u in reversed(units) if count % u == 0 and (count or u == 1))
    return f"{count // unit}{name}"


def as_rate(bytes_s: float | None) -> str:
    """Format a rate in decimal units, as networks and throttles are measured: `48 MB/s`."""
    if bytes_s is None:
        return UNKNOWN
    number, unit = scaled(bytes_s, 1000.0, DECIMAL)
    return f"{number} {unit}B/s"


def as_rate_above(bytes_s: float) -> str:
    """Format a rate as `as_rate` does, but rounded up: for a bound that has to be exceeded."""
    number, exponent = max(0.0, float(bytes_s)), 0
    while number >= MOST - 1:
        number /= 1000.0
        exponent += 1
    tenths = exponent > 0 and number <= 9.9  # noqa: PLR2004 - as_rate shows a decimal
    up = math.ceil(round(number * 10, 6)) / 10 if tenths else math.ceil(round(number, 6))
    return as_rate(up * 1000.0**exponent)


def as_duration(seconds: float | None) -> str:
    """Format a duration in its two largest units: `4 s`, `2m 10s`, `1h 5m`, `3d 4h`, `>99d`."""
    if seconds is None or math.isnan(seconds):
        return UNKNOWN
    whole = round(min(max(seconds, 0.0), _LONGEST_S))
    if whole >= _LONGEST_S:
        return ">99d"
    if whole < _MINUTE:
        return f"{whole} s"
    for large, small, names in ((_DAY, _HOUR, "dh"), (_HOUR, _MINUTE, "hm")):
        if whole >= large:
            return _two_units(whole // large, names[0], whole % large // small, names[1])
    return _two_units(whole // _MINUTE, "m", whole % _MINUTE, "s")


def as_count(count: int, noun: str, nouns: str = "") -> str:
    """Format a count with its noun: `1 partition`, `12,034 partitions`."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def scaled(value: float, base: float, units: tuple[str, ...]) -> tuple[str, str]:
    """Scale to the first unit with three digits at most, with one decimal below ten."""
    value = min(max(0.0, float(value)), 999 * base ** (len(units) - 1))
    exponent = 0
    while round(value) >= MOST:
        value /= base
        exponent += 1
    decimal = f"{value:.1f}"
    small = exponent > 0 and len(decimal) == len("9.9")
    return (decimal if small else str(round(value))), units[exponent]


def _two_units(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit} {small}{small_unit}" if small else f"{large}{unit}"


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
    """Parse a quantity that was typed: with a unit, or digits alone in the base unit.

    The number is one of Python's own: journals and JSON encode no other.
    """
    quantity = parse_quantity(kind, int(text) if text.isdecimal() else text)
    return int(quantity) if isinstance(quantity, int) else float(quantity)


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
