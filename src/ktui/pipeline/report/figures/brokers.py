"""The figure of the bytes copied into each broker, against its throttle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ktui.pipeline.lake.records import Inflow, ReportFacts, Span
from ktui.pipeline.report.figures.figure import (
    JSON,
    Figure,
    Missing,
    axis,
    layout,
    rows,
    time_axis,
)
from ktui.pipeline.report.figures.text import as_time, held
from ktui.quantities import as_count, as_rate

ID, TITLE = "brokers", "What was copied into each broker, and its throttle"
MOST = 8
_ROW_PX, _EDGES_PX = 110, 110
_FREE = 0.14
"""The share of a strip that stays free above it."""
_MINUTE_S, _HOUR_S = 60, 3600


def brokers_figure(facts: ReportFacts) -> Figure | Missing:
    """Draw the brokers that received most, each in a strip of its own with the same scale."""
    of: defaultdict[int, list[Inflow]] = defaultdict(list)
    for one in sorted(facts.inflow, key=lambda one: one.began):
        of[one.broker].append(one)
    received = {broker: sum(one.bytes_in or 0 for one in some) for broker, some in of.items()}
    busiest = sorted((b for b in received if received[b] > 0), key=lambda b: (-received[b], b))
    if not busiest:
        return Missing(ID, TITLE, "No rate of a copy could be worked out.")
    shown = sorted(busiest[:MOST])
    bins = facts.inflow_ms
    most = max(max(_rate(one, bins), _shown_throttle(one, bins)) for b in shown for one in of[b])
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(busiest, of, bins),
        caption=(
            "Bytes a second that new replicas on each broker copied, the mean of every"
            f" {_bin_text(bins)}; the first and the last bar may be cut short. The line is the rate"
            " of the follower's throttle, where the broker had one. All strips have one scale."
            + _rest(len(busiest) - len(shown))
        ),
        traces=[
            trace
            for row, broker in enumerate(shown)
            for trace in _strip(broker, of[broker], row, bins, facts.gaps)
        ],
        layout=_layout(facts, shown, most),
        height=len(shown) * _ROW_PX + _EDGES_PX,
        table=rows(
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
    """Name the length of a bin: "5 s", "minute", "15 minutes", "2 hours"."""
    seconds = bins // 1000
    if seconds < _MINUTE_S:
        return f"{seconds} s"
    unit, noun = (_HOUR_S, "hour") if seconds >= _HOUR_S else (_MINUTE_S, "minute")
    return noun if seconds == unit else f"{seconds // unit} {noun}s"


def _rate(one: Inflow, bins: int) -> float:
    return (one.bytes_in or 0) * 1000 / bins


def _shown_throttle(one: Inflow, bins: int) -> float:
    """Return the throttle for choosing the scale; 0 where it is far above the rate."""
    throttle = one.follower_throttle or 0
    return throttle if throttle <= 4 * _rate(one, bins) else 0


def _axis(row: int) -> str:
    return "y" if row == 0 else f"y{row + 1}"


def _strip(
    broker: int, received: Sequence[Inflow], row: int, bins: int, gaps: Sequence[Span]
) -> list[JSON]:
    common = {"yaxis": _axis(row), "x": [one.began for one in received], "showlegend": row == 0}
    copied = {
        **common,
        "type": "bar",
        "name": "copied in",
        "legendgroup": "copied",
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
    steps = held(zip(spans, allowed, strict=True), gaps)
    throttle = {
        **common,
        "type": "scatter",
        "mode": "lines",
        "name": "throttle",
        "legendgroup": "throttle",
        "x": [t for t, _ in steps],
        "y": [rate for _, rate in steps],
        "line": {"color": "var(--limit)", "dash": "dash", "width": 2},
        "hovertemplate": f"broker {broker}: throttle %{{y:.3s}}B/s<extra></extra>",
    }
    return [copied, throttle]


def _layout(facts: ReportFacts, shown: Sequence[int], most: float) -> JSON:
    pitch = 1 / (len(shown) - _FREE)
    strips = {
        f"yaxis{'' if row == 0 else row + 1}": axis(
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
    x = {**time_axis(facts), "anchor": _axis(len(shown) - 1)}
    first = strips.pop("yaxis")
    return layout(
        x, first, **strips, barmode="overlay", margin={"l": 70, "r": 12, "t": 40, "b": 54}
    )


def _says(busiest: Sequence[int], of: dict[int, list[Inflow]], bins: int) -> str:
    peak = {broker: max(_rate(one, bins) for one in of[broker]) for broker in busiest}
    first = max(busiest, key=lambda broker: peak[broker])
    into = f"Copies went into {as_count(len(busiest), 'broker')}"
    return f"{into}; broker {first} took in the most at a time, {as_rate(peak[first])}."


def _rest(left_out: int) -> str:
    if not left_out:
        return ""
    return f" {as_count(left_out, 'broker')} that took in less left out."
