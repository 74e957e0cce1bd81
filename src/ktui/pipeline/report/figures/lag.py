"""The figure of how the slowest moves caught up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ktui.pipeline.lake.records import Partition, ReportFacts, Sample
from ktui.pipeline.report.figures.figure import (
    JSON,
    Figure,
    Missing,
    axis,
    layout,
    rows,
    time_axis,
)
from ktui.pipeline.report.figures.palette import DASHES, LINES
from ktui.pipeline.report.figures.text import (
    as_time,
    breaks,
    partition_name,
    short_partition_name,
    thinned,
    without_markup,
)

ID, TITLE = "lag", "How the slowest moves caught up"
MOST = len(LINES)
_MOST_ROWS = 24

CurvePoints = list[tuple[int, int]]


def lag_figure(facts: ReportFacts) -> Figure | Missing:
    """Draw the lag of the new replica that is furthest behind, for each of the slowest moves."""
    samples: dict[Partition, Sample] = {}
    found: defaultdict[Partition, CurvePoints] = defaultdict(list)
    for sample in facts.slowest:
        behind = lag(sample)
        if behind is not None:
            samples.setdefault(sample.key, sample)
            found[sample.key].append((sample.t, behind))
    curves = {key: thinned(points) for key, points in found.items()}
    if not curves:
        return Missing(ID, TITLE, "No log end offset of a new replica was read.")
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(found, samples),
        caption=(
            "Messages between the leader's log end offset and that of the new replica that is"
            " furthest behind. A flat stretch is a stall, a rising one falls behind what is"
            f" produced. The {len(curves)} moves that took longest; a line has at most 400 points."
        ),
        traces=[
            _trace(place, samples[key], breaks(points, facts.gaps))
            for place, (key, points) in enumerate(curves.items())
        ],
        layout=layout(time_axis(facts), axis("messages behind", tickformat="~s")),
        height=420,
        table=rows(
            ("partition", "time (UTC)", "messages behind"),
            (
                (partition_name(samples[key]), as_time(t), f"{behind:,}")
                for key, points in curves.items()
                for t, behind in thinned(points, _MOST_ROWS)
            ),
        ),
    )


def lag(sample: Sample) -> int | None:
    """Return the most messages that a new replica is behind its leader; None while unknown."""
    ends = {reading.broker: reading.end for reading in sample.ends}
    leader = None if sample.leader is None else ends.get(sample.leader)
    known = [ends[broker] for broker in sample.adding if broker in ends]
    if leader is None or not known:
        return None
    return max(0, leader - min(known))


def _trace(place: int, sample: Sample, points: Sequence[tuple[int, int | None]]) -> JSON:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": without_markup(short_partition_name(sample)),
        "x": [t for t, _ in points],
        "y": [behind for _, behind in points],
        "line": {"color": LINES[place % MOST], "dash": DASHES[place % MOST], "width": 2},
    }


def _says(found: dict[Partition, CurvePoints], samples: dict[Partition, Sample]) -> str:
    furthest = max(found, key=lambda key: max(behind for _, behind in found[key]))
    most = max(behind for _, behind in found[furthest])
    return f"The furthest behind was {partition_name(samples[furthest])}, by {most:,} messages."
