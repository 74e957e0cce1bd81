"""The figure of the live view's time left, against the time that was really left."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from ktui.insights import SIMULATE
from ktui.pacing.limits import NUMBERS, limit_text
from ktui.pipeline.lake.records import (
    ForecastRecord,
    ReportFacts,
    WhatIf,
    by_key,
    unread,
    usual_ms,
)
from ktui.pipeline.report.figures import figure as fig
from ktui.pipeline.report.figures.figure import JSON, Figure, as_time, figure
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.quantities import UNKNOWN, as_count, as_duration, as_rate

_MOST_ROWS = 40
_HALF = 0.1  # shares no further than this from 0.5 count as half way

_UNITS = (("hours", 3_600, 3 * 3_600), ("minutes", 60, 180), ("seconds", 1, 0))
"""The units of the scale: seconds in each, and the seconds from which on it is used."""

_Of = Callable[[ForecastRecord], float | None]


@figure("eta", "The time left, as predicted and as it was")
def eta_figure(facts: ReportFacts) -> Figure | str:
    """Draw the live view's time left for the run that ended last, beside two naive forecasts."""
    of = by_key(facts.guesses, lambda guess: guess.run_id or "")
    if not of:
        return (
            "Left out: only of a run that has ended, with every partition done, is there a truth to"
            " hold forecasts against."
        )
    run_id = max(of, key=lambda one: of[one][-1].t)
    guesses = sorted(of[run_id], key=lambda guess: guess.t)
    top_s = _top_s(guesses)
    unit, unit_s = next((name, each_s) for name, each_s, from_s in _UNITS if top_s >= from_s)
    times = [guess.t for guess in guesses]
    gaps = (*facts.gaps, *unread(times, usual_ms([times])))
    points = fig.breaks(((guess.t, guess) for guess in fig.thinned(guesses)), gaps)
    return Figure(
        says=_says(guesses),
        caption=(
            "The closer to the line of the truth, the better; the band around the prediction is"
            " its range. Two naive ways are drawn for comparison: the time so far stretched to the"
            " whole, and what is left at the rate of the last ten seconds."
            + (f" Of {len(of)} runs, {run_id} is drawn." if len(of) > 1 else "")
        ),
        traces=_traces(points, unit_s),
        layout=fig.layout(
            fig.time_axis(facts), fig.axis(f"time left, {unit}", range=[0, top_s / unit_s])
        ),
        table=fig.rows(
            ("time (UTC)", "predicted", "range", "truth"),
            (
                (
                    as_time(g.t),
                    as_duration(g.left_s),
                    f"{as_duration(g.low_s)} to {as_duration(g.high_s)}",
                    as_duration(g.truth_s),
                )
                for g in fig.thinned(guesses, _MOST_ROWS)
            ),
        ),
    )


_Points = Sequence[tuple[int, ForecastRecord | None]]


