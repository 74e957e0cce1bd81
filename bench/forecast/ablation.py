"""`python -m bench forecast-ablate`: what each constant of the forecast is worth.

Each is set to other values, one at a time, and judged on the runs to learn on: never on the frozen
ones. The figure is the median error of runs, mean over the tenths of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from statistics import fmean, median
from types import ModuleType
from typing import NamedTuple

from bench.forecast.moments import KTUI, Moment, replay
from bench.forecast.real_runs import Machine
from bench.forecast.scores import (
    TENTHS,
    by_run,
    coverage,
    is_telling,
    pinball,
    relative_error,
    tenth_of,
)
from bench.forecast.stored import RunSet, real, simulated_runs
from ktui.execution.forecast import estimate
from ktui.execution.time_left import forecast, rest
from ktui.pipeline.forecast.replay import PARTITION, RUN
from ktui.progress import catchup, poll
from ktui.speed import capacity, copies, simulate
from ktui.speed.answer import Span


class Constant(NamedTuple):
    """A constant, and other values of it."""

    module: ModuleType
    name: str
    values: Sequence[object]

    @contextmanager
    def set_to(self, value: object) -> Iterator[None]:
        """Set it to another value for a while."""
        before = getattr(self.module, self.name)
        setattr(self.module, self.name, value)
        try:
            yield
        finally:
            setattr(self.module, self.name, before)


OF_RUNS = (
    Constant(capacity, "_SPAN_S", (20.0, 1e9)),
    Constant(capacity, "_DOUBT_S", (0.01, 20.0)),
    Constant(capacity, "BINDS", (0.9,)),
    Constant(capacity, "THROTTLED", [Span(0.35, share, 1.4) for share in (0.5, 0.8, 1.0)]),
    Constant(capacity, "_ENOUGH_S", (0.5,)),
    Constant(copies, "SENDING", (0.0, 0.25, 1.0)),
    Constant(copies, "HALF_AT", (0.0, 4.0)),
    Constant(rest, "_GROWTH_SPAN_S", (1e9,)),
    Constant(rest, "_LONGEST_S", (2.0,)),
    Constant(rest, "_MOST_SHARE", (0.8, 1.0)),
    Constant(rest, "_STEPS", (3,)),
    Constant(estimate, "LEAST", (timedelta(seconds=20),)),
    Constant(estimate, "STANDSTILL", (timedelta(seconds=60),)),
    Constant(forecast, "_EVERY", (timedelta(seconds=5), timedelta(seconds=20))),
    Constant(forecast, "_JUDGED_S", (1.0, 1e9)),
    Constant(forecast, "_SMALLEST_SAMPLE", (1, 100_000_000)),
    Constant(simulate, "_MOST", (5,)),
    Constant(forecast, "_REMEMBERED", (timedelta(minutes=1),)),
    Constant(forecast, "APART", (timedelta(seconds=1),)),
    Constant(forecast, "SEEN_S", (0.0,)),
    Constant(forecast, "_LEAST_OFF", (1.0,)),
    Constant(forecast, "_MOST_OFF", (2.0,)),
    Constant(forecast, "_OFF_AT_FIRST", (1.2,)),
    Constant(forecast, "_WIDER", (1.0,)),
)
"""The constants of a run's forecast; the last seven are of its range alone."""
OF_PARTITIONS = (
    Constant(poll, "SMOOTHING_S", (10.0, 40.0)),
    Constant(poll, "GULP_S", (0.0, 30.0)),
    Constant(poll, "_DOUBTED", (1.0,)),
    Constant(catchup, "_LEAST_NET", (0.0, 0.5)),
    Constant(catchup, "_AT_FIRST", (1.2,)),
    Constant(catchup, "_ENOUGH", (4,)),
    Constant(catchup, "SEEN_S", (0.0,)),
    Constant(catchup, "_UNSURE", (1.01,)),
    Constant(catchup, "_WIDEST", (3.0,)),
)
"""The constants of a partition's forecast; the last five are of its range alone."""


class Score(NamedTuple):
    """How good the forecasts of some runs are."""

    error: float
    loss: float
    covered: float

    def __str__(self) -> str:
        return (
            f"median error {self.error:.1%}  pinball {self.loss:.3f}  in range {self.covered:.0%}"
        )


def run() -> None:
    """Print the scores with each constant as it is, and with other values."""
    for runs in learnt_on():
        print(runs.title)
        for scope, constants in ((RUN, OF_RUNS), (PARTITION, OF_PARTITIONS)):
            print(f"  of a {scope}, as it is: {score(runs, scope)}")
            for constant in constants:
                for value in constant.values:
                    with constant.set_to(value):
                        print(f"    {constant.name} = {value}: {score(runs, scope)}", flush=True)


def learnt_on() -> list[RunSet]:
    """Return the runs by which constants are chosen."""
    of_labs = [real(machine, frozen=False) for machine in Machine]
    return [*of_labs, simulated_runs(frozen=False)]


def score(runs: RunSet, scope: str) -> Score:
    """Score the forecasts of some runs, or of their partitions."""
    moments = [
        moment
        for stored in runs.runs
        for moment in replay(stored).moments
        if moment.scope == scope and is_telling(moment)
    ]
    errors = [_error(of) for tenth in range(TENTHS) if (of := _in(tenth, moments))]
    cover = coverage(moments)
    return Score(
        fmean(error for error in errors if error is not None),
        fmean(figure.value for figure in by_run(moments, pinball, fmean)),
        0.0 if cover is None else cover.known.value,
    )


def _in(tenth: int, moments: Sequence[Moment]) -> list[Moment]:
    return [moment for moment in moments if tenth_of(moment) == tenth]


def _error(moments: Sequence[Moment]) -> float | None:
    figures = by_run(moments, lambda m: relative_error(m, KTUI), median)
    return median(figure.value for figure in figures) if figures else None
