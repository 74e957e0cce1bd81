"""The figure of the live view's time left, against the time that was really left."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence

from ktui.pipeline.lake.records import ForecastRecord, ReportFacts
from ktui.pipeline.report.figures.figure import (
    JSON,
    Figure,
    Missing,
    axis,
    layout,
    rows,
    time_axis,
)
from ktui.pipeline.report.figures.text import as_time, breaks, thinned, without_markup
from ktui.quantities import as_duration

ID, TITLE = "eta", "The time left, as predicted and as it was"
_MOST_ROWS = 40
_HALF = 0.1
"""Shares no further than this from 0.5 count as half way."""

_UNITS = (("hours", 3_600, 3 * 3_600), ("minutes", 60, 180), ("seconds", 1, 0))
"""The units of the scale: seconds in each, and the seconds from which on it is used."""

_Of = Callable[[ForecastRecord], float | None]


def eta_figure(facts: ReportFacts) -> Figure | Missing:
    """Draw the live view's time left for the run that ended last, beside two naive forecasts."""
    of: defaultdict[str, list[ForecastRecord]] = defaultdict(list)
    for guess in facts.guesses:
        of[guess.run_id or ""].append(guess)
    if not of:
        why = (
            "Left out: only of a run that has ended, with every partition done, is there a truth to"
            " hold forecasts against."
        )
        return Missing(ID, TITLE, why)
    run_id = max(of, key=lambda one: of[one][-1].t)
    guesses = sorted(of[run_id], key=lambda guess: guess.t)
    top_s = _top_s(guesses)
    unit, unit_s = next((name, each_s) for name, each_s, from_s in _UNITS if top_s >= from_s)
    points = breaks(((guess.t, guess) for guess in thinned(guesses)), facts.gaps)
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(guesses),
        caption=(
            "The closer to the line of the truth, the better; the band around the prediction is"
            " its range. Two naive ways are drawn for comparison: the time so far stretched to the"
            " whole, and what is left at the rate of the last ten seconds."
            + (f" Of {len(of)} runs, {run_id} is drawn." if len(of) > 1 else "")
        ),
        traces=_traces(points, unit_s),
        layout=layout(
            time_axis(facts),
            axis(f"time left, {unit}", range=[0, top_s / unit_s]),
        ),
        table=rows(
            ("time (UTC)", "predicted", "range", "truth"),
            (
                (
                    as_time(g.t),
                    as_duration(g.left_s),
                    f"{as_duration(g.low_s)} to {as_duration(g.high_s)}",
                    as_duration(g.truth_s),
                )
                for g in thinned(guesses, _MOST_ROWS)
            ),
        ),
    )


_Points = Sequence[tuple[int, ForecastRecord | None]]


def _traces(guesses: _Points, unit_s: int) -> list[JSON]:
    def line(name: str, of: _Of, colour: str = "", dash: str = "solid") -> JSON:
        return {
            "type": "scatter",
            "mode": "lines",
            "name": without_markup(name),
            "x": [t for t, _ in guesses],
            "y": [
                None if g is None or (s := of(g)) is None else round(s / unit_s, 3)
                for _, g in guesses
            ],
            "line": {"color": colour, "dash": dash, "width": 2},
        }

    edge = {"width": 0}
    return [
        {**line("low", lambda g: g.low_s), "line": edge, "showlegend": False},
        {
            **line("range", lambda g: g.high_s),
            "line": edge,
            "fill": "tonexty",
            "fillcolor": "var(--range)",
        },
        line("at the rate of 10 s", lambda g: g.recent_s, "var(--line-3)", "dot"),
        line("stretched", lambda g: g.linear_s, "var(--line-4)", "dash"),
        line("predicted", lambda g: g.left_s, "var(--line-1)"),
        line("truth", lambda g: g.truth_s, "var(--ink)"),
    ]


def _top_s(guesses: Sequence[ForecastRecord]) -> float:
    """Return the end of the scale in seconds; naive forecasts are too far off to count."""
    true = max((g.truth_s or 0 for g in guesses), default=0)
    shown = max((g.left_s or 0 for g in guesses), default=0)
    return max(1.0, min(max(shown, true), 3 * true or shown) * 1.15)


def _says(guesses: Sequence[ForecastRecord]) -> str:
    half = [g for g in guesses if g.share is not None and abs(g.share - 0.5) <= _HALF]
    off = error(half, lambda g: g.left_s)
    if off is None:
        return "At half way no time left was predicted."
    others = [
        f"{error_:.0%} {name}"
        for name, of in (
            ("stretched", lambda g: g.linear_s),
            ("at the last rate", lambda g: g.recent_s),
        )
        if (error_ := error(half, of)) is not None
    ]
    beside = f"; the naive ways by {' and '.join(others)}" if others else ""
    return f"At half way the prediction was off by {off:.0%} (median){beside}."


def error(guesses: Sequence[ForecastRecord], of: _Of) -> float | None:
    """Return the median error of forecasts, as a share of the truth; None without any."""
    off = [
        abs(value - g.truth_s) / g.truth_s
        for g in guesses
        if (value := of(g)) is not None and g.truth_s
    ]
    return statistics.median(off) if off else None
