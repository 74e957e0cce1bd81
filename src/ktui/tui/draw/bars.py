"""Bars of text: how full, what changes, and a rate against its objective."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise
from operator import itemgetter

from ktui.execution.throttle.objective import BAND
from ktui.quantities import DECIMAL, UNKNOWN, as_rate, scaled
from ktui.tui.draw.cells import BARS, Cell, Piece, pieces_width

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
    *,
    cells: int = CELLS,
    broken: bool = False,
) -> list[Piece]:
    """Draw a rate against its throttle; without one, its place is blank. `!` if it is `broken`."""
    role = "stalled" if broken else "moving"
    bar = gauge_bar(value, throttle, cells, role)
    if throttle is None:
        bar = [Piece(" " * pieces_width(bar))]
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


_SIGNS = {
    "stays": Cell("█", "header"), "comes": Cell("▓", "moving"), "goes": Cell("░", "retiring"),
}  # fmt: skip
_NOTHING = "·"


def change_bar(stays: int, comes: int, goes: int, whole: int, cells: int) -> list[Piece]:
    """Draw parts of a whole: `████▓▓░···`, in at least three cells.

    What stays and what comes are there afterwards; what stays and what goes are there now. No part
    above zero is left out.
    """
    parts = [*zip((max(0, each) for each in (stays, comes, goes)), _SIGNS.values(), strict=True)]
    pieces = parts_bar(parts, cells, whole)
    rest = cells - pieces_width(pieces)
    return [*pieces, Piece(_NOTHING * rest, "rule")] if rest else pieces


def change_legend() -> list[Piece]:
    """Return the meaning of the signs of a bar."""
    pieces: list[Piece] = []
    for word, sign in _SIGNS.items():
        pieces += [Piece("   "), Piece(sign.glyph * 2, sign.role), Piece(f" {word}", "dim")]
    return pieces[1:]


def parts_bar(parts: Sequence[tuple[int, Cell]], cells: int, whole: int = 0) -> list[Piece]:
    """Draw parts of a whole, or of their larger sum, in their signs; none above zero is left out.

    That holds while there are as many cells as parts.
    """
    counts = [count for count, _ in parts]
    whole = max(whole, sum(counts))
    if whole <= 0:
        return []
    ends = [round(end * cells / whole) for end in accumulate(counts)]
    lengths = [
        max(end - start, int(count > 0))
        for start, end, count in zip([0, *ends[:-1]], ends, counts, strict=True)
    ]
    while sum(lengths) > cells:
        longest = lengths.index(max(lengths))
        lengths[longest] -= 1
    pairs = zip(lengths, parts, strict=True)
    return [Piece(sign.glyph * length, sign.role) for length, (_, sign) in pairs if length]


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


_LONGEST_BRIDGE = 6
_JUST_ABOVE = 0.05  # of a limit: what is measured swings by so much around it
_NICE = (10, 12, 16, 20, 30, 40, 50, 60, 80, 100, 120)
_SMALL = 10
LIMIT = "▁"  # the sign of a limit in a chart


def nice_ceiling(value: int) -> int:
    """Return a round number that is at least `value`, and whose half is round too."""
    if value <= _SMALL:
        return max(2, value + value % 2)
    power: int = 10 ** (int(math.log10(value)) - 1)
    return next(step * power for step in _NICE if step * power >= value)


def chart_top(values: Iterable[float | None], limits: Iterable[float | None], height: int) -> float:
    """Return the value at full height, for which the highest limit lies between two lines."""
    limit = max((each for each in limits if each), default=0.0)
    highest = max((each for each in values if each), default=0.0)
    top = float(nice_ceiling(round(max(highest, limit))))
    lines = min(height - 1, round(limit / top * height))
    fitting = limit * height / lines if lines > 0 else 0.0
    return fitting if fitting >= highest else top


def area_heights(
    values: Sequence[float | None], width: int, height: int, top: float
) -> list[int | None]:
    """Return the height in eighths of a line at each cell, the highest of its values, if known."""
    most = height * _WHOLE
    return [_height(_highest(values, cell, width), most, top) for cell in range(width)]


def _highest(values: Sequence[float | None], cell: int, width: int) -> float | None:
    first = cell * len(values) // width
    last = max(first + 1, (cell + 1) * len(values) // width)
    return max((value for value in values[first:last] if value is not None), default=None)


def _height(value: float | None, most: int, top: float) -> int | None:
    if value is None:
        return None
    if value <= 0.0 or top <= 0.0:
        return 0
    return min(most, max(1, round(min(1.0, value / top) * most)))


def area_chart(values: Sequence[float | None], width: int, height: int, top: float) -> list[str]:
    """Draw the area in `height` lines of `width` cells; gaps stay blank, zero is a dot."""
    heights = area_heights(values, width, height, top)
    return ["".join(_block(each, row) for each in heights) for row in reversed(range(height))]


def _block(height: int | None, row: int) -> str:
    if height is None:
        return " "
    if height == 0 and row == 0:
        return "·"
    return (" " + BARS)[min(_WHOLE, max(0, height - row * _WHOLE))]


def limited_chart(
    values: Sequence[float | None],
    limits: Sequence[float | None],
    width: int,
    height: int,
    top: float,
) -> list[list[Piece]]:
    """Draw the area with a line where its limit is."""
    lines = area_chart(values, width, height, top)
    levels = _bridged([_highest(limits, cell, width) for cell in range(width)])
    eighths = [
        None if level is None or top <= 0.0 else round(level / top * height * _WHOLE, 6)
        for level in levels
    ]
    return [
        _limited_line(line, eighths, row, last=height - 1)
        for row, line in zip(reversed(range(height)), lines, strict=True)
    ]


def _limited_line(line: str, limits: Sequence[float | None], row: int, *, last: int) -> list[Piece]:
    """Draw the limits of a row over it, but for cells that are filled well beyond their limit."""
    here = [limit is not None and min(last, int(limit / _WHOLE)) == row for limit in limits]
    most = [(limit or 0.0) * (1 + _JUST_ABOVE) - row * _WHOLE for limit in limits]
    cells = [
        LIMIT if limited and not _passes(cell, eighths) else cell
        for cell, eighths, limited in zip(line, most, here, strict=True)
    ]
    return [
        Piece("".join(cell for _, cell in part), "falling-behind" if limited else "moving")
        for limited, part in groupby(zip(here, cells, strict=True), key=itemgetter(0))
    ]


def _passes(cell: str, limit: float) -> bool:
    """Whether a cell is filled beyond so many eighths of it."""
    return cell in BARS and BARS.index(cell) + 1 > math.ceil(limit)


def _bridged(levels: Sequence[float | None]) -> list[float | None]:
    """Draw a limit on between two steps of a run, when for a moment nothing is copied."""
    bridged = list(levels)
    known = [cell for cell, level in enumerate(levels) if level is not None]
    for one, other in pairwise(known):
        if other - one <= _LONGEST_BRIDGE and levels[one] == levels[other]:
            bridged[one:other] = [levels[one]] * (other - one)
    return bridged
