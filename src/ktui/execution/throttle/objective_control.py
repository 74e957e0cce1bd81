"""Drive the rate of copies by a figure that has to stay below an objective; pure.

A percentile of some hundred records scatters by a third from window to window, and on real brokers
it rises with the rate ever more steeply. So the mean of the last windows decides, each as it would
be at the present rate, and it is kept so far below the objective that nearly all single windows are
below it too. Kafka's quotas average over some 11 s, so a new rate shows only in the second window
after it.
"""

from __future__ import annotations

from collections import deque
from math import exp, log
from statistics import fmean

from ktui.execution.run.held_rate import RateCause, RateReason
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.objective_margin import Margin

WINDOW_S = 10.0
"""Seconds of one window, which has one figure."""
_DEAD = 1
"""Windows after a change of the rate that do not show it yet."""
_MEAN_OF, _FEWEST, _FEW = 12, 3, 2
"""The last windows whose mean decides, the fewest, and those that decide alone where their mean is
above the objective itself."""
_CLEARLY = 0.5
"""With a mean below this part of what is aimed at, one window is enough."""
BAND = 0.8
"""From this part of what is aimed at on, the rate stays."""
_MIDDLE = (1 + BAND) / 2
_DOWN_LEAST, _DOWN_MOST = 0.95, 0.5
_UP_LEAST, _UP_MOST = 1.03, 2.0
"""A step goes as far as the figure asks for, within these."""
_POWER, _AT_FIRST = 2.0, 1.5
"""The figure is taken to rise with this power of the rate, and with less until it was too high."""
_FAR_OVER = 2.0
"""So many times the objective, and the rate goes down at once."""
_UNUSED = 0.8
"""With less than this part of the rate in use, something else is slower: the rate stays."""
LEAST_FIGURE = 1e-6
"""A figure that is lower counts as this: its logarithm is needed."""
_MISSING = 2
"""So many windows without a figure, and the rate is the floor."""


class RateControl:
    """Decide a rate into brokers, window by window.

    Args:
        below: the objective's value.
        rate: the rate to begin with, in bytes a second.
        margin: how far the mean is kept below the objective, as its controls have learnt together;
            None for a control of its own.
    """

    def __init__(self, below: float, rate: int = FLOOR, margin: Margin | None = None) -> None:
        self._below = below
        self._margin = margin or Margin()
        self.rate = rate
        """Bytes a second into each broker."""
        self.why: RateReason | None = None
        """Why the rate moved last, or stays; None before the first decision."""
        self._power = _AT_FIRST
        self._missing = 0
        self._dead = 0
        self._felt: deque[float] = deque(maxlen=_MEAN_OF)
        """The logarithms of the last figures as parts of the objective, each as it would be at this
        rate."""

    def forget(self) -> None:
        """Forget the figures so far: those to come are of others."""
        self._felt.clear()

    def window(self, figure: float | None, used: float | None, of: int | None = None) -> int:
        """Return the rate from the end of a window on.

        Args:
            figure: the figure of the window; None if there is none.
            used: the highest intake of a broker, in bytes a second; None while unknown.
            of: the broker whose figure it is, for `why`; None for one of all brokers.
        """
        if figure is None:
            self._missing += 1
            if self._missing >= _MISSING:
                self._decide(RateReason(RateCause.NO_FIGURE, of=of), FLOOR)
                self._felt.clear()
            return self.rate
        self._missing = 0
        part = max(figure / self._below, LEAST_FIGURE)
        self._add(log(part))
        aim = self._margin.aim
        share = None if used is None else round(used / self.rate, 2)
        if part > _FAR_OVER:
            why = RateReason(RateCause.FAR_OVER, figure, of, share, round(aim, 2))
            self._decide(why, self._lower(_DOWN_MOST, used))
        elif (over := self._over(aim)) is not None:
            cause, rate = self._step(over, used)
            mean = round(over * aim * self._below, 3)
            self._decide(RateReason(cause, mean, of, share, round(aim, 2)), rate)
        return self.rate

    def _add(self, felt: float) -> None:
        if self._dead:
            self._dead -= 1
            return
        if self._felt:
            self._margin.learn(felt - fmean(self._felt))
        self._felt.append(felt)
        newest = list(self._felt)[-_FEW:]
        if min(newest) > 0:
            self._felt = deque(newest, maxlen=_MEAN_OF)

    def _over(self, aim: float) -> float | None:
        """Return the mean figure as a part of what is aimed at; None with too few windows."""
        if not self._felt:
            return None
        over = exp(fmean(self._felt)) / aim
        fewest = 1 if over < _CLEARLY else _FEW if over * aim > 1.0 else _FEWEST
        return over if len(self._felt) >= fewest else None

    def _step(self, over: float, used: float | None) -> tuple[RateCause, float]:
        """Return the next rate, for a figure of so many times what is aimed at, and why."""
        if over > 1.0:
            asked = max(_DOWN_MOST, min(_DOWN_LEAST, over ** (-1 / _POWER)))
            return RateCause.OVER, self._lower(asked, used)
        if over > BAND:
            return RateCause.IN_BAND, self.rate
        if used is not None and used < _UNUSED * self.rate:
            return RateCause.UNUSED, self.rate
        asked = (_MIDDLE / over) ** (1 / self._power)
        return RateCause.UNDER, self.rate * min(_UP_MOST, max(_UP_LEAST, asked))

    def _lower(self, part: float, used: float | None) -> float:
        """Return a part of the rate that is in use."""
        self._power = _POWER
        in_use = self.rate if used is None else min(float(self.rate), max(used, FLOOR))
        return in_use * part

    def _decide(self, why: RateReason, rate: float) -> None:
        self.why, new = why, max(FLOOR, int(rate))
        if new == self.rate:
            return
        shift = self._power * log(new / self.rate)
        self._felt = deque((felt + shift for felt in self._felt), maxlen=_MEAN_OF)
        self.rate, self._dead = new, _DEAD
