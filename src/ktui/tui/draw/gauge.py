"""A gauge: how much of what a throttle lets through is used, in eighths of a cell."""

from __future__ import annotations

from ktui.quantities import DECIMAL, UNKNOWN, as_rate, scaled
from ktui.tui.draw.cells import Piece

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_WHOLE = len(_EIGHTHS) - 1
CELLS = 8


def gauge_bar(
    value: float | None, whole: float | None, cells: int = CELLS, role: str = "moving"
) -> list[Piece]:
    """Draw a value's share of a whole; without either, an empty gauge.

    A value above zero is never drawn as empty, and only the whole is drawn as full.
    """
    bar = gauge_eighths(value, whole, cells)
    empty = "·" * (cells - len(bar))
    return [Piece("▕", "dim"), Piece(bar, role), Piece(empty, "dim"), Piece("▏", "dim")]


def gauge_eighths(value: float | None, whole: float | None, cells: int) -> str:
    """Draw the filled part of a gauge, by the rules of `gauge_bar`."""
    full, part = divmod(_eighths(value, whole, cells), _WHOLE)
    return "█" * full + (_EIGHTHS[part] if part else "")


def _eighths(value: float | None, whole: float | None, cells: int) -> int:
    if not value or not whole or value <= 0.0 or whole <= 0.0:
        return 0
    most = cells * _WHOLE
    if value >= whole:
        return most
    return min(most - 1, max(1, round(value / whole * most)))


def rate_gauge(
    value: float | None,
    throttle: float | None,
    highest: float | None = None,
    *,
    cells: int = CELLS,
    broken: bool = False,
) -> list[Piece]:
    """Draw a rate against its throttle; without a throttle, against the highest rate seen.

    Args:
        value: bytes a second; None where unknown.
        throttle: the most that may flow; None for no throttle.
        highest: the highest rate seen.
        cells: the cells of the bar.
        broken: whether the throttle should bind and does not: drawn with `!`.
    """
    role = "stalled" if broken else "moving"
    bar = gauge_bar(value, highest if throttle is None else throttle, cells, role)
    sign = [Piece(" !", "stalled", bold=True)] if broken else []
    figure = Piece(f" {rate_of(value, throttle)}", "stalled" if broken else "", bold=broken)
    return [*bar, *sign, figure]


def rate_of(value: float | None, throttle: float | None) -> str:
    """Format a rate and its throttle with one unit: `0.68/0.70 MB/s`."""
    if throttle is None:
        return as_rate(value)
    if value is None:
        return f"{UNKNOWN}/{as_rate(throttle)}"
    limit, unit = scaled(throttle, 1000.0, DECIMAL)
    size = 1000.0 ** DECIMAL.index(unit)
    digits = len(limit.partition(".")[2])
    return f"{value / size:.{digits}f}/{limit} {unit}B/s"