def _traces(guesses: _Points, unit_s: int) -> list[JSON]:
    def points(of: _Of) -> Iterator[tuple[int, float | None]]:
        for t, guess in guesses:
            seconds = None if guess is None else of(guess)
            yield t, None if seconds is None else round(seconds / unit_s, 3)

    def drawn(name: str, of: _Of, colour: str, dash: str = "solid") -> JSON:
        return fig.line(name, points(of), {"color": colour, "dash": dash})

    edge = {"width": 0}
    filled = {"fill": "tonexty", "fillcolor": "var(--range)"}
    return [
        fig.line("low", points(lambda g: g.low_s), edge, showlegend=False),
        fig.line("range", points(lambda g: g.high_s), edge, **filled),
        drawn("at the rate of 10 s", lambda g: g.recent_s, "var(--line-3)", "dot"),
        drawn("stretched", lambda g: g.linear_s, "var(--line-4)", "dash"),
        drawn("predicted", lambda g: g.left_s, "var(--line-1)"),
        drawn("truth", lambda g: g.truth_s, "var(--ink)"),
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


_CELL_PX, _TOP_PX, _BOTTOM_PX = 30, 96, 12
_FIELDS = {option: option.replace("-", "_") for option in NUMBERS}
_WORDS = ("shape", "mode", "order")

_DRIVEN = "as driven"
"""The column of a run whose rates its promises chose: they were not one throttle."""
_DRIVEN_CAPTION = (
    f" In the column {_DRIVEN!r} the rates over time are replayed that the run's promises chose."
)

_NEXT = "To know more, record such a run, if only of a few partitions:"

_SCALE = ((0, "#fdf3c4"), (0.5, "#b9d9c9"), (1, "#7aaed6"))
_ON_SCALE = "#14181d"
"""The colour of the text on the scale, in light and dark: it can be read on all of it."""

_Cells = dict[tuple[str, str], WhatIf]


@figure("what-if", "Other limits: how long it would have taken")
def what_if_figure(facts: ReportFacts) -> Figure | str:
    """Draw the grid of limits and throttles of the last simulated run."""
    if not facts.what_ifs:
        return _why_missing(facts)
    run_id = facts.what_ifs[-1].run_id
    tried = [one for one in facts.what_ifs if one.run_id == run_id]
    tried.sort(key=lambda one: _place(one.limits))
    names = _names(tried)
    predicted = [one for one in tried if one.has_prediction]
    throttles = sorted({_column(one) for one in predicted}, key=_looseness)
    limits = list(dict.fromkeys(names[one.limits] for one in predicted))
    cells = {(names[one.limits], _column(one)): one for one in tried}
    record = next((one.record for one in tried if one.record is not None), None)
    several = len({one.run_id for one in facts.what_ifs}) > 1
    return Figure(
        says=_what_if_says(tried, names),
        caption=(
            "A cell is the predicted duration under the limits of its row and the throttle of its"
            f" column. {_letters(predicted)}. ★ is recommended, ● is the run as it was started."
            " What goes beyond the recordings has no prediction: its cell is empty, a row or column"
            " of only such cells is left out, and the table says what to record."
            + (_DRIVEN_CAPTION if _DRIVEN in throttles else "")
            + (f" Of several runs, {run_id} is drawn." if several else "")
        ),
        traces=[_heat(limits, throttles, cells)],
        layout=_layout(limits, throttles),
        height=len(limits) * _CELL_PX + _TOP_PX + _BOTTOM_PX,
        along_time=False,
        table=fig.rows(
            (
                "limits",
                "throttle",
                "predicted",
                "range",
                "in fact",
                "assumed",
                "to be recorded first",
            ),
            map(_row, tried),
        ),
        next_step="" if record is None else _NEXT,
        commands=() if record is None else (f"ktui start PLAN {record}".rstrip(), SIMULATE),
    )


def _why_missing(facts: ReportFacts) -> str:
    if not facts.runs:
        return "Left out: no other limits were played through, for no run was recorded."
    return (
        f"Left out: no other limits were played through. To do so: {SIMULATE}. That takes the"
        " recorded start of a run, and recorded copies from which to learn the cluster's rates."
    )


def _letters(tried: Sequence[WhatIf]) -> str:
    limits = [json.loads(one.limits) for one in tried]
    named = {option for option, name in _FIELDS.items() if any(of.get(name) for of in limits)}
    meanings = (f"{of.letter} {of.meaning}" for option, of in NUMBERS.items() if option in named)
    return ", ".join(meanings) or "No limit is named"


def limits_words(limits: str, *, in_full: bool = True) -> str:
    """Return JSON limits as text, each by its letter; in full, with the shape, mode and order."""
    of = json.loads(limits)
    words = [
        f"{NUMBERS[option].letter}{limit_text(option, of[field])}"
        for option, field in _FIELDS.items()
        if of.get(field) is not None
    ]
    if in_full:
        words += [str(of[name]) for name in _WORDS if of.get(name)]
    return " ".join(words) or "no limit"


def _names(tried: Sequence[WhatIf]) -> dict[str, str]:
    words = {tuple(json.loads(one.limits).get(name) for name in _WORDS) for one in tried}
    return {one.limits: limits_words(one.limits, in_full=len(words) > 1) for one in tried}


def _place(limits: str) -> tuple[float, ...]:
    of = json.loads(limits)
    return tuple(math.inf if of.get(name) is None else of[name] for name in _FIELDS.values())


def _column(one: WhatIf) -> str:
    return _DRIVEN if one.driven_by else one.throttle


def _looseness(throttle: str) -> tuple[float, str]:
    if throttle == _DRIVEN:
        return (math.inf, throttle)
    every = parse_throttle_rates(throttle).every
    return (-math.inf if every is None else -every, throttle)


def _rate(throttle: str) -> str:
    if throttle == _DRIVEN:
        return throttle
    rates = parse_throttle_rates(throttle)
    return throttle if rates.brokers or rates.every is None else as_rate(rates.every)


def _driven(one: WhatIf) -> str:
    if not one.driven_by:
        return ""
    names = {"by": "--by", "objective": "the objective"}
    promises = " and ".join(names.get(each, each) for each in one.driven_by.split(", "))
    return f", with the rates over time that {promises} chose"


def _sign(one: WhatIf) -> str:
    recommended = " ★" if one.recommended else ""
    return f"{recommended}{' ●' if one.own else ''}"


def _heat(limits: Sequence[str], throttles: Sequence[str], cells: _Cells) -> JSON:
    grid = [[cells.get((row, column)) for column in throttles] for row in limits]
    return {
        "type": "heatmap",
        "x": list(range(len(throttles))),
        "y": list(range(len(limits))),
        "z": [[c.predicted_s if c and c.has_prediction else None for c in row] for row in grid],
        "text": [
            [
                f"{as_duration(c.predicted_s)}{_sign(c)}" if c and c.has_prediction else ""
                for c in row
            ]
            for row in grid
        ],
        "texttemplate": "%{text}",
        "customdata": [
            ["" if c is None else fig.without_markup(" · ".join(_row(c))) for c in r] for r in grid
        ],
        "hovertemplate": fig.SAYS,
        "hoverongaps": False,
        "colorscale": _SCALE,
        "textfont": {"color": _ON_SCALE, "size": 12},  # without a size, it shrinks with the cells
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }


def _layout(limits: Sequence[str], throttles: Sequence[str]) -> JSON:
    x = {
        "tickvals": list(range(len(throttles))),
        "ticktext": [_rate(throttle) for throttle in throttles],
        "side": "top",
        "title": {"text": "throttle"},
    }
    y = {
        "tickvals": list(range(len(limits))),
        "ticktext": [fig.without_markup(words) for words in limits],
        "autorange": "reversed",
        "automargin": True,
    }
    still = {"fixedrange": True, "showgrid": False, "zeroline": False}
    margin = {"l": 56, "r": 12, "t": 40, "b": _BOTTOM_PX}
    return fig.layout(
        {**x, **still, "automargin": True}, {**y, **still}, dragmode=False, margin=margin
    )


def _row(one: WhatIf) -> tuple[str, ...]:
    return (
        f"{limits_words(one.limits)}{_sign(one)}",
        _rate(_column(one)),
        as_duration(one.predicted_s) if one.has_prediction else UNKNOWN,
        f"{as_duration(one.low_s)} to {as_duration(one.high_s)}" if one.has_prediction else UNKNOWN,
        as_duration(one.actual_s),
        "; ".join(one.assumed or ()) if one.has_prediction else "",
        "; ".join(one.beyond or ()),
    )


def _what_if_says(tried: Sequence[WhatIf], names: Mapping[str, str]) -> str:
    words = [f"{as_count(len(tried), 'combination')} of limits and throttle played through."]
    for one in tried:
        if one.recommended:
            why = one.reason or as_duration(one.predicted_s)
            rate = "no throttle" if one.throttle == "none" else f"throttle {_rate(one.throttle)}"
            words.append(f"Recommended is {names[one.limits]}, {rate}: {_parts(why)}.")
        if one.own and one.actual_s is not None:
            why = f" ({', '.join(one.disturbed)})" if one.disturbed else ""
            predicted = f"as it was started, {as_duration(one.predicted_s)} are predicted for it"
            took = f"The run took {as_duration(one.actual_s)}{why}"
            words.append(f"{took}; {predicted}{_driven(one)}.")
    why_none = [one.reason for one in tried if one.reason is not None]
    if why_none and not any(one.recommended for one in tried):
        words.append(f"None is recommended: {_parts(why_none[0])}.")
    off = [one.error_held_out for one in tried if one.error_held_out is not None]
    if off:
        words.append(f"Predicted from other runs only, it is off by {abs(off[0]):.0%}.")
    shown = (one.assumed or () for one in tried if one.has_prediction)
    if assumed := dict.fromkeys(what for each in shown for what in each):
        words.append(f"Assumed, as no recording shows it: {'; '.join(assumed)}.")
    return "\n".join(words)


def _parts(reason: str) -> str:
    """Put each part of a reason on a line of its own, but what is in brackets."""
    return re.sub(r"; (?![^()]*\))", ";\n", reason)
