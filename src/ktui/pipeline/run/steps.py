"""The steps of a run: which of how many it is at, and about how long the rest takes."""

from __future__ import annotations

import time
from collections.abc import Callable

from ktui.quantities import as_duration

OnStep = Callable[[str], None]
"""Is called with a description of each step as it begins."""

_FACTS = {
    "decoding": 26,
    "lines": 15,
    "samples": 23,
    "polls and run events": 9,
    "states": 18,
    "moves": 12,
    "spans": 3,
    "batches": 2,
    "runs": 1,
    "rates": 2,
    "brokers": 5,
    "intakes": 1,
}
_INSIGHTS = {"forecasts": 13, "eta_errors": 5, "what_if": 24, "insights": 8}
"""The steps of a run in order, and about how many seconds each took of 170 with 58,000 samples."""
_TELLING = 0.2
"""Before this part of a run, its pace says too little about the rest."""


class CountedSteps:
    """Adds to the description of each step its number and the time left.

    Args:
        tell: is called with the text of each step.
        insights: whether the run has the steps for forecasts, what-if and insights.
        now: a monotonic clock, in seconds.
    """

    def __init__(
        self, tell: OnStep, *, insights: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._shares = _FACTS | (_INSIGHTS if insights else {})
        self._now = now
        self._began_s = now()

    def __call__(self, step: str) -> None:
        """Tell the step that begins; it has the name of one of the steps, or begins with it."""
        names = list(self._shares)
        place = next(n for n, name in enumerate(names) if step.startswith(name))
        done = sum(list(self._shares.values())[:place]) / sum(self._shares.values())
        self._tell(f"{place + 1} of {len(names)}: {step}{self._left(done)}")

    def _left(self, done: float) -> str:
        if done < _TELLING:
            return ""
        left_s = (self._now() - self._began_s) * (1 - done) / done
        return f", about {as_duration(round(left_s))} left" if left_s >= 1 else ""
