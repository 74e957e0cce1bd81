"""Keep an operator's objective: choose the rate by their figure, window by window."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ktui.cluster.clock import Clock
from ktui.execution.run.events import RateHeld
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.objective_control import WINDOW_S, RateControl
from ktui.planning.objective import Objective
from ktui.progress.flows import Flows

SLACK = 0.1
"""A rate is set again only when it changes by more than this part of it."""
REPORT_S = 60.0
"""Seconds after which the figure and the share of windows are journaled again."""


class Figure(NamedTuple):
    """The figure of the last window."""

    value: float | None
    """In the objective's unit; None if there is none."""
    problem: str = ""
    """Why there is none."""


def no_figure(_objective: Objective) -> Figure:
    """Return that there is no figure."""
    return Figure(None, "nothing tells it")


class ObjectiveKeeper:
    """Drive the rate of a run while it has an objective.

    Args:
        run: the fold of its journal.
        clock: the time.
        figure: the figure to keep below the objective.
    """

    def __init__(self, run: Run, clock: Clock, figure: Callable[[Objective], Figure]) -> None:
        self._run = run
        self._clock = clock
        self._figure = figure
        self._objective: Objective | None = None
        self._control = RateControl(1.0)
        self._window_s = self._reported_s = 0.0
        self._windows = self._kept = 0

    def update(self, flows: Flows) -> list[RateHeld]:
        """Return the rate from now on, once a window; nothing if it stays as it is.

        Windows in which nothing is copied do not count.
        """
        objective, now_s = self._run.throttled.rates.objective, self._clock.monotonic()
        if objective != self._objective:
            self._begin(objective, now_s)
        if objective is None or now_s - self._window_s < WINDOW_S:
            return []
        self._window_s, figure = now_s, self._figure(objective)
        if not self._copies:
            return []
        used = [of.in_s for of in flows.brokers.values() if of.in_s is not None]
        rate = self._control.window(now_s, figure.value, max(used, default=None))
        self._windows += 1
        self._kept += figure.value is not None and figure.value <= objective.below
        return self._report(rate, figure, now_s)

    @property
    def _copies(self) -> bool:
        in_flight = self._run.tracks_in_flight.values()
        return any(track.step is not None and track.step.begun.adding for track in in_flight)

    def _begin(self, objective: Objective | None, now_s: float) -> None:
        self._objective, self._window_s, self._reported_s = objective, now_s, now_s
        if objective is not None:
            self._figure(objective)  # begins to ask
            held = self._run.throttled.held_at or RateHeld(rate=FLOOR)
            self._control = RateControl(objective.below, held.rate)
            self._windows, self._kept = held.windows, held.kept

    def _report(self, rate: int, figure: Figure, now_s: float) -> list[RateHeld]:
        before = self._run.throttled.held_at
        old = None if before is None else before.rate
        alike = old is not None and abs(rate - old) <= SLACK * old
        other = before is not None and (before.figure is None, before.reason) != (
            figure.value is None,
            figure.problem,
        )
        if alike and not other and now_s - self._reported_s < REPORT_S:
            return []
        self._reported_s = now_s
        shown = old if alike and old is not None else rate
        return [
            RateHeld(
                rate=shown,
                figure=figure.value,
                reason=figure.problem,
                windows=self._windows,
                kept=self._kept,
            )
        ]
