"""Keep an operator's objective: choose the rates by their figure, window by window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.execution.run.events import RateHeld
from ktui.execution.run.run import Run
from ktui.execution.throttle.desired import joining
from ktui.execution.throttle.objective_control import WINDOW_S
from ktui.execution.throttle.objective_rates import Figure, ObjectiveRates, Window
from ktui.planning.objective import Objective
from ktui.progress.flows import Flows

SLACK = 0.1
"""A rate is set again only when it changes by more than this part of it."""
REPORT_S = 60.0
"""Seconds after which the figure and the share of windows are journaled again."""


def no_figure(_objective: Objective) -> Figure:
    """Return that there is no figure."""
    return Figure(None, "nothing measures it")


class ObjectiveKeeper:
    """Drive the rates of a run while it has an objective.

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
        self._rates = ObjectiveRates(1.0)
        self._window_s = self._reported_s = 0.0
        self._sources: defaultdict[int, set[int]] = defaultdict(set)
        """The brokers that have received copies in this window, and the leaders of those."""
        self._windows = self._kept = 0

    def update(self, seen: Observation, flows: Flows) -> list[RateHeld]:
        """Return the rates from now on, once a window; nothing if they stay as they are.

        Windows in which nothing is copied do not count.

        Args:
            seen: the last poll of the cluster.
            flows: the measured traffic at that poll.
        """
        objective, now_s = self._run.throttled.rates.objective, self._clock.monotonic()
        if objective != self._objective:
            self._begin(objective, now_s)
        if objective is None:
            return []
        self._see_copies(seen)
        if now_s - self._window_s < WINDOW_S:
            return []
        self._window_s, figure = now_s, self._figure(objective)
        sources, self._sources = self._sources, defaultdict(set)
        if not sources:
            return []
        later = {broker for broker, count in self._run.copies.onto.items() if count > 0}
        self._rates.keep(later | sources.keys())
        held = self._rates.window(Window(figure, sources, flows))
        self._windows += 1
        self._kept += held.figure is not None and held.figure <= objective.below
        held = msgspec.structs.replace(held, windows=self._windows, kept=self._kept)
        return self._report(held, now_s)

    def _see_copies(self, seen: Observation) -> None:
        for tp, track in self._run.tracks_in_flight.items():
            if track.step is None:
                continue
            begun, state = track.step.begun, seen.partitions.get(tp)
            leader = begun.leader if state is None else state.leader
            for broker in joining(begun, state):
                self._sources[broker].update(() if leader is None else (leader,))

    def _begin(self, objective: Objective | None, now_s: float) -> None:
        self._objective, self._window_s, self._reported_s = objective, now_s, now_s
        self._sources.clear()
        if objective is not None:
            self._figure(objective)  # begins to ask
            before = self._run.throttled.held_at
            self._rates = ObjectiveRates(objective.below, before)
            self._windows, self._kept = (0, 0) if before is None else (before.windows, before.kept)

    def _report(self, held: RateHeld, now_s: float) -> list[RateHeld]:
        before = self._run.throttled.held_at
        if before is not None:
            held = _steadied(held, before)
            alike = (held.rate, held.rates) == (before.rate, before.rates)
            known = (held.figure is None, held.reason) == (before.figure is None, before.reason)
            if alike and known and now_s - self._reported_s < REPORT_S:
                return []
        self._reported_s = now_s
        return [held]


def _steadied(new: RateHeld, old: RateHeld) -> RateHeld:
    """Return the new rates, without the changes that are not worth to be set."""
    brokers = tuple(
        each
        if each.rate is None
        else msgspec.structs.replace(each, rate=_steady(each.rate, old.rates.get(each.broker)))
        for each in new.brokers
    )
    return msgspec.structs.replace(new, rate=_steady(new.rate, old.rate), brokers=brokers)


def _steady(new: int, old: int | None) -> int:
    return old if old is not None and abs(new - old) <= SLACK * old else new
