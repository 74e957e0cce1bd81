"""The picture of an objective: for each broker its figure, its rate, and why that moved last."""

from __future__ import annotations

from typing import NamedTuple

from textual.content import Content

from ktui.execution.run.events import HeldBroker, RateCause, RateHeld, RateReason
from ktui.execution.run.text import reason_text
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.objective import BAND
from ktui.planning.throttle_rates import Objective
from ktui.quantities import as_count, as_rate
from ktui.tui.draw import format as figures
from ktui.tui.draw.bars import BAR_CELLS, BELOW, band_cells, objective_bar
from ktui.tui.draw.cells import Piece, cut_pieces
from ktui.tui.draw.paint import content

_GAP = "  "
_FIGURE, _RATE = 8, 9
_MOVES = {
    RateCause.OVER: "down",
    RateCause.FAR_OVER: "down",
    RateCause.UNDER: "up",
    RateCause.IN_BAND: "stays",
}


class _Row(NamedTuple):
    name: str
    rate: int | None
    figure: float | None
    why: RateReason | None

    @property
    def aim(self) -> float:
        return 1.0 if self.why is None else self.why.aim


def objective_table(objective: Objective, held: RateHeld | None, width: int) -> list[Content]:
    """Lay out the picture in `width` cells: a sentence, a heading, and a row for each broker."""
    if held is None:
        nothing = f"{objective}: nothing was copied yet, so each broker has {as_rate(FLOOR)}."
        return [Content.styled(nothing, "$dim")]
    rows = [_of_broker(each) for each in held.brokers]
    rows = rows or [_Row("all", held.rate, held.figure, held.why)]
    names = max(len("broker"), *(len(row.name) for row in rows))
    lines = [_heading(objective, rows, names), *(_line(objective, row, names) for row in rows)]
    return [_sentence(objective, held), *(content(cut_pieces(line, width)) for line in lines)]


def broker_objective(
    objective: Objective, held: RateHeld, broker: int
) -> list[tuple[str, Content]]:
    """Return the facts of an objective about one broker, with labels; none where it has none."""
    of = next((each for each in held.brokers if each.broker == broker), None)
    if of is None:
        return []
    row = _of_broker(of)
    bar = content([*objective_bar(of.figure, objective.below, row.aim), *_figure(objective, row)])
    if of.rate is None:
        return [(str(objective), bar)]
    why = "" if of.why is None else f"; {reason_text(of.why, of.rate, objective)}"
    return [(str(objective), bar), ("held at", Content(f"{as_rate(of.rate)}{why}"))]


def _of_broker(of: HeldBroker) -> _Row:
    sends = f"{of.broker} sends"
    return _Row(str(of.broker) if of.rate is not None else sends, of.rate, of.figure, of.why)


def _sentence(objective: Objective, held: RateHeld) -> Content:
    kept = f"{objective} held in {held.kept:,} of {as_count(held.windows, 'window')}."
    if held.figure is None:
        return Content.assemble((f"{kept} ", "$dim"), (f"No figure: {held.reason}.", "$warning"))
    return Content.styled(f"{kept} Mean in ░: the rate stays; below, it rises.", "$dim")


def _heading(objective: Objective, rows: list[_Row], names: int) -> list[Piece]:
    aim = min(row.aim for row in rows)
    first, _ = band_cells(aim)
    start = f"{objective.below * BAND * aim:.6g}".rjust(first)
    start = f"0{start[1:]}" if start.startswith("  ") else start  # never run together: 0147.2
    axis = start.ljust(BELOW + 1) + objective.value(objective.below)
    cells = (
        "broker".ljust(names),
        axis.ljust(BAR_CELLS)[:BAR_CELLS],
        objective.name[:_FIGURE].rjust(_FIGURE),
        "rate in".rjust(_RATE),
        "why",
    )
    return [Piece(_GAP.join(cells), "header")]


def _line(objective: Objective, row: _Row, names: int) -> list[Piece]:
    return [
        Piece(row.name.ljust(names) + _GAP, bold=True),
        *objective_bar(row.figure, objective.below, row.aim),
        *_figure(objective, row),
        Piece(_GAP),
        Piece(("" if row.rate is None else as_rate(row.rate)).rjust(_RATE)),
        Piece(_GAP),
        Piece(_why(objective, row), "dim"),
    ]


def _figure(objective: Objective, row: _Row) -> list[Piece]:
    over = row.figure is not None and row.figure > objective.below
    value = figures.UNKNOWN if row.figure is None else objective.value(row.figure)
    return [Piece(_GAP), Piece(value.rjust(_FIGURE), "stalled" if over else "", bold=over)]


def _why(objective: Objective, row: _Row) -> str:
    why = row.why
    if why is None:
        return ""
    whose = "" if why.of is None or row.name == str(why.of) else f"b{why.of}"
    if why.cause is RateCause.NO_FIGURE:
        return f"no figure of {whose}" if whose else "no figure"
    if why.cause is RateCause.UNUSED or why.figure is None:
        return f"stays: {figures.as_share(why.used)} used"
    least = row.rate == FLOOR and why.cause in (RateCause.OVER, RateCause.FAR_OVER)
    move = "least" if least else _MOVES[why.cause]
    return f"{move}: {whose}{' ' if whose else ''}{objective.value(why.figure)}"
