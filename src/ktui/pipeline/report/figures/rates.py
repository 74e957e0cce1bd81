"""The figure of the rates in force, who chose them, and the figure that an objective keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from ktui.cluster.text import clean
from ktui.pipeline.lake.records import InflowRecord, RateRecord, ReportFacts, Span, by_key
from ktui.pipeline.report.figures import figure as fig
from ktui.pipeline.report.figures.figure import JSON, Figure, as_time, figure
from ktui.planning.throttle_rates import Objective, ObjectiveProblem, parse_objective
from ktui.quantities import UNKNOWN, as_count, as_duration, as_rate

_MOST_POINTS, _MOST_ROWS = 2_000, 100
_HELD = "rate_held"


class _Source(msgspec.Struct, frozen=True):
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
    t: int
    figure: float | None
    objective: Objective


@figure("rates", "The rate in force, and the figure that was to be kept")
def rates_figure(facts: ReportFacts) -> Figure | str:
    """Draw the rates in force over time, and the figure of the objective with its gaps."""
    if not any(row.highest is not None for row in facts.rates):
        why = "nothing limited the rate, or the beginning of the run was not recorded."
        if not facts.of_run:
            why = "a cluster has no rate of its own; the report of a run shows its rates."
        return f"Left out: {why}"
    judged = fig.thinned(_judged(facts.rates), _MOST_POINTS)
    return Figure(
        says=" ".join(filter(None, (_rates_say(facts.rates), _figures_say(judged)))),
        caption=(
            "The highest rate into one broker that was allowed, by the one whose rate was the"
            " lowest; no line is no limit. The table has other brokers' rates."
            + (_FIGURE_CAPTION if judged else "")
        ),
        traces=[*_rate_traces(facts), *_figure_traces(judged, facts)],
        layout=_layout(facts, judged),
        height=460 if judged else 320,
        table=fig.rows(
            ("time (UTC)", "rate into a broker", "of single brokers", "chosen by", "figure"),
            map(_row, fig.thinned(facts.rates, _MOST_ROWS)),
        ),
    )


_FIGURE_CAPTION = (
    " Below: the figure of windows of 10 s, as the run noted it (when the rate changed, and once a"
    " minute), against its objective. A gap is a time without a figure."
)


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
    rates = fig.thinned(facts.rates, _MOST_POINTS)
    spans = fig.until_next([row.t for row in rates], facts.span[1])
    for name, source in _SOURCES.items():
        chosen = [
            (span, row.highest)
            for span, row in zip(spans, rates, strict=True)
            if row.chosen_by == name
        ]
        if chosen:
            look = {"color": source.colour, "dash": source.dash}
            yield fig.line(f"rate by {source.words}", fig.held(chosen, facts.gaps), look)


def _figure_traces(judged: Sequence[_Judged], facts: ReportFacts) -> list[JSON]:
    if not judged:
        return []
    measured = fig.breaks(((one.t, one.figure) for one in judged), facts.gaps)
    spans = fig.until_next([one.t for one in judged], max(facts.span[1], judged[-1].t))
    promised = fig.held(
        zip(spans, (one.objective.below for one in judged), strict=True), facts.gaps
    )
    of, look = judged[-1].objective, {"color": "var(--line-6)"}
    return [
        fig.line(of.name, measured, look, yaxis="y2", mode="lines+markers", marker={"size": 4}),
        fig.line(str(of), promised, fig.LIMIT, yaxis="y2"),
    ]


def _layout(facts: ReportFacts, judged: Sequence[_Judged]) -> JSON:
    x = fig.time_axis(facts)
    rate = fig.axis("rate", tickformat="~s", ticksuffix="B/s")
    if not judged:
        return fig.layout(x, rate)
    objective = judged[-1].objective
    unit = f", {objective.unit}" if objective.unit else ""
    title = fig.without_markup(f"{objective.name}{unit}")
    return fig.layout(
        {**x, "anchor": "y2"}, {**rate, "domain": [0.5, 1]}, yaxis2=fig.axis(title, domain=[0, 0.4])
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


MOST = 8
_ROW_PX, _EDGES_PX = 110, 110
_FREE = 0.14  # the share of a strip that stays free above it
_MINUTE_S, _HOUR_S = 60, 3600


@figure("brokers", "What was copied into each broker, and its throttle")
def brokers_figure(facts: ReportFacts) -> Figure | str:
    """Draw the brokers that received most, each in a strip of its own with the same scale."""
    of = by_key(sorted(facts.inflow, key=lambda one: one.began), lambda one: one.broker)
    received = {broker: sum(one.bytes_in or 0 for one in some) for broker, some in of.items()}
    busiest = sorted((b for b in received if received[b] > 0), key=lambda b: (-received[b], b))
    if not busiest:
        return "No rate of a copy could be worked out."
    shown = sorted(busiest[:MOST])
    bins, rest = facts.inflow_ms, len(busiest) - len(shown)
    most = max(max(_rate(one, bins), _shown_throttle(one, bins)) for b in shown for one in of[b])
    return Figure(
        says=_brokers_says(busiest, of, bins),
        caption=(
            "Bytes a second that new replicas on each broker copied, the mean of every"
            f" {_bin_text(bins)}; the first and the last bar may be cut short. The line is the rate"
            " of the follower's throttle, where the broker had one. All strips have one scale."
            + (f" {as_count(rest, 'broker')} that took in less left out." if rest else "")
        ),
        traces=[
            trace
            for row, broker in enumerate(shown)
            for trace in _strip(broker, of[broker], row, bins, facts.gaps)
        ],
        layout=_brokers_layout(facts, shown, most),
        height=len(shown) * _ROW_PX + _EDGES_PX,
        table=fig.rows(
            ("broker", "from (UTC)", "copied in", "throttle"),
            (
                (
                    str(broker),
                    as_time(one.began),
                    as_rate(_rate(one, bins)),
                    as_rate(one.follower_throttle),
                )
                for broker in shown
                for one in of[broker]
            ),
        ),
    )


def _bin_text(bins: int) -> str:
    seconds = bins // 1000
    if seconds < _MINUTE_S:
        return f"{seconds} s"
    unit, noun = (_HOUR_S, "hour") if seconds >= _HOUR_S else (_MINUTE_S, "minute")
    return noun if seconds == unit else f"{seconds // unit} {noun}s"


def _rate(one: InflowRecord, bins: int) -> float:
    return (one.bytes_in or 0) * 1000 / bins


def _shown_throttle(one: InflowRecord, bins: int) -> float:
    """Return the throttle for choosing the scale; 0 where it is far above the rate."""
    throttle = one.follower_throttle or 0
    return throttle if throttle <= 4 * _rate(one, bins) else 0


def _axis(row: int) -> str:
    return "y" if row == 0 else f"y{row + 1}"


def _strip(
    broker: int, received: Sequence[InflowRecord], row: int, bins: int, gaps: Sequence[Span]
) -> list[JSON]:
    common = {"yaxis": _axis(row), "showlegend": row == 0}
    copied = {
        **common,
        "type": "bar",
        "name": "copied in",
        "legendgroup": "copied",
        "x": [one.began for one in received],
        "y": [_rate(one, bins) for one in received],
        "width": bins * 0.92,
        "offset": 0,
        "marker": {"color": "var(--catching-up)"},
        "hovertemplate": f"broker {broker}: %{{y:.3s}}B/s<extra></extra>",
    }
    if all(one.follower_throttle is None for one in received):
        return [copied]
    spans = ((one.began, one.began + bins) for one in received)
    allowed = (one.follower_throttle for one in received)
    steps = fig.held(zip(spans, allowed, strict=True), gaps)
    hover = f"broker {broker}: throttle %{{y:.3s}}B/s<extra></extra>"
    throttle = fig.line(
        "throttle", steps, fig.LIMIT, **common, legendgroup="throttle", hovertemplate=hover
    )
    return [copied, throttle]


def _brokers_layout(facts: ReportFacts, shown: Sequence[int], most: float) -> JSON:
    pitch = 1 / (len(shown) - _FREE)
    strips = {
        f"yaxis{'' if row == 0 else row + 1}": fig.axis(
            f"broker {broker}",
            domain=[(len(shown) - 1 - row) * pitch, (len(shown) - _FREE - row) * pitch],
            range=[0, most * 1.08],
            tickformat="~s",
            ticksuffix="B/s",
            nticks=4,
            fixedrange=True,
        )
        for row, broker in enumerate(shown)
    }
    x = {**fig.time_axis(facts), "anchor": _axis(len(shown) - 1)}
    first = strips.pop("yaxis")
    return fig.layout(
        x, first, **strips, barmode="overlay", margin={"l": 70, "r": 12, "t": 40, "b": 54}
    )


def _brokers_says(busiest: Sequence[int], of: dict[int, list[InflowRecord]], bins: int) -> str:
    peak = {broker: max(_rate(one, bins) for one in of[broker]) for broker in busiest}
    first = max(busiest, key=lambda broker: peak[broker])
    into = f"Copies went into {as_count(len(busiest), 'broker')}"
    return f"{into}; broker {first} took in the most at a time, {as_rate(peak[first])}."
