"""Errors of forecasts: by tenth of a run, with intervals by bootstrap over clusters and runs.

A run counts once in each tenth, whatever its length: its figure is the median, or the mean, of its
moments there. Moments of which the truth is not known are no part of a median of errors. They are
counted, and bound the coverage from below and from above.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median
from typing import Generic, NamedTuple, TypeVar

from bench.forecast.moments import KTUI, Moment
from bench.timing import percentile
from ktui.pipeline.forecast.insights import TELLING_S

TENTHS = 10
LEVEL = 0.8
"""A range is from p10 to p90: it should contain so many of the truths."""
_QUANTILES = (0.1, 0.5, 0.9)
_RESAMPLES = 400
_SEED = 7


Value = TypeVar("Value")


class Interval(NamedTuple):
    """A figure, and the middle 95% of its values in resampled clusters and runs."""

    value: float
    low: float
    high: float


class RunFigure(NamedTuple, Generic[Value]):
    """The figure of one run in one tenth."""

    cluster: str
    run: str
    value: Value


def tenth_of(moment: Moment) -> int:
    """Return the tenth of a moment, as the pipeline counts it: 0 to 9."""
    return min(TENTHS - 1, int(moment.share * TENTHS))


def is_telling(moment: Moment) -> bool:
    """Whether enough time was left for an error to matter, as in the pipeline's insights."""
    return max(moment.truth_s or 0.0, moment.at_least_s or 0.0) >= TELLING_S


def relative_error(moment: Moment, of: str) -> float | None:
    """Return |forecast - truth| / truth; None where either is not known."""
    forecast = moment.forecast(of)
    if forecast is None or not moment.truth_s:
        return None
    return abs(forecast - moment.truth_s) / moment.truth_s


def pinball(moment: Moment) -> float | None:
    """Return the mean pinball loss of ktui's three quantiles, as a share of the truth."""
    left, truth_s = moment.left, moment.truth_s
    if left is None or not truth_s:
        return None
    losses = [
        max(q * (truth_s - at), (q - 1) * (truth_s - at))
        for q, at in zip(_QUANTILES, (left.low, left.middle, left.high), strict=True)
    ]
    return fmean(losses) / truth_s


def is_covered(moment: Moment) -> float | None:
    """Return 1 where the range contains the truth, else 0; None where either is not known."""
    if moment.left is None or moment.truth_s is None:
        return None
    return float(moment.left.low <= moment.truth_s <= moment.left.high)


def by_run(
    moments: Iterable[Moment],
    of: Callable[[Moment], float | None],
    sum_up: Callable[[Sequence[float]], float],
) -> list[RunFigure[float]]:
    """Sum up a figure of moments run by run; runs without any are left out."""
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for moment in moments:
        value = of(moment)
        if value is not None:
            found[moment.cluster, moment.run].append(value)
    return [RunFigure(*run, sum_up(values)) for run, values in sorted(found.items())]


def with_interval(
    figures: Sequence[RunFigure[Value]], sum_up: Callable[[Sequence[Value]], float]
) -> Interval:
    """Sum up the figures of runs, with the interval of resampled clusters and of their runs.

    Args:
        figures: at least one figure.
        sum_up: sums up the figures of some runs.
    """
    clusters: defaultdict[str, list[Value]] = defaultdict(list)
    for figure in figures:
        clusters[figure.cluster].append(figure.value)
    drawn, of = random.Random(_SEED), list(clusters.values())  # noqa: S311 - resampling
    values = []
    for _ in range(_RESAMPLES):
        chosen = drawn.choices(of, k=len(of))
        values.append(sum_up([v for one in chosen for v in drawn.choices(one, k=len(one))]))
    value = sum_up([figure.value for figure in figures])
    return Interval(value, percentile(values, 0.025), percentile(values, 0.975))


class Compared(NamedTuple):
    """ktui against one baseline in one tenth, at the moments at which both had a forecast."""

    runs: int
    ktui: float
    baseline: float
    behind: Interval
    """By how much ktui's median error is greater; less than 0 where ktui is ahead."""


def compare(moments: Sequence[Moment], baseline: str) -> Compared | None:
    """Compare the median errors; None where no run has a moment with both forecasts."""
    both = [
        m for m in moments if None not in (relative_error(m, KTUI), relative_error(m, baseline))
    ]
    mine = by_run(both, lambda m: relative_error(m, KTUI), median)
    others = by_run(both, lambda m: relative_error(m, baseline), median)
    if not mine:
        return None
    pairs = [
        RunFigure(mine_.cluster, mine_.run, (mine_.value, other.value))
        for mine_, other in zip(mine, others, strict=True)
    ]
    ktui, naive = median(f.value for f in mine), median(f.value for f in others)
    return Compared(len(mine), ktui, naive, with_interval(pairs, _behind))


def _behind(pairs: Sequence[tuple[float, float]]) -> float:
    return median(mine for mine, _ in pairs) - median(other for _, other in pairs)


class Coverage(NamedTuple):
    """How often the range contains the truth, run by run."""

    known: Interval
    """At the moments of which the truth is known."""
    least: float
    """As if it missed the truth at every moment of which it may have."""
    most: float
    """As if it contained the truth at every moment of which it may have."""


def coverage(moments: Sequence[Moment]) -> Coverage | None:
    """Return the coverage of ktui's range; None where no moment has a range and a truth."""
    known = by_run(moments, is_covered, fmean)
    if not known:
        return None

    def at_worst(moment: Moment) -> float | None:
        return 0.0 if _is_open(moment) else is_covered(moment)

    def at_best(moment: Moment) -> float | None:
        if moment.left is None or moment.at_least_s is None:
            return is_covered(moment)
        return float(moment.left.high >= moment.at_least_s)

    return Coverage(
        with_interval(known, fmean),
        fmean(f.value for f in by_run(moments, at_worst, fmean)),
        fmean(f.value for f in by_run(moments, at_best, fmean)),
    )


def _is_open(moment: Moment) -> bool:
    return moment.left is not None and moment.truth_s is None


def surely_short(moments: Iterable[Moment]) -> float | None:
    """Return the share of the moments with an unknown truth whose forecast was surely too short."""
    short = [
        moment.left.middle < moment.at_least_s
        for moment in moments
        if moment.left is not None and moment.at_least_s is not None
    ]
    return fmean(short) if short else None
