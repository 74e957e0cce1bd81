"""The figure of how long moves took, by how much they copied."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ktui.pipeline.lake.records import MoveRecord, ReportFacts
from ktui.pipeline.report.figures.figure import (
    JSON,
    Figure,
    Missing,
    layout,
    rows,
    scale_axis,
)
from ktui.pipeline.report.figures.moves import length, outcome
from ktui.pipeline.report.figures.text import (
    partition_name,
    short_partition_name,
    thinned,
    without_markup,
)
from ktui.quantities import as_bytes, as_count, as_duration, as_rate

ID, TITLE = "sizes", "Size and duration of the moves"
_MOST_POINTS = 1_000
_LOOKS = (("circle", 1), ("x", 3), ("square", 2), ("diamond", 4), ("triangle-up", 5))
"""The symbol and the colour of the outcomes, the most frequent one first."""
_BYTES = tuple(n * 1024**power for power in range(6) for n in (1, 4, 16, 64, 256))
_SECONDS = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400, 172800,
    604800,
)  # fmt: skip


def sizes_figure(facts: ReportFacts) -> Figure | Missing:
    """Draw each move as a point: what it copied, and how long it took."""
    end = facts.span[1]
    known = [move for move in facts.moves if move.bytes and length(move, end) > 0]
    if not known:
        return Missing(ID, TITLE, "Of no move is it known how much it copied.")
    known.sort(key=lambda move: (move.bytes or 0, move.key, move.began))
    of: dict[str, list[MoveRecord]] = {}
    for move in known:
        of.setdefault(outcome(move), []).append(move)
    drawn = thinned(known, _MOST_POINTS)
    chosen = {(move.key, move.began) for move in drawn}
    by_count = sorted(of, key=lambda each: (-len(of[each]), each))
    drawing = _layout(known, end)
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(known, end),
        caption=(
            "One point a move: the bytes that its new replicas copied, and the time from its first"
            " step to its end, with all waits in between. The line is the median pace; a point far"
            " above it waited, stood still or was slowed down." + _left_out(facts, known, drawn)
        ),
        traces=[
            *(
                _points(place, name, [m for m in of[name] if (m.key, m.began) in chosen], end)
                for place, name in enumerate(by_count)
            ),
            _pace_line(known, end, from_zero=drawing["xaxis"]["type"] == "linear"),
        ],
        layout=drawing,
        height=440,
        along_time=False,
        table=rows(
            ("outcome", "moves", "median size", "median duration", "longest"),
            (_row(name, of[name], end) for name in by_count),
        ),
    )


def _points(place: int, name: str, moves: Sequence[MoveRecord], end: int) -> JSON:
    symbol, colour = _LOOKS[place % len(_LOOKS)]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": without_markup(name),
        "x": [move.bytes for move in moves],
        "y": [length(move, end) / 1000 for move in moves],
        "customdata": [without_markup(_hover(move, end)) for move in moves],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "symbol": symbol,
            "color": f"var(--line-{colour})",
            "size": 9,
            "line": {"width": 1, "color": "var(--paper)"},
        },
    }


def _hover(move: MoveRecord, end: int) -> str:
    took = as_duration(length(move, end) / 1000)
    return f"{short_partition_name(move)}: {as_bytes(move.bytes)} in {took}, {outcome(move)}"


def _pace(moves: Sequence[MoveRecord], end: int) -> float:
    """Return the median of bytes by duration, in bytes a second."""
    return statistics.median((move.bytes or 0) * 1000 / length(move, end) for move in moves)


def _pace_line(known: Sequence[MoveRecord], end: int, *, from_zero: bool) -> JSON:
    pace = _pace(known, end)
    ends = [0 if from_zero else known[0].bytes or 0, known[-1].bytes or 0]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": without_markup(f"median, {as_rate(pace)}"),
        "x": ends,
        "y": [size / pace for size in ends],
        "hoverinfo": "skip",
        "line": {"color": "var(--limit)", "dash": "dash", "width": 2},
    }


def _layout(known: Sequence[MoveRecord], end: int) -> JSON:
    sizes = [float(move.bytes or 0) for move in known]
    times = [length(move, end) / 1000 for move in known]
    x = scale_axis("copied", sizes, _BYTES, lambda size: as_bytes(size).replace(".0 ", " "))
    y = scale_axis("took", times, _SECONDS, as_duration)
    return layout(x, y, hovermode="closest")


def _row(name: str, moves: Sequence[MoveRecord], end: int) -> tuple[str, ...]:
    times = [length(move, end) / 1000 for move in moves]
    size = statistics.median(move.bytes or 0 for move in moves)
    median = as_duration(statistics.median(times))
    return (name, f"{len(moves):,}", as_bytes(size), median, as_duration(max(times)))


def _says(known: Sequence[MoveRecord], end: int) -> str:
    pace = _pace(known, end)
    slowest = max(known, key=lambda move: length(move, end) / (move.bytes or 1))
    took = as_duration(length(slowest, end) / 1000)
    return (
        f"The median pace of {as_count(len(known), 'move')} was {as_rate(pace)}, waits included."
        f" The slowest for its size was {partition_name(slowest)}: {as_bytes(slowest.bytes)} in"
        f" {took}."
    )


def _left_out(facts: ReportFacts, known: Sequence[MoveRecord], drawn: Sequence[MoveRecord]) -> str:
    unknown = len(facts.moves) - len(known)
    words = f" Of {as_count(unknown, 'move')} the size is not known." if unknown else ""
    return words + (f" {len(drawn):,} of {len(known):,} are drawn." if drawn != known else "")
