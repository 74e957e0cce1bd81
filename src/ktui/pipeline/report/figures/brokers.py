"""The figure of the bytes copied into each broker, against its throttle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ktui.pipeline.lake.records import Minute, ReportFacts
from ktui.pipeline.report.figures.figure import (
    JSON,
    Figure,
    Missing,
    axis,
    layout,
    rows,
    time_axis,
)
from ktui.pipeline.report.figures.text import as_time
from ktui.quantities import as_count, as_rate

ID, TITLE = "brokers", "What was copied into each broker, and its throttle"
MOST = 8
_MINUTE_S, _MINUTE_MS = 60, 60_000
_ROW_PX, _EDGES_PX = 110, 110


def brokers_figure(facts: ReportFacts) -> Figure | Missing:
    """Draw the brokers that received most, each in a strip of its own with the same scale."""
    of: defaultdict[int, list[Minute]] = defaultdict(list)
    for minute in sorted(facts.minutes, key=lambda one: one.minute):
        of[minute.broker].append(minute)
    received = {broker: sum(m.bytes_in or 0 for m in minutes) for broker, minutes in of.items()}
    busiest = sorted((b for b in received if received[b] > 0), key=lambda b: (-received[b], b))
    if not busiest:
        return Missing(ID, TITLE, "No rate of a copy could be worked out.")
    shown = sorted(busiest[:MOST])
    most = max(max(_rate(m), _shown_throttle(m)) for b in shown for m in of[b])
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(busiest, of),
        caption=(
            "Bytes a second that new replicas on each broker copied, the mean of each minute; the"
            " first and the last minute may be cut short. The line is the rate of the follower's"
            " throttle, where the broker had one. All strips have one scale."
            + _rest(len(busiest) - len(shown))
        ),
        traces=[t for row, broker in enumerate(shown) for t in _strip(broker, of[broker], row)],
        layout=_layout(facts, shown, most),
        height=len(shown) * _ROW_PX + _EDGES_PX,
        table=rows(
            ("broker", "minute (UTC)", "copied in", "throttle"),
            (
                (str(b), as_time(m.minute), as_rate(_rate(m)), as_rate(m.follower_throttle))
                for b in shown
                for m in of[b]
            ),
        ),
    )


def _rate(minute: Minute) -> float:
    return (minute.bytes_in or 0) / _MINUTE_S


def _shown_throttle(minute: Minute) -> float:
    """Return the throttle for choosing the scale; 0 where it is far above the rate."""
    throttle = minute.follower_throttle or 0
    return throttle if throttle <= 4 * _rate(minute) else 0


def _axis(row: int) -> str:
    return "y" if row == 0 else f"y{row + 1}"


def _strip(broker: int, minutes: Sequence[Minute], row: int) -> list[JSON]:
    common = {"yaxis": _axis(row), "x": [m.minute for m in minutes], "showlegend": row == 0}
    copied = {
        **common,
        "type": "bar",
        "name": "copied in",
        "legendgroup": "copied",
        "y": [_rate(m) for m in minutes],
        "width": _MINUTE_MS * 0.92,
        "offset": 0,
        "marker": {"color": "var(--catching-up)"},
        "hovertemplate": f"broker {broker}: %{{y:.3s}}B/s<extra></extra>",
    }
    if all(m.follower_throttle is None for m in minutes):
        return [copied]
    steps = list(_steps(minutes))
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


def _steps(minutes: Sequence[Minute]) -> Iterator[tuple[int, int | None]]:
    """Yield the throttle at each minute's start and end; None where a minute is missing."""
    until = None
    for each in minutes:
        if until is not None and until < each.minute:
            yield until, None
        until = each.minute + _MINUTE_MS
        yield each.minute, each.follower_throttle
        yield until, each.follower_throttle


def _layout(facts: ReportFacts, shown: Sequence[int], most: float) -> JSON:
    height = 1 / len(shown)
    strips = {
        f"yaxis{'' if row == 0 else row + 1}": axis(
            f"broker {broker}",
            domain=[1 - (row + 0.86) * height, 1 - row * height],
            range=[0, most * 1.08],
            tickformat="~s",
            ticksuffix="B/s",
            nticks=4,
            fixedrange=True,
        )
        for row, broker in enumerate(shown)
    }
    x = {**time_axis(facts.span), "anchor": _axis(len(shown) - 1)}
    first = strips.pop("yaxis")
    return layout(
        x, first, **strips, barmode="overlay", margin={"l": 70, "r": 12, "t": 40, "b": 48}
    )


def _says(busiest: Sequence[int], of: dict[int, list[Minute]]) -> str:
    peak = {broker: max(_rate(m) for m in of[broker]) for broker in busiest}
    first = max(busiest, key=lambda broker: peak[broker])
    into = f"Copies went into {as_count(len(busiest), 'broker')}"
    return f"{into}; broker {first} took in the most at a time, {as_rate(peak[first])}."


def _rest(left_out: int) -> str:
    if not left_out:
        return ""
    return f" {as_count(left_out, 'broker')} that took in less left out."
