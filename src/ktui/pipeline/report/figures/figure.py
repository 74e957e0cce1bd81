"""A figure of the report: a drawing, its meaning in words, and its data as a table."""

from __future__ import annotations

import functools
import html
import math
import textwrap
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from ktui.cluster.text import clean
from ktui.pipeline.lake.records import (
    BROKER,
    LIMITS,
    MOST_CURVES,
    OTHER,
    PAUSE,
    THROTTLE,
    PartitionRow,
    ReportFacts,
    Span,
)
from ktui.quantities import as_duration

JSON = Mapping[str, Any]

MOST_ROWS = 200

_LOG_FROM = 10
_MOST_TICKS = 7
_EDGE = 0.05  # the share of an axis that stays free at its ends

_APART_PX = 5  # keeps the first labels of the two axes of a drawing apart


class Rows(msgspec.Struct, frozen=True):
    """A table under a figure."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A drawing: traces and layout in plotly.js's own format, with colours as `var(--name)`."""

    id: str = ""  # set by `figure`, as is the title
    title: str = ""
    says: str  # the drawing in words and figures, a line a paragraph; also for screen readers
    caption: str  # how to read the drawing, and the data that it leaves out
    traces: Sequence[JSON]
    layout: JSON
    table: Rows
    next_step: str = ""  # what to do to learn more, before the commands; or empty
    commands: tuple[str, ...] = ()
    height: int = 380
    along_time: bool = True  # whether x is time; if so, keys move and zoom the drawing


class Missing(msgspec.Struct, frozen=True):
    """A figure that cannot be drawn, and why."""

    id: str
    title: str
    why: str


def figure(
    id_: str, title: str
) -> Callable[[Callable[[ReportFacts], Figure | str]], Callable[[ReportFacts], Figure | Missing]]:
    """Name what a function draws; where it returns a text, the figure is missing, with that why."""

    def named(
        draw: Callable[[ReportFacts], Figure | str],
    ) -> Callable[[ReportFacts], Figure | Missing]:
        @functools.wraps(draw)
        def drawn(facts: ReportFacts) -> Figure | Missing:
            found = draw(facts)
            if isinstance(found, str):
                return Missing(id_, title, found)
            return msgspec.structs.replace(found, id=id_, title=title)

        return drawn

    return named


def line(name: str, points: Iterable[tuple[Any, Any]], look: JSON, **more: Any) -> JSON:
    """Return a line through points, with a look such as its colour and dash."""
    known = list(points)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": without_markup(name),
        "x": [x for x, _ in known],
        "y": [y for _, y in known],
        "line": {"width": 2, **look},
        **more,
    }


def signs(name: str, points: Iterable[tuple[Any, Any, str]], marker: JSON, **more: Any) -> JSON:
    """Return a sign at each point, whose third part is its text in the drawing's markup."""
    known = list(points)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": without_markup(name),
        "x": [x for x, _, _ in known],
        "y": [y for _, y, _ in known],
        "customdata": [says for _, _, says in known],
        "hovertemplate": SAYS,
        "marker": marker,
        **more,
    }


SAYS = "%{customdata}<extra></extra>"  # labels a point with its own text
LIMIT = {"color": "var(--limit)", "dash": "dash"}
OUTLINED = {"width": 1, "color": "var(--paper)"}


def rows(columns: Sequence[str], all_rows: Iterable[Sequence[str]]) -> Rows:
    """Make a table of the first `MOST_ROWS` rows."""
    texts = [tuple(row) for row in all_rows]
    return Rows(tuple(columns), tuple(texts[:MOST_ROWS]), max(0, len(texts) - MOST_ROWS))


