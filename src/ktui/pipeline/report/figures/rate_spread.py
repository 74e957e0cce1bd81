"""The figure of the rates at which replicas were copied, by the size of their moves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from ktui.pipeline.lake.records import ReportFacts
from ktui.pipeline.report.figures.figure import (
    JSON,
    Figure,
    Missing,
    axis,
    layout,
    rows,
    scale_axis,
)
from ktui.pipeline.report.figures.palette import DASHES, LINES
from ktui.pipeline.report.figures.text import thinned
from ktui.quantities import as_bytes, as_count, as_rate

ID, TITLE = "rate-spread", "How fast replicas were copied, by size"
_CLASS = 16
"""Each class of sizes reaches up to so many times the smallest size in it."""
_RATES = tuple(n * 10**power for power in range(2, 11) for n in (1, 2, 5))


def rate_spread_figure(facts: ReportFacts) -> Figure | Missing:
    """Draw the distribution of the moves' median rates, for each class of sizes."""
    of: defaultdict[int, list[float]] = defaultdict(list)
    for move in facts.moves:
        if move.rate_bytes_p50 and move.bytes:
            of[size_class(move.bytes)].append(move.rate_bytes_p50)
    if not of:
        return Missing(ID, TITLE, "No rate of a copy could be worked out.")
    classes = {each: sorted(of[each]) for each in sorted(of)}
    everything = sorted(rate for rates in classes.values() for rate in rates)
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(everything),
        caption=(
            "The share of moves whose median rate of one replica was at most that of the axis. A"
            " steep line is an even rate, as a throttle makes it; a line further left is slower."
            " Small replicas are often slower, as a step takes some seconds whatever its size."
        ),
        traces=[
            _trace(place, each, rates) for place, (each, rates) in enumerate(classes.items())
        ],
        layout=layout(
            scale_axis("rate of one replica", everything, _RATES, _rate_text),
            axis("share of moves", range=[0, 1.03], tickformat=".0%"),
            hovermode="closest",
        ),
        along_time=False,
        table=rows(
            ("size", "moves", "slowest tenth", "median", "fastest tenth"),
            (
                (
                    class_text(each), f"{len(rates):,}",
                    *(as_rate(_quantile(rates, share)) for share in (0.1, 0.5, 0.9)),
                )
                for each, rates in classes.items()
            ),
        ),
    )  # fmt: skip


def size_class(bytes_: int) -> int:
    """Return the class of a size: the n with 16^n MiB <= size < 16^(n+1) MiB, at least -1."""
    return max(-1, math.floor(math.log(max(bytes_, 1) / 1024**2, _CLASS) + 1e-9))


def class_text(each: int) -> str:
    """Name a class of sizes."""
    start, end = (
        as_bytes(1024**2 * float(_CLASS) ** n).replace(".0 ", " ") for n in (each, each + 1)
    )
    return f"under {end}" if each < 0 else f"{start} to {end}"


def _rate_text(rate: float) -> str:
    return as_rate(rate).replace(".0 ", " ")


def _trace(place: int, each: int, rates: Sequence[float]) -> JSON:
    points = thinned([(rate, (n + 1) / len(rates)) for n, rate in enumerate(rates)])
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(rates) == 1 else "lines",
        "name": f"{class_text(each)} ({len(rates):,})",
        "showlegend": True,
        "x": [points[0][0], *(rate for rate, _ in points)],
        "y": [0.0, *(round(share, 4) for _, share in points)],
        "line": {
            "shape": "hv",
            "color": LINES[place % len(LINES)],
            "dash": DASHES[place % len(DASHES)],
            "width": 2,
        },
        "hovertemplate": f"{class_text(each)}: %{{y:.0%}} at most %{{x:.3s}}B/s<extra></extra>",
    }


def _quantile(sorted_rates: Sequence[float], share: float) -> float:
    """Return the smallest rate that at least this share of the moves did not exceed."""
    return sorted_rates[max(0, math.ceil(share * len(sorted_rates)) - 1)]


def _says(rates: Sequence[float]) -> str:
    slow, median, fast = (as_rate(_quantile(rates, share)) for share in (0.1, 0.5, 0.9))
    return (
        f"Half of {as_count(len(rates), 'move')} copied a replica at {median} or less; the slowest"
        f" tenth at {slow} or less, the fastest at more than {fast}."
    )
