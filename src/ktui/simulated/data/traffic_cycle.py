"""How the traffic of a whole cluster rises and falls together."""

from __future__ import annotations

import math
import random

from ktui.simulated.layout import Tide

SLOT_S = 30.0
"""How long the traffic stays as it is before it turns."""


class Tides:
    """The factor on every inbound rate, constant over slots of 30 s, and its integral.

    What has been written since a moment is the average rate times the difference of two
    integrals: so a log that nobody looks at costs nothing.

    Args:
        tide: the wave and its noise.
        seed: of the noise; slots are drawn in order, so that one seed gives one history.
    """

    def __init__(self, tide: Tide, *, seed: int) -> None:
        self._tide = tide
        self._chance = random.Random(seed)  # noqa: S311 - a simulation's dice
        self._factors: list[float] = []
        self._integrals = [0.0]
        self.turns = bool(tide.swing or tide.noise)
        """Whether it ever differs from the average."""
        self.peak = 1.0 + abs(tide.swing) + abs(tide.noise)
        """What the factor never exceeds."""

    def factor(self, at_s: float) -> float:
        """Give the factor at a second."""
        return self._factors[self._reach(at_s)] if self.turns else 1.0

    def integral(self, at_s: float) -> float:
        """Give the seconds of average traffic from the first moment to `at_s`."""
        if not self.turns:
            return at_s
        slot = self._reach(at_s)
        return self._integrals[slot] + self._factors[slot] * (at_s - slot * SLOT_S)

    def next_turn_s(self, at_s: float) -> float:
        """Give the second after `at_s` at which the factor changes; infinity if it never does."""
        return (at_s // SLOT_S + 1) * SLOT_S if self.turns else math.inf

    def _reach(self, at_s: float) -> int:
        """Draw the slots up to `at_s`, and give its slot."""
        slot = int(at_s // SLOT_S)
        while len(self._factors) <= slot:
            middle_s = (len(self._factors) + 0.5) * SLOT_S
            wave = self._tide.swing * math.sin(2 * math.pi * middle_s / self._tide.period_s)
            factor = max(0.0, 1 + wave + self._tide.noise * self._chance.uniform(-1, 1))
            self._factors.append(factor)
            self._integrals.append(self._integrals[-1] + factor * SLOT_S)
        return slot


class TrafficMoment:
    """A moment of the simulation, and the tide then."""

    def __init__(self, tides: Tides) -> None:
        self._tides = tides
        self.move_to(0.0)

    def move_to(self, now_s: float) -> None:
        """Let time pass until `now_s`."""
        self.now_s = now_s
        """Seconds since the first moment."""
        self.tide_s = self._tides.integral(now_s)
        """Seconds of average traffic since the first moment."""
        self.factor = self._tides.factor(now_s)
        """The factor on average rates."""