def time_axis(facts: ReportFacts) -> JSON:
    """Return the x axis of wall time that all figures over time share."""
    began, ended = facts.span
    edge = max(1000, facts.active_ms // 50)
    return {
        "type": "date",
        "range": [began - edge, ended + edge],
        "title": {"text": "time (UTC)"},
        "tickangle": 0,
        "ticklabelstandoff": _APART_PX,
        "hoverformat": "%Y-%m-%d %H:%M:%S",
        **_LINES,
    }


def axis(title: str, **more: Any) -> JSON:
    """Return an axis of numbers that begins at zero."""
    return {
        "title": {"text": title, "standoff": 10},
        "rangemode": "tozero",
        "automargin": True,
        **_LINES,
        **more,
    }


def scale_axis(
    title: str, values: Sequence[float], steps: Sequence[float], text: Callable[[float], str]
) -> JSON:
    """Return an axis of positive numbers, logarithmic over a factor of ten, with `steps`."""
    low, high = min(values), max(values)
    log = low > 0 and high >= _LOG_FROM * low
    if log:
        near = [step for step in steps if low / 2 <= step <= high * 2]
        ticks = near[:: -(-len(near) // _MOST_TICKS)]
        edge = math.log10(high / low) * _EDGE
        span = [math.log10(low) - edge, math.log10(high) + edge]
    else:
        step = next((step for step in steps if high / step < _MOST_TICKS), steps[-1])
        ticks = [step * n for n in range(int(high / step) + 1)]
        span = [0, high * (1 + 2 * _EDGE)]
    return {
        "title": {"text": title},
        "type": "log" if log else "linear",
        "range": span,
        "tickvals": ticks,
        "ticktext": [text(tick) for tick in ticks],
        "ticklabelstandoff": _APART_PX,
        "automargin": True,
        **_LINES,
    }


def layout(x: JSON, y: JSON, **more: Any) -> JSON:
    """Return the layout that all figures of the page share, with these axes."""
    return {
        "xaxis": x,
        "yaxis": y,
        "paper_bgcolor": "var(--paper)",
        "plot_bgcolor": "var(--paper)",
        "font": {"color": "var(--ink)", "family": "system-ui, sans-serif", "size": 12},
        "hoverlabel": {
            "bgcolor": "var(--panel)",
            "bordercolor": "var(--rule)",
            "font": {"color": "var(--ink)"},
        },
        "legend": {"orientation": "h", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"},
        "margin": {"l": 56, "r": 12, "t": 40, "b": 54},
        "dragmode": "zoom",
        **more,
    }


_LINES = {"gridcolor": "var(--rule)", "linecolor": "var(--rule)", "zerolinecolor": "var(--rule)"}

T = TypeVar("T")
V = TypeVar("V")

_MOST_POINTS = 400


def as_time(t: int) -> str:
    """Format ms since 1970 as date and time in UTC: `2026-05-04 13:37:00`."""
    return datetime.fromtimestamp(t / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def lasted(ms: float) -> str:
    """Format a length in ms."""
    return as_duration(ms / 1000)


def grid(span: Span, cut: Sequence[Span] = ()) -> list[int]:
    """Return about 400 equal moments in ms, 1 s apart or more, with all ends and none in cuts."""
    began, ended = span
    left = ended - began - sum(to - since for since, to in cut)
    step = max(1000, -(-left // _MOST_POINTS))
    starts, ends = [began, *(to for _, to in cut)], [*(since for since, _ in cut), ended]
    moments = {t for start, end in zip(starts, ends, strict=True) for t in range(start, end, step)}
    return sorted({*moments, *starts, *ends})


def breaks(points: Iterable[tuple[int, V]], gaps: Sequence[Span]) -> list[tuple[int, V | None]]:
    """Replace what is within a gap by a point without a value, so that no line bridges it."""
    found: list[tuple[int, V | None]] = []
    for t, value in points:
        if any(a < t < b for a, b in gaps):
            continue
        if found and any(found[-1][0] <= a and b <= t for a, b in gaps):
            found.append((found[-1][0] + 1, None))
        found.append((t, value))
    return found


def outside(spans: Iterable[Span], cut: Sequence[Span]) -> Iterator[Span]:
    """Yield the parts of spans that are in none of those to cut, which are in order."""
    for began, ended in spans:
        known = began
        for since, to in cut:
            if since < ended and known < to:
                if known < since:
                    yield known, since
                known = to
        if known < ended:
            yield known, ended


def held(values: Iterable[tuple[Span, V]], gaps: Sequence[Span]) -> list[tuple[int, V | None]]:
    """Return the points of a line of values that each hold for a time, broken by gaps."""
    points: list[tuple[int, V | None]] = []
    for span, value in values:
        for began, ended in outside([span], gaps):
            if points and points[-1][0] != began:
                points.append((began, None))
            points += [(began, value), (ended, value)]
    return points


def until_next(times: Sequence[int], end: int) -> list[Span]:
    """Return the time from each moment to the next; that from the last one lasts to the end."""
    return list(zip(times, [*times[1:], end], strict=True))


class Counter:
    """Counts the intervals that contain a moment; an interval contains its start, not its end."""

    def __init__(self, intervals: Iterable[tuple[int, int | None]]) -> None:
        known = list(intervals)
        self._began = sorted(began for began, _ in known)
        self._ended = sorted(ended for _, ended in known if ended is not None)

    def at(self, t: int) -> int:
        return bisect_right(self._began, t) - bisect_right(self._ended, t)

    def most(self) -> int:
        return max((self.at(t) for t in self._began), default=0)


def thinned(points: Sequence[T], most: int = _MOST_POINTS) -> Sequence[T]:
    """Thin points out to at most about `most`; the last point always stays."""
    if len(points) <= most:
        return points
    every = -(-len(points) // most)
    return [*points[:-1:every], points[-1]]


_LONGEST = 26
_LABEL_WIDTH = 60  # the most characters of a line of a label that pops up


def without_markup(text: str) -> str:
    """Escape all that the drawing library would read as markup."""
    return html.escape(clean(text), quote=False)


def hover_text(text: str) -> str:
    """Return a text for the drawing library, in lines short enough for a label."""
    lines = textwrap.wrap(clean(text), _LABEL_WIDTH, break_on_hyphens=False)
    return "<br>".join(html.escape(line, quote=False) for line in lines)


def partition_name(row: PartitionRow) -> str:
    """Name a partition."""
    return f"{clean(row.topic)}-{row.partition}"


def short_partition_name(row: PartitionRow) -> str:
    """Name a partition so that the name fits beside a drawing: a long name loses its middle."""
    name = partition_name(row)
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST // 2]}…{name[-(_LONGEST // 2 - 1) :]}"


def brokers(ids: tuple[int, ...] | None) -> str:
    """List broker ids as text, in their order; `-` for None."""
    return "-" if ids is None else ", ".join(map(str, ids))


STATES = {
    "queued": "var(--queued)",
    "between steps": "var(--between)",
    "adding": "var(--adding)",
    "catching up": "var(--catching-up)",
    "stalled": "var(--stalled)",
    "in sync": "var(--in-sync)",
    "electing": "var(--electing)",
}
"""The colours of states, in the order in which a move goes through the states."""
PATTERNS = {"stalled": "x", "adding": "/", "electing": "."}
"""The patterns of some states, so that colour is not the only difference."""
ENDED = "var(--ended)"
UNSEEN = "no state seen"
"""The time between two polls in which a move goes on, and no poll shows its state."""

UNRECORDED = "not recorded"

MARKS = {
    PAUSE: ("square", "var(--line-4)"),
    LIMITS: ("diamond", "var(--line-1)"),
    THROTTLE: ("triangle-up", "var(--line-3)"),
    BROKER: ("x", "var(--line-8)"),
    OTHER: ("star", "var(--line-7)"),
}
LINES = tuple(f"var(--line-{number})" for number in range(1, MOST_CURVES + 1))
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")


def line_look(place: int) -> JSON:
    """Return the look of one of several lines: colours and dashes repeat after eight."""
    return {"color": LINES[place % len(LINES)], "dash": _DASHES[place % len(_DASHES)]}
