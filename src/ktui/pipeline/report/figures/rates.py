"""The figure of the rates in force, who chose them, and the figure that an objective keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from ktui.cluster.text import clean
from ktui.pipeline.lake.records import RateRecord, ReportFacts
from ktui.pipeline.report.figures.figure import (
    JSON,
    Figure,
    Missing,
    axis,
    layout,
    rows,
    time_axis,
)
from ktui.pipeline.report.figures.text import (
    as_time,
    breaks,
    held,
    thinned,
    until_next,
    without_markup,
)
from ktui.planning.objective import Objective, ObjectiveProblem, parse_objective
from ktui.quantities import UNKNOWN, as_count, as_duration, as_rate

ID, TITLE = "rates", "The rate in force, and the figure that was to be kept"
_MOST_POINTS, _MOST_ROWS = 2_000, 100
_HELD = "rate_held"


class _Source(msgspec.Struct, frozen=True):
    """The look of the rates of one source, and its name."""

    words: str
    colour: str
    dash: str


_SOURCES = {
    "operator": _Source("an operator", "var(--line-1)", "solid"),
    "budget": _Source("the budget", "var(--line-5)", "dash"),
    "by": _Source("--by", "var(--line-4)", "dashdot"),
    "objective": _Source("the objective", "var(--line-2)", "solid"),
}


class _Judged(msgspec.Struct, frozen=True):
    """A figure at a time, and the objective that it was to keep."""

    t: int
    figure: float | None
    objective: Objective


def rates_figure(facts: ReportFacts) -> Figure | Missing:
    """Draw the rates in force over time, and the figure of the objective with its gaps."""
    if not any(row.highest is not None for row in facts.rates):
        return Missing(ID, TITLE, _why_missing(facts))
    judged = thinned(_judged(facts.rates), _MOST_POINTS)
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(facts.rates, judged),
        caption=(
            "The highest rate into one broker that was allowed, by the one whose rate was the"
            " lowest; no line is no limit. The table has other brokers' rates."
            + (_FIGURE_CAPTION if judged else "")
        ),
        traces=[*_rate_traces(facts), *_figure_traces(judged, facts)],
        layout=_layout(facts, judged),
        height=460 if judged else 320,
        table=rows(
            ("time (UTC)", "rate into a broker", "of single brokers", "chosen by", "figure"),
            map(_row, thinned(facts.rates, _MOST_ROWS)),
        ),
    )


_FIGURE_CAPTION = (
    " Below: the figure of windows of 10 s, as the run noted it (when the rate changed, and once a"
    " minute), against its objective. A gap is a time without a figure."
)


def _why_missing(facts: ReportFacts) -> str:
    if not facts.of_run:
        return "Left out: a cluster has no rate of its own; the report of a run shows its rates."
    return "Left out: nothing limited the rate, or the beginning of the run was not recorded."


def _judged(rates: Sequence[RateRecord]) -> list[_Judged]:
    """Return the figures of the last objective, also where its value was changed."""
    found: list[_Judged] = []
    for row in rates:
        objective = _objective(row.objective)
        if row.kind == _HELD and objective is not None:
            found.append(_Judged(row.t, row.figure, objective))
    if not found:
        return []
    last = found[-1].objective
    return [
        one for one in found if (one.objective.name, one.objective.unit) == (last.name, last.unit)
    ]


def _objective(text: str | None) -> Objective | None:
    with suppress(ObjectiveProblem):  # a recording is untrusted
        return None if text is None else parse_objective(text)
    return None


def _rate_traces(facts: ReportFacts) -> Iterable[JSON]:
    rates = thinned(facts.rates, _MOST_POINTS)
    spans = until_next([row.t for row in rates], facts.span[1])
    for name, source in _SOURCES.items():
        chosen = [
            (span, row.highest)
            for span, row in zip(spans, rates, strict=True)
            if row.chosen_by == name
        ]
        if chosen:
            points = held(chosen, facts.gaps)
            yield {
                "type": "scatter",
                "mode": "lines",
                "name": f"rate by {source.words}",
                "x": [t for t, _ in points],
                "y": [rate for _, rate in points],
                "line": {"color": source.colour, "dash": source.dash, "width": 2},
            }


def _figure_traces(judged: Sequence[_Judged], facts: ReportFacts) -> list[JSON]:
    if not judged:
        return []
    measured = breaks(((one.t, one.figure) for one in judged), facts.gaps)
    spans = until_next([one.t for one in judged], max(facts.span[1], judged[-1].t))
    promised = held(zip(spans, (one.objective.below for one in judged), strict=True), facts.gaps)
    name = without_markup(judged[-1].objective.name)
    common = {"type": "scatter", "yaxis": "y2"}
    return [
        {
            **common,
            "mode": "lines+markers",
            "name": name,
            "x": [t for t, _ in measured],
            "y": [figure for _, figure in measured],
            "line": {"color": "var(--line-6)", "width": 2},
            "marker": {"size": 4},
        },
        {
            **common,
            "mode": "lines",
            "name": without_markup(str(judged[-1].objective)),
            "x": [t for t, _ in promised],
            "y": [below for _, below in promised],
            "line": {"color": "var(--limit)", "dash": "dash", "width": 2},
        },
    ]


def _layout(facts: ReportFacts, judged: Sequence[_Judged]) -> JSON:
    x = time_axis(facts)
    rate = axis("rate", tickformat="~s", ticksuffix="B/s")
    if not judged:
        return layout(x, rate)
    objective = judged[-1].objective
    unit = f", {objective.unit}" if objective.unit else ""
    title = without_markup(f"{objective.name}{unit}")
    return layout(
        {**x, "anchor": "y2"}, {**rate, "domain": [0.5, 1]}, yaxis2=axis(title, domain=[0, 0.4])
    )


def _row(row: RateRecord) -> tuple[str, ...]:
    single = ", ".join(f"{each.broker}: {as_rate(each.bytes_s)}" for each in row.brokers)
    source = _SOURCES.get(row.chosen_by or "")
    chooser = "nobody" if source is None else source.words
    return (as_time(row.t), as_rate(row.bytes_s), single, chooser, _figure(row))


def _figure(row: RateRecord) -> str:
    if row.kind != _HELD:
        return ""
    if row.figure is None:
        reason = clean(row.reason or "") or UNKNOWN
        return f"none: {reason}"
    objective = _objective(row.objective)
    return f"{row.figure:g}" if objective is None else objective.value(row.figure)


def _says(rates: Sequence[RateRecord], judged: Sequence[_Judged]) -> str:
    return " ".join(filter(None, (_rates_say(rates), _figures_say(judged))))


def _rates_say(rates: Sequence[RateRecord]) -> str:
    known = [rate for row in rates if (rate := row.highest) is not None]
    low, high = as_rate(min(known)), as_rate(max(known))
    lasted = Counter[str]()
    for row in rates:
        if row.chosen_by in _SOURCES:
            lasted[_SOURCES[row.chosen_by].words] += row.in_flight_ms
    chosen = [f"{as_duration(ms / 1000)} by {of}" for of, ms in lasted.most_common() if ms]
    span = low if low == high else f"{low} to {high}"
    words = f"; while steps were in flight it was chosen {' and '.join(chosen)}" if chosen else ""
    return f"The rate was {span}{words}."


def _figures_say(judged: Sequence[_Judged]) -> str:
    if not judged:
        return ""
    of = judged[-1].objective
    figures = [one.figure for one in judged if one.figure is not None]
    if not figures:
        return f"There was no figure of {of.name}."
    missing = len(judged) - len(figures)
    gaps = f", and missing {as_count(missing, 'time')}" if missing else ""
    return f"The figure {of.name} was {of.value(max(figures))} at most{gaps}."
