"""The figure of an objective, as ktui's own canary measures it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ktui.execution.throttle.objective import Figure
from ktui.planning.objective import Objective, not_measured_by_canary


class AnyCanary(Protocol):
    """A canary: on a real cluster, or what it would measure on a simulated one."""

    problem: str
    """Why nothing is known."""

    def start(self) -> None:
        """Begin to write; a second call does nothing."""
        ...

    def percentiles_s(self, percent: float) -> Mapping[int, float]:
        """Return the percentile of each broker whose figure is known, in seconds."""
        ...


class CanaryFigure:
    """Let a canary write from the first time that its figure is needed.

    Args:
        canary: the canary.
    """

    def __init__(self, canary: AnyCanary) -> None:
        self._canary = canary

    def __call__(self, objective: Objective) -> Figure:
        """Return the percentile that an objective names, of each broker."""
        percent = objective.percent
        if percent is None:
            return Figure(None, not_measured_by_canary(objective))
        self._canary.start()
        brokers = {
            broker: round(seconds * 1000, 1) if objective.unit == "ms" else round(seconds, 4)
            for broker, seconds in self._canary.percentiles_s(percent).items()
        }
        return Figure(None, "" if brokers else self._canary.problem, brokers)
