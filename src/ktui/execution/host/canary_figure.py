"""The figure of an objective, as ktui's own canary measures it."""

from __future__ import annotations

from typing import Protocol

from ktui.execution.throttle.keep_objective import Figure
from ktui.planning.objective import Objective


class AnyCanary(Protocol):
    """A canary: on a real cluster, or what it would measure on a simulated one."""

    problem: str
    """Why nothing is known."""

    def start(self) -> None:
        """Begin to write; a second call does nothing."""
        ...

    def percentile_s(self, percent: float) -> float | None:
        """Return the slowest broker's percentile, in seconds; None if unknown."""
        ...


class CanaryFigure:
    """Let a canary write from the first time that its figure is needed.

    Args:
        canary: the canary.
    """

    def __init__(self, canary: AnyCanary) -> None:
        self._canary = canary

    def __call__(self, objective: Objective) -> Figure:
        """Return the percentile that an objective names, of the slowest broker."""
        percent = objective.percent
        if percent is None:
            return Figure(None, f"the canary measures p50 to p99.9, and no {objective.name}")
        self._canary.start()
        seconds = self._canary.percentile_s(percent)
        if seconds is None:
            return Figure(None, self._canary.problem)
        return Figure(round(seconds * 1000, 1) if objective.unit == "ms" else round(seconds, 4))
