"""Drive the rate of copies by a figure that has to stay below an objective; pure.

A percentile of some hundred records scatters by a third from window to window, and on real brokers
it rises with the rate ever more steeply. So the mean of several windows decides, and it is kept so
far below the objective that nearly all single windows are below it too; how far that is, is learnt
from how they scatter. Kafka's quotas average over some 11 s, so a new rate shows only in the second
window after it.
"""

from __future__ import annotations

from collections import deque
from math import exp, inf, log
from statistics import fmean

from ktui.execution.run.held_rate import RateCause, RateReason
from ktui.execution.run.throttle_ledger import FLOOR

WINDOW_S = 10.0
"""Seconds of one window, which has one figure."""
_DEAD = 1
"""Windows after a change of the rate that do not show it yet."""
_MEAN_OF, _FEWEST, _FEW = 6, 3, 2
"""The last windows whose mean decides, the fewest, and the fewest above the objective itself."""
_CLEARLY = 0.5
"""With a mean below this part of what is aimed at, one window is enough."""
BAND = 0.8
"""From this part of what is aimed at on, the rate stays."""
_DOWN_LEAST, _DOWN_MOST = 0.92, 0.5
_UP_MOST, _UP_LEAST = 2.0, 1.03
"""A step goes as far as the figure asks for, within these; near a rate that was too high a step up
is the least."""
_POWER, _AT_FIRST = 3.0, 1.5
"""The figure is taken to rise with this power of the rate, and with less until it was too high."""
_NEAR = 0.9
"""From this part of a rate that was too high on, it is near."""
_REMEMBERED_S = 120.0
"""For so long a rate that was too high is remembered."""
_FAR_OVER = 2.0
"""So many times the objective, and the rate goes down at once."""
_UNUSED = 0.8
"""With less than this part of the rate in use, something else is slower: the rate stays."""
_MARGIN, _MOST_MARGIN = log(1.6), log(4.0)
"""The logarithm of how far the mean stays below the objective, at first and at most."""
_LEARNS, _BEYOND = 0.1, 0.03
"""The step by which the margin is learnt, and the share of windows that may lie beyond it."""
_LEAST_FIGURE = 1e-6
_MISSING = 2
"""So many windows without a figure, and the rate is the floor."""


class RateControl:
    """Decide a rate into brokers, window by window.

    Args:
        below: the objective's value.
        rate: the rate to begin with, in bytes a second.
    """

    def __init__(self, below: float, rate: int = FLOOR) -> None:
        self._below = below
        self.rate = rate
        """Bytes a second into each broker."""
        self.why: RateReason | None = None
        """Why the rate moved last, or stays; None before the first decision."""
        self._too_high, self._too_high_s = inf, -inf
        self._missing = 0
        self._dead = 0
        self._felt: deque[float] = deque(maxlen=_MEAN_OF)
        """The logarithms of the figures at this rate, as parts of the objective."""
        self._margin = _MARGIN

    def window(
        self, now_s: float, figure: float | None, used: float | None, of: int | None = None
    ) -> int:
        """Return the rate from the end of a window on.

        Args:
            now_s: the end of the window.
            figure: the figure of the window; None if there is none.
            used: the highest intake of a broker, in bytes a second; None while unknown.
            of: the broker whose figure it is, for `why`; None for one of all brokers.
        """
        if figure is None:
            self._missing += 1
            if self._missing >= _MISSING:
                self._decide(RateReason(RateCause.NO_FIGURE, of=of), FLOOR)
            return self.rate
        self._missing = 0
        part = max(figure / self._below, _LEAST_FIGURE)
        self._learn(log(part))
        aim = exp(-self._margin)
        share = None if used is None else round(used / self.rate, 2)
        if part > _FAR_OVER:
            why = RateReason(RateCause.FAR_OVER, figure, of, share, round(aim, 2))
            self._decide(why, self._lower(now_s, _DOWN_MOST, used))
        elif (over := self._over(aim)) is not None:
            cause, rate = self._step(now_s, over, used)
            mean = round(over * aim * self._below, 3)
            self._decide(RateReason(cause, mean, of, share, round(aim, 2)), rate)
        return self.rate

    def _learn(self, felt: float) -> None:
        """Add a window, and learn how far single windows lie above the mean of the others.

        The margin moves up by much for each that lies beyond it and down by little for each other,
        so that it stands still when `_BEYOND` of them do (a quantile by stochastic approximation).
        """
        if self._dead:
            self._dead -= 1
            return
        if self._felt:
            beyond = felt - fmean(self._felt) > self._margin
            self._margin += _LEARNS * (1 - _BEYOND if beyond else -_BEYOND)
            self._margin = min(max(self._margin, 0.0), _MOST_MARGIN)
        self._felt.append(felt)

    def _over(self, aim: float) -> float | None:
        """Return the mean figure as a part of what is aimed at; None with too few windows."""
        if not self._felt:
            return None
        over = exp(fmean(self._felt)) / aim
        fewest = 1 if over < _CLEARLY else _FEW if over * aim > 1.0 else _FEWEST
        return over if len(self._felt) >= fewest else None

    def _step(self, now_s: float, over: float, used: float | None) -> tuple[RateCause, float]:
        """Return the next rate, for a figure of so many times what is aimed at, and why."""
        if over > 1.0:
            asked = max(_DOWN_MOST, min(_DOWN_LEAST, over ** (-1 / _POWER)))
            return RateCause.OVER, self._lower(now_s, asked, used)
        if over > BAND:
            return RateCause.IN_BAND, self.rate
        if used is not None and used < _UNUSED * self.rate:
            return RateCause.UNUSED, self.rate
        if now_s - self._too_high_s > _REMEMBERED_S:
            self._too_high = inf
        power = _AT_FIRST if self._too_high_s == -inf else _POWER
        wanted = self.rate * min(_UP_MOST, (BAND / over) ** (1 / power))
        near = _NEAR * self._too_high
        cause = RateCause.NEAR_LIMIT if near < wanted else RateCause.UNDER
        return cause, max(self.rate * _UP_LEAST, min(wanted, near))

    def _lower(self, now_s: float, part: float, used: float | None) -> float:
        """Return a part of the rate that is in use, and remember that rate as too high."""
        in_use = self.rate if used is None else min(float(self.rate), max(used, FLOOR))
        self._too_high, self._too_high_s = in_use, now_s
        return in_use * part

    def _decide(self, why: RateReason, rate: float) -> None:
        self.why, new = why, max(FLOOR, int(rate))
        if new != self.rate:
            self.rate, self._dead = new, _DEAD
            self._felt.clear()
