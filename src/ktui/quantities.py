"""Format sizes, rates, durations and counts for people: short, with a unit."""

from __future__ import annotations

import math
from typing import Final

UNKNOWN: Final = "-"
DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
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
    decimal = ((f"{unit}B", 1000**power) for power, unit in enumerate(DECIMAL[:6]))
    binary = ((unit, 1024**power) for power, unit in enumerate(_BINARY[:6]))
    units = sorted((*decimal, *binary), key=lambda unit: unit[1])
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
