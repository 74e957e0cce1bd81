"""The figure of an objective, as ktui's own canary measures it."""

from __future__ import annotations

from ktui.execution.throttle.objective_rates import Figure
from ktui.kafka.canary import Canary
from ktui.planning.objective import Objective


class CanaryFigure:
    """Let a canary write from the first time that its figure is needed.

    Args:
        canary: the canary.
    """

    def __init__(self, canary: Canary) -> None:
        self._canary = canary

    def __call__(self, objective: Objective) -> Figure:
        """Return the percentile that an objective names, of each broker."""
        percent = objective.percent
        if percent is None:
            return Figure(None, f"the canary measures p50 to p99.9, and no {objective.name}")
        self._canary.start()
        brokers = {
            broker: round(seconds * 1000, 1) if objective.unit == "ms" else round(seconds, 4)
            for broker, seconds in self._canary.percentiles_s(percent).items()
        }
        return Figure(None, "" if brokers else self._canary.problem, brokers)
