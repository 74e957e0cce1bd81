"""A bar of a figure against its objective, with the band in which the rate stays.

```
▕██████······░░░│    ▏  below the band: the rate rises
▕█████████████░░│    ▏  in the band: the rate stays
▕███████████████│███ ▏  above the objective: the rate falls
```
"""

from __future__ import annotations

from ktui.execution.throttle.objective import BAND
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.gauge import gauge_eighths

BELOW, ABOVE = 15, 4
"""The cells up to the objective, and those above it."""
BAR_CELLS = 1 + BELOW + 1 + ABOVE + 1
"""The cells of a bar with its ends and the mark of the objective."""
_BEYOND = "»"


def band_cells(aim: float) -> tuple[int, int]:
    """Return the first cell of the band, and the one after its last.

    Args:
        aim: the part of the objective that the controller stays below.
    """
    return round(BELOW * BAND * aim), round(BELOW * aim)


def objective_bar(figure: float | None, below: float, aim: float = 1.0) -> list[Piece]:
    """Draw a figure against its objective; without a figure only the band.

    Args:
        figure: the figure, in the objective's unit.
        below: the objective's value.
        aim: the part of it that the controller stays below.
    """
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
    """Draw what is above the objective, on the same scale."""
    most = below * ABOVE / BELOW
    more = (figure or 0.0) - below
    return "█" * (ABOVE - 1) + _BEYOND if more > most else gauge_eighths(more, most, ABOVE)
