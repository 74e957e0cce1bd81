"""The figure of how long moves took, by how much they copied."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence

from ktui.pipeline.lake.records import (
    MoveRecord,
    Partition,
    ReportFacts,
    Sample,
    by_key,
    took,
    unread,
    usual_ms,
)
from ktui.pipeline.report.figures import figure as fig
from ktui.pipeline.report.figures.figure import JSON, Figure, as_time, figure
from ktui.pipeline.report.figures.lanes import outcome
from ktui.quantities import as_bytes, as_count, as_duration, as_rate

_MOST_POINTS = 1_000
_LOOKS = (("circle", 1), ("x", 3), ("square", 2), ("diamond", 4), ("triangle-up", 5))
"""The symbol and the colour of the outcomes, the most frequent one first."""
_BYTES = tuple(n * 1024**power for power in range(6) for n in (1, 4, 16, 64, 256))
_SECONDS = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400, 172800,
    604800,
)  # fmt: skip


@figure("sizes", "Size and duration of the moves")
def sizes_figure(facts: ReportFacts) -> Figure | str:
    """Draw each move as a point: what it copied, and how long it took."""
    end = facts.span[1]
    known = [move for move in facts.moves if move.bytes and took(move, end) > 0]
    if not known:
        return "Of no move is it known how much it copied."
    known.sort(key=lambda move: (move.bytes or 0, move.key, move.began))
    of = by_key(known, outcome)
    drawn = fig.thinned(known, _MOST_POINTS)
    chosen = {(move.key, move.began) for move in drawn}
    by_count = sorted(of, key=lambda each: (-len(of[each]), each))
    drawing = _layout(known, end)
    return Figure(
        says=_says(known, end),
        caption=(
            "One point a move: the bytes that its new replicas copied, and the time that its steps"
            " took, without the waits between them, such as for the cut. The line is the median"
            " pace; a point far above it stood still or was slowed down."
            + _left_out(facts, known, drawn)
        ),
        traces=[
            *(
                _points(place, name, [m for m in of[name] if (m.key, m.began) in chosen], end)
                for place, name in enumerate(by_count)
            ),
            _pace_line(known, end, from_zero=drawing["xaxis"]["type"] == "linear"),
        ],
        layout=drawing,
        height=440,
        along_time=False,
        table=fig.rows(
            ("outcome", "moves", "median size", "median duration", "longest"),
            (_row(name, of[name], end) for name in by_count),
        ),
    )


def _points(place: int, name: str, moves: Sequence[MoveRecord], end: int) -> JSON:
    symbol, colour = _LOOKS[place % len(_LOOKS)]
    marker = {"symbol": symbol, "color": f"var(--line-{colour})", "size": 9, "line": fig.OUTLINED}
    points = []
    for move in moves:
        took_s = took(move, end) / 1000
        much = f"{as_bytes(move.bytes)} in {as_duration(took_s)}, {outcome(move)}"
        says = fig.without_markup(f"{fig.short_partition_name(move)}: {much}")
        points.append((move.bytes, took_s, says))
    return fig.signs(name, points, marker)


def _pace(moves: Sequence[MoveRecord], end: int) -> float:
    return statistics.median((move.bytes or 0) * 1000 / took(move, end) for move in moves)


def _pace_line(known: Sequence[MoveRecord], end: int, *, from_zero: bool) -> JSON:
    pace = _pace(known, end)
    ends = [0 if from_zero else known[0].bytes or 0, known[-1].bytes or 0]
    points = [(size, size / pace) for size in ends]
    return fig.line(f"median, {as_rate(pace)}", points, fig.LIMIT, hoverinfo="skip")


def _layout(known: Sequence[MoveRecord], end: int) -> JSON:
    sizes = [float(move.bytes or 0) for move in known]
    times = [took(move, end) / 1000 for move in known]
    x = fig.scale_axis("copied", sizes, _BYTES, lambda size: as_bytes(size).replace(".0 ", " "))
    y = fig.scale_axis("took", times, _SECONDS, as_duration)
    return fig.layout(x, y, hovermode="closest")


def _row(name: str, moves: Sequence[MoveRecord], end: int) -> tuple[str, ...]:
    times = [took(move, end) / 1000 for move in moves]
    size = statistics.median(move.bytes or 0 for move in moves)
    median = as_duration(statistics.median(times))
    return (name, f"{len(moves):,}", as_bytes(size), median, as_duration(max(times)))


def _says(known: Sequence[MoveRecord], end: int) -> str:
    pace = _pace(known, end)
    slowest = max(known, key=lambda move: took(move, end) / (move.bytes or 1))
    return (
        f"The median pace of {as_count(len(known), 'move')} was {as_rate(pace)}, stalls included."
        f" The slowest for its size was {fig.partition_name(slowest)}: {as_bytes(slowest.bytes)} in"
        f" {fig.lasted(took(slowest, end))}."
    )


def _left_out(facts: ReportFacts, known: Sequence[MoveRecord], drawn: Sequence[MoveRecord]) -> str:
    unknown = len(facts.moves) - len(known)
    words = f" Of {as_count(unknown, 'move')} the size is not known." if unknown else ""
    return words + (f" {len(drawn):,} of {len(known):,} are drawn." if drawn != known else "")


_CLASS = 16  # each class of sizes reaches up to so many times the smallest size in it
_RATES = tuple(n * 10**power for power in range(2, 11) for n in (1, 2, 5))


@figure("rate-spread", "How fast replicas were copied, by size")
def rate_spread_figure(facts: ReportFacts) -> Figure | str:
    """Draw the distribution of the moves' median rates, for each class of sizes."""
    known = [
        (size_class(move.bytes), move.rate_bytes_p50)
        for move in facts.moves
        if move.rate_bytes_p50 and move.bytes
    ]
    if not known:
        return "No rate of a copy could be worked out."
    of = by_key(sorted(known), lambda each: each[0])
    classes = {each: [rate for _, rate in rates] for each, rates in of.items()}
    everything = sorted(rate for rates in classes.values() for rate in rates)
    return Figure(
        says=_rate_spread_says(everything),
        caption=(
            "The share of moves whose median rate of one replica was at most that of the axis. A"
            " steep line is an even rate, as a throttle makes it; a line further left is slower."
            " Small replicas are often slower, as a step takes some seconds whatever its size."
        ),
        traces=[
            _trace(place, each, rates) for place, (each, rates) in enumerate(classes.items())
        ],
        layout=fig.layout(
            fig.scale_axis("rate of one replica", everything, _RATES, _rate_text),
            fig.axis("share of moves", range=[0, 1.03], tickformat=".0%"),
            hovermode="closest",
        ),
        along_time=False,
        table=fig.rows(
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
    points = fig.thinned([(rate, (n + 1) / len(rates)) for n, rate in enumerate(rates)])
    return fig.line(
        f"{class_text(each)} ({len(rates):,})",
        [(points[0][0], 0.0), *((rate, round(share, 4)) for rate, share in points)],
        {"shape": "hv", **fig.line_look(place)},
        mode="lines+markers" if len(rates) == 1 else "lines",
        showlegend=True,
        hovertemplate=f"{class_text(each)}: %{{y:.0%}} at most %{{x:.3s}}B/s<extra></extra>",
    )


def _quantile(sorted_rates: Sequence[float], share: float) -> float:
    """Return the smallest rate that at least this share of the moves did not exceed."""
    return sorted_rates[max(0, math.ceil(share * len(sorted_rates)) - 1)]


def _rate_spread_says(rates: Sequence[float]) -> str:
    slow, median, fast = (as_rate(_quantile(rates, share)) for share in (0.1, 0.5, 0.9))
    return (
        f"Half of {as_count(len(rates), 'move')} copied a replica at {median} or less; the slowest"
        f" tenth at {slow} or less, the fastest at more than {fast}."
    )


_MOST_ROWS = 24

CurvePoints = list[tuple[int, int]]


@figure("lag", "How the slowest moves caught up")
def lag_figure(facts: ReportFacts) -> Figure | str:
    """Draw the lag of the new replica that is furthest behind, for each of the slowest moves."""
    samples: dict[Partition, Sample] = {}
    found: defaultdict[Partition, CurvePoints] = defaultdict(list)
    for sample in facts.slowest:
        behind = lag(sample)
        if behind is not None:
            samples.setdefault(sample.key, sample)
            found[sample.key].append((sample.t, behind))
    times = {key: [t for t, _ in points] for key, points in found.items()}
    usual = usual_ms(times.values())
    curves = {key: fig.thinned(points) for key, points in found.items()}
    if not curves:
        return "No log end offset of a new replica was read."
    return Figure(
        says=_lag_says(found, samples),
        caption=(
            "Messages between the leader's log end offset and that of the new replica that is"
            " furthest behind. A flat stretch is a stall, a rising one falls behind what is"
            " produced. A line ends where nothing was read."
            f" The {len(curves)} moves that took longest; a line has at most 400 points."
        ),
        traces=[
            fig.line(
                fig.short_partition_name(samples[key]),
                fig.breaks(points, (*facts.gaps, *unread(times[key], usual))),
                fig.line_look(place),
            )
            for place, (key, points) in enumerate(curves.items())
        ],
        layout=fig.layout(fig.time_axis(facts), fig.axis("messages behind", tickformat="~s")),
        height=420,
        table=fig.rows(
            ("partition", "time (UTC)", "messages behind"),
            (
                (fig.partition_name(samples[key]), as_time(t), f"{behind:,}")
                for key, points in curves.items()
                for t, behind in fig.thinned(points, _MOST_ROWS)
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


def _lag_says(found: dict[Partition, CurvePoints], samples: dict[Partition, Sample]) -> str:
    furthest = max(found, key=lambda key: max(behind for _, behind in found[key]))
    most = max(behind for _, behind in found[furthest])
    return f"The furthest behind was {fig.partition_name(samples[furthest])}, by {most:,} messages."
