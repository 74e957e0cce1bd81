"""The state of each broker's process: up, hanging or down, and since when it is silent."""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterable, Iterator


class Power(enum.Enum):
    """The state of a broker's process."""

    UP = "up"
    HANGING = "hanging"
    STARTING = "starting"
    STOPPED = "stopped"
    """Shut down properly."""
    DEAD = "dead"
    """Ended without a proper shutdown."""


class Machines:
    """The power state of each broker, divided into numbered spells.

    A spell is the time between two changes of a broker's power. An action planned in an earlier
    spell, such as the end of its session, no longer applies.
    """

    def __init__(self, brokers: Iterable[int], stopped: Collection[int] = ()) -> None:
        self._power = {b: Power.STOPPED if b in stopped else Power.UP for b in brokers}
        self._spell = dict.fromkeys(self._power, 0)
        self._up, self._hanging = self._with(Power.UP), self._with(Power.HANGING)
        self.silent_from_s = dict.fromkeys(self._power, -math.inf)
        """When each broker that is not up was last heard from, in seconds."""

    def __contains__(self, broker: int) -> bool:
        return broker in self._power

    def __iter__(self) -> Iterator[int]:
        return iter(self._power)

    def power(self, broker: int) -> Power:
        return self._power[broker]

    def turn(self, broker: int, power: Power) -> int:
        """Change a broker's power, and return the number of the new spell."""
        self._power[broker] = power
        self._up, self._hanging = self._with(Power.UP), self._with(Power.HANGING)
        self._spell[broker] += 1
        return self._spell[broker]

    def still(self, broker: int, spell: int) -> bool:
        return self._spell[broker] == spell

    def up(self) -> list[int]:
        """Return the brokers that answer, in order of id."""
        return list(self._up)

    def hanging(self) -> list[int]:
        """Return the brokers that accept a connection but do not answer, in order of id."""
        return list(self._hanging)

    def _with(self, power: Power) -> tuple[int, ...]:
        return tuple(sorted(broker for broker, has in self._power.items() if has is power))
