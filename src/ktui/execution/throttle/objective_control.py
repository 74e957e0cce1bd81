"""Drive the rate of copies by a figure that has to stay below an objective; pure.

It goes down fast and up slowly, as a controller of congestion does. Kafka's quotas average over
some 11 s, so a new rate shows only in the second window after it.
"""

from __future__ import annotations

from collections import deque
from math import inf

from ktui.execution.run.held_rate import RateCause, RateReason
from ktui.execution.run.throttle_ledger import FLOOR

WINDOW_S = 10.0
"""Seconds of one window, which has one figure."""
HELD = 0.95
"""The share of windows in which the figure has to be below the objective."""
_DEAD_S = 2 * WINDOW_S
"""Seconds after a change of the rate before its effect is judged."""
BAND = 0.8
"""From this part of what is aimed at on, the rate stays."""
_DOWN_LEAST, _DOWN_MOST = 0.85, 0.5
_UP_MOST, _UP_LEAST = 2.0, 1.03
"""A step up goes as far as the figure leaves room, within these; near a rate that was too high it
is the least."""
_NEAR = 0.9
"""From this part of a rate that was too high on, it is near."""
_REMEMBERED_S = 600.0
"""For so long a rate that was too high is remembered."""
_FAR_OVER = 2.0
"""So many times the objective, and the rate goes down at once."""
_UNUSED = 0.8
"""With less than this part of the rate in use, something else is slower: the rate stays."""
_JUDGED, _FEWEST = 60, 10
"""The last windows by which the controller judges itself, and the fewest of them."""
_CAUTION = 0.8
"""The part of the objective aimed at while too few windows were below it."""
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
        self._changed_s = self._too_high_s = -inf
        self._too_high = inf
        self._missing = 0
        self._kept: deque[bool] = deque(maxlen=_JUDGED)

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
                self._decide(RateReason(RateCause.NO_FIGURE, of=of), FLOOR, now_s)
            return self.rate
        self._missing = 0
        self._kept.append(figure <= self._below)
        aim = self._aim
        over = figure / (self._below * aim)
        if now_s - self._changed_s >= _DEAD_S or over > _FAR_OVER:
            share = None if used is None else round(used / self.rate, 2)
            cause, rate = self._step(now_s, over, used)
            self._decide(RateReason(cause, figure, of, share, aim), rate, now_s)
        return self.rate

    @property
    def _aim(self) -> float:
        few = len(self._kept) < _FEWEST
        return 1.0 if few or sum(self._kept) >= HELD * len(self._kept) else _CAUTION

    def _step(self, now_s: float, over: float, used: float | None) -> tuple[RateCause, float]:
        """Return the next rate, for a figure of so many times what is aimed at, and why."""
        if over > 1.0:
            cause = RateCause.FAR_OVER if over > _FAR_OVER else RateCause.OVER
            return cause, self._lower(now_s, over, used)
        if over > BAND:
            return RateCause.IN_BAND, self.rate
        if used is not None and used < _UNUSED * self.rate:
            return RateCause.UNUSED, self.rate
        if now_s - self._too_high_s > _REMEMBERED_S:
            self._too_high = inf
        wanted = self.rate * (min(_UP_MOST, BAND / over) if over else _UP_MOST)
        near = _NEAR * self._too_high
        cause = RateCause.NEAR_LIMIT if near < wanted else RateCause.UNDER
        return cause, max(self.rate * _UP_LEAST, min(wanted, near))

    def _lower(self, now_s: float, over: float, used: float | None) -> float:
        in_use = self.rate if used is None else min(float(self.rate), max(used, FLOOR))
        self._too_high, self._too_high_s = in_use, now_s
        return in_use * max(_DOWN_MOST, min(_DOWN_LEAST, 1 / over))

    def _decide(self, why: RateReason, rate: float, now_s: float) -> None:
        self.why, new = why, max(FLOOR, int(rate))
        if new != self.rate:
            self.rate, self._changed_s = new, now_s
