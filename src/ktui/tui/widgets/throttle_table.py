"""The throttle of each broker that a run copies into, a row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.content import Content

from ktui.progress.inflow import Inflow
from ktui.tui import figures
from ktui.tui.cells import Piece, cut_pieces
from ktui.tui.paint import content
from ktui.tui.runs.throttle_now import RateNow

_GAP = "  "
_LEAST = 6


def throttle_table(rows: Sequence[RateNow], width: int) -> list[Content]:
    """Lay the rows out in `width` cells, the heading first; the last column is cut to fit."""
    if not rows:
        return [Content.styled("No broker gets replicas any more.", "$dim")]
    cells = [[cell(row) for _, cell in _COLUMNS] for row in rows]
    widths = [
        max(_LEAST, len(heading), *(len(line[at].text) for line in cells))
        for at, (heading, _) in enumerate(_COLUMNS)
    ]
    heading = [Piece(name, "header") for name, _ in _COLUMNS]
    return [_line(line, widths, width) for line in (heading, *cells)]


def _line(cells: Sequence[Piece], widths: Sequence[int], width: int) -> Content:
    pieces: list[Piece] = []
    for cell, room in zip(cells, widths, strict=True):
        pieces += [cell, Piece(" " * (room - len(cell.text)) + _GAP)]
    return content(cut_pieces(pieces[:-1], width))


def _broker(row: RateNow) -> Piece:
    return Piece(f"{row.broker}{' out' if row.sends else ''}", bold=True)


def _wanted(row: RateNow) -> Piece:
    return Piece("none") if row.wanted is None else Piece(figures.as_rate(row.wanted))


def _of(value: Callable[[Inflow], str]) -> Callable[[RateNow], Piece]:
    def cell(row: RateNow) -> Piece:
        text = figures.UNKNOWN if row.inflow is None else value(row.inflow)
        return Piece(text, "dim" if text == figures.UNKNOWN else "")

    return cell


def _inbound(row: RateNow) -> Piece:
    """Give what is written, with a sign where no less is than the throttle lets through."""
    written = None if row.inflow is None else row.inflow.inbound_bytes_s
    if written is not None and row.wanted is not None and written >= row.wanted:
        return Piece(f"! {figures.as_rate(written)}", "stalled", bold=True)
    return Piece(figures.as_rate(written), "dim" if written is None else "")


def _fastest(inflow: Inflow) -> str:
    if inflow.fastest is None:
        return figures.UNKNOWN
    return f"{figures.as_rate(inflow.fastest_bytes_s)} {inflow.fastest}"


_COLUMNS: tuple[tuple[str, Callable[[RateNow], Piece]], ...] = (
    ("broker", _broker),
    ("throttle", _wanted),
    ("set now", lambda row: Piece(row.set_to, "" if row.set_to != "-" else "dim")),
    ("before", lambda row: Piece(row.found, "dim")),
    ("copied in", _of(lambda inflow: figures.as_copying(inflow.bytes_s))),
    ("written", _inbound),
    ("fastest inbound", _of(_fastest)),
)
