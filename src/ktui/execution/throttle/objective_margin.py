"""How far below an objective a mean has to stay, so that single windows are below it; pure."""

from __future__ import annotations

from math import exp, log

_AT_FIRST, _MOST = log(1.6), log(4.0)
_LEARNS, _BEYOND = 0.2, 0.04
"""The step by which the margin is learnt, and the share of windows that may lie beyond it."""


class Margin:
    """The distance between the mean of windows and the objective, learnt from how they scatter.

    The rates of all brokers share it: a window counts as over the objective if any broker is, and
    so they learn from each other's windows.
    """

    def __init__(self) -> None:
        self._log = _AT_FIRST
        self.learners = 1
        """How many rates learn it together."""

    @property
    def aim(self) -> float:
        """The part of the objective that the mean stays below, 0.25 to 1."""
        return exp(-self._log)

    def learn(self, above: float) -> None:
        """Learn from one window of one rate.

        The margin moves up by much for each window that lies beyond it and down by little for each
        other, so that it stands still when `_BEYOND` of them do (a quantile by stochastic
        approximation).

        Args:
            above: the logarithm of the window's figure, less the mean of those before.
        """
        step = 1 - _BEYOND if above > self._log else -_BEYOND
        self._log = min(max(self._log + _LEARNS / self.learners * step, 0.0), _MOST)
