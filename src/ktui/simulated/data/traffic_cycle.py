"""The common rise and fall of a whole cluster's traffic."""

from __future__ import annotations

import math
import random

from ktui.simulated.layout import Tide

SLOT_S = 30.0
"""Seconds for which traffic stays constant before it changes."""


class TideFactors:
    """The factor on every inbound rate, constant over slots of 30 s, and its integral.

    The bytes written between two times are the average rate times the difference of their
    integrals. So a log that nobody reads costs nothing.

    Args:
        tide: the wave and its noise.
        seed: seed of the noise. Slots are drawn in order, so one seed gives one history.
    """

    def __init__(self, tide: Tide, *, seed: int) -> None:
        self._tide = tide
        self._random = random.Random(seed)  # noqa: S311 - a simulation's dice
        self._factors: list[float] = []
        self._integrals = [0.0]
        self.turns = bool(tide.swing or tide.noise)
        """Whether the traffic ever differs from its average."""
        self.peak = 1.0 + abs(tide.swing) + abs(tide.noise)
        """The upper bound of the factor."""

    def factor(self, at_s: float) -> float:
        """Return the factor at the second `at_s`."""
        return self._factors[self._reach(at_s)] if self.turns else 1.0

    def integral(self, at_s: float) -> float:
        """Return the seconds of average traffic from the first moment to `at_s`."""
        if not self.turns:
            return at_s
        slot = self._reach(at_s)
        return self._integrals[slot] + self._factors[slot] * (at_s - slot * SLOT_S)

    def next_turn_s(self, at_s: float) -> float:
        """Return the second after `at_s` at which the factor changes; infinity if it never does."""
        return (at_s // SLOT_S + 1) * SLOT_S if self.turns else math.inf

    def _reach(self, at_s: float) -> int:
        """Draw the slots up to `at_s`, and return the slot of `at_s`."""
        slot = int(at_s // SLOT_S)
        while len(self._factors) <= slot:
            middle_s = (len(self._factors) + 0.5) * SLOT_S
            wave = self._tide.swing * math.sin(2 * math.pi * middle_s / self._tide.period_s)
            factor = max(0.0, 1 + wave + self._tide.noise * self._random.uniform(-1, 1))
            self._factors.append(factor)
            self._integrals.append(self._integrals[-1] + factor * SLOT_S)
        return slot


class TrafficMoment:
    """The current time of the simulation, and the tide at that time."""

    def __init__(self, tides: TideFactors) -> None:
        self._tides = tides
        self.move_to(0.0)

    def move_to(self, now_s: float) -> None:
        """Let time pass until `now_s`."""
        self.now_s = now_s
        """Seconds since the first moment."""
        self.tide_s = self._tides.integral(now_s)
        """Seconds of average traffic since the first moment."""
        self.factor = self._tides.factor(now_s)
        """The tide's factor on average rates."""
