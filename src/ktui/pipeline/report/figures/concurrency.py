"""The figure of the partitions and replicas in flight, against the limits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ktui.pipeline.lake.records import ReportFacts, Span
from ktui.pipeline.report.figures.figure import (
    JSON,
    Figure,
    Missing,
    axis,
    layout,
    rows,
    time_axis,
)
from ktui.pipeline.report.figures.text import as_time, grid, held, thinned, until_next
from ktui.quantities import as_count

ID, TITLE = "concurrency", "How much was under way, and how much was allowed"
_MOST_ROWS = 40
_PARTITIONS, _REPLICAS = "partitions", "replicas"


def concurrency_figure(facts: ReportFacts) -> Figure | Missing:
    """Draw the partitions and replicas in flight over time, and their limits."""
    if not any(seen.partitions for seen in facts.in_flight):
        return Missing(ID, TITLE, "No poll saw a partition move.")
    gaps = facts.gaps
    moments = sorted({*grid(facts.span, facts.idle), *(t for gap in gaps for t in gap)})
    seen = [one.t for one in facts.in_flight]
    partitions = peaks(seen, [one.partitions for one in facts.in_flight], moments, gaps)
    replicas = peaks(seen, [one.replicas for one in facts.in_flight], moments, gaps)
    points = thinned(range(len(moments)), _MOST_ROWS)
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(facts),
        caption=(
            "Above: partitions being reassigned, against the limit of partitions, under which those"
            " that are only being cut hold no place. Below: replicas being added, against the limit"
            " of replica movements. The most that a poll saw: where none was recorded, nothing is"
            " drawn. A limit that is not set is not drawn either."
        ),
        traces=[
            _count(_PARTITIONS, moments, partitions, "y", "var(--line-1)"),
            *_limit([(li.t, li.partitions) for li in facts.limits], facts, _PARTITIONS, "y"),
            _count(_REPLICAS, moments, replicas, "y2", "var(--line-2)"),
            *_limit([(li.t, li.replica_movements) for li in facts.limits], facts, _REPLICAS, "y2"),
        ],
        layout=layout(
            {**time_axis(facts), "anchor": "y2"},
            axis(_PARTITIONS, domain=[0.56, 1]),
            yaxis2=axis(_REPLICAS, domain=[0, 0.44]),
            hovermode="x unified",
        ),
        height=460,
        table=rows(
            ("time (UTC)", "partitions being reassigned", "replicas being added"),
            ((as_time(moments[p]), _shown(partitions[p]), _shown(replicas[p])) for p in points),
        ),
    )


def _shown(count: int | None) -> str:
    return "-" if count is None else str(count)


def peaks(
    times: Sequence[int], counts: Sequence[int], moments: Sequence[int], gaps: Sequence[Span]
) -> list[int | None]:
    """Return the highest count from each moment to the next; None within a gap.

    Args:
        times: when each poll was answered, in order.
        counts: what each poll counted.
        moments: the moments, in order, the ends of all gaps among them.
        gaps: the times that no poll shows.
    """
    polled = set(times)
    closed = {
        moment
        for moment in moments
        for began, ended in gaps
        if began <= moment <= ended and (moment < ended or ended not in polled)
    }
    found: list[int | None] = []
    for moment, after in zip(moments, [*moments[1:], moments[-1] + 1], strict=True):
        begin, end = bisect_right(times, moment), bisect_right(times, after - 1)
        since = max(0, begin - 1)  # the last poll by then holds on until the next one
        found.append(None if moment in closed else max(counts[since:end], default=None))
    return found


def _count(
    name: str, moments: Sequence[int], counts: Sequence[int | None], y: str, colour: str
) -> JSON:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": moments,
        "y": counts,
        "yaxis": y,
        "line": {"shape": "hv", "color": colour, "width": 2},
    }


def _limit(
    changes: Sequence[tuple[int, int | None]], facts: ReportFacts, name: str, y: str
) -> list[JSON]:
    if all(limit is None for _, limit in changes):
        return []
    spans = until_next([t for t, _ in changes], facts.span[1])
    allowed = [limit for _, limit in changes]
    points = held(zip(spans, allowed, strict=True), facts.gaps)
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"limit of {name}",
            "x": [t for t, _ in points],
            "y": [limit for _, limit in points],
            "yaxis": y,
            "line": {"color": "var(--limit)", "dash": "dash", "width": 2},
        }
    ]


def _says(facts: ReportFacts) -> str:
    partitions = max(seen.partitions for seen in facts.in_flight)
    replicas = max(seen.replicas for seen in facts.in_flight)
    most = f"At most {as_count(partitions, 'partition')} and {as_count(replicas, 'replica')}"
    return f"{most} were under way at a time{_changes(facts)}."


def _changes(facts: ReportFacts) -> str:
    if not facts.of_run:
        return ""
    if not facts.limits:
        return "; no limits of the run were recorded"
    changes = len(facts.limits) - 1
    return f"; the limits were changed {as_count(changes, 'time')}" if changes else ""
