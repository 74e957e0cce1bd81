"""Bars of text: how full, what changes, and a rate against its objective."""

from __future__ import annotations

from collections.abc import Sequence

from ktui.execution.throttle.objective import BAND
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
    """Draw a rate against its throttle or, without one, the highest rate; `!` if it is `broken`."""
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


_STAYS, _COMES, _GOES, _NOTHING = "█", "▓", "░", "·"
_ROLES = ("header", "moving", "retiring")


def change_bar(stays: int, comes: int, goes: int, whole: int, cells: int) -> list[Piece]:
    """Draw parts of a whole: `████▓▓░···`, in at least three cells.

    What stays and what comes are there afterwards; what stays and what goes are there now. No part
    above zero is left out.
    """
    parts = (max(0, stays), max(0, comes), max(0, goes))
    lengths = _lengths(parts, max(whole, sum(parts)), cells)
    signs = zip((_STAYS, _COMES, _GOES), _ROLES, lengths, strict=True)
    pieces = [Piece(sign * length, role) for sign, role, length in signs if length]
    rest = cells - sum(lengths)
    return [*pieces, Piece(_NOTHING * rest, "rule")] if rest else pieces


def change_legend() -> list[Piece]:
    """Return the meaning of the signs of a bar."""
    words = zip((_STAYS, _COMES, _GOES), _ROLES, ("stays", "comes", "goes"), strict=True)
    gap, pieces = Piece("   "), list[Piece]()
    for sign, role, word in words:
        pieces += [gap, Piece(sign * 2, role), Piece(f" {word}", "dim")]
    return pieces[1:]


def _lengths(parts: tuple[int, ...], whole: int, cells: int) -> list[int]:
    if whole <= 0:
        return [0] * len(parts)
    ends = [round(sum(parts[: end + 1]) * cells / whole) for end in range(len(parts))]
    starts = [0, *ends[:-1]]
    lengths = [
        max(end - start, int(part > 0))
        for start, end, part in zip(starts, ends, parts, strict=True)
    ]
    while sum(lengths) > cells:
        longest = lengths.index(max(lengths))
        lengths[longest] -= 1
    return lengths


BELOW, ABOVE = 15, 4  # the cells up to the objective, and those above it
BAR_CELLS = 1 + BELOW + 1 + ABOVE + 1
"""The cells of a bar with its ends and the mark of the objective."""
_BEYOND = "»"


def band_cells(aim: float) -> tuple[int, int]:
    """Return the first cell of the band and the one after it, for the part that is aimed at."""
    return round(BELOW * BAND * aim), round(BELOW * aim)


def objective_bar(figure: float | None, below: float, aim: float = 1.0) -> list[Piece]:
    """Draw a figure against its objective; without a figure only the band up to the aim."""
    over = figure is not None and figure > below
    role = "stalled" if over else "in-sync"
    full = gauge_eighths(figure, below, BELOW)
    first, end = band_cells(aim)
    empty = "".join("░" if first <= cell < end else "·" for cell in range(len(full), BELOW))
    above = _above(figure, below) if over else ""
    return [
        Piece("▕", "dim"),
        Piece(full, role),
        Piece(empty, "dim"),
        Piece("│"),
        Piece(above, role, bold=True),
        Piece(" " * (ABOVE - len(above))),
        Piece("▏", "dim"),
    ]


def _above(figure: float | None, below: float) -> str:
    most = below * ABOVE / BELOW
    more = (figure or 0.0) - below
    return "█" * (ABOVE - 1) + _BEYOND if more > most else gauge_eighths(more, most, ABOVE)


_DOTS = 4
_BLANK = 0x2800
_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)


def area_heights(
    values: Sequence[float | None], points: int, height: int, top: float
) -> list[int | None]:
    """Return the height in dots at each point of time, the highest of its values, if known."""
    most = height * _DOTS
    return [_height(_highest(values, point, points), most, top) for point in range(points)]


def _highest(values: Sequence[float | None], point: int, points: int) -> float | None:
    first = point * len(values) // points
    last = max(first + 1, (point + 1) * len(values) // points)
    return max((value for value in values[first:last] if value is not None), default=None)


def _height(value: float | None, most: int, top: float) -> int | None:
    if value is None:
        return None
    if value <= 0.0 or top <= 0.0:
        return 0
    return min(most, max(1, round(min(1.0, value / top) * most)))


def area_chart(values: Sequence[float | None], width: int, height: int, top: float) -> list[str]:
    """Draw the area in `height` lines of `width` cells; gaps stay blank, zero is a dot."""
    heights = area_heights(values, 2 * width, height, top)
    pairs = list(zip(heights[::2], heights[1::2], strict=True))
    return ["".join(_cell(pair, row) for pair in pairs) for row in reversed(range(height))]


def _cell(pair: tuple[int | None, int | None], row: int) -> str:
    left, right = (_dots(height, row) for height in pair)
    return chr(_BLANK + _LEFT[left] + _RIGHT[right]) if left or right else " "


def _dots(height: int | None, row: int) -> int:
    if height is None:
        return 0
    shown = max(1, height) if row == 0 else height
    return min(_DOTS, max(0, shown - row * _DOTS))
