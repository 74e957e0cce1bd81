"""The machines that brokers run on: which have power, which hang, and when each fell silent."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator


class Power(enum.Enum):
    """What a broker's process is doing."""

    UP = "up"
    HANGING = "hanging"
    STARTING = "starting"
    STOPPED = "stopped"
    """Shut down properly."""
    DEAD = "dead"
    """Ended without a word."""


class Machines:
    """Each broker's power, and its spells.

    A spell is the time between two changes of a broker's power: what was planned for an earlier
    one, such as the end of its session, no longer concerns it.
    """

    def __init__(self, brokers: Iterable[int]) -> None:
        self._power = dict.fromkeys(brokers, Power.UP)
        self._spell = dict.fromkeys(self._power, 0)
        self.silent_from_s = dict.fromkeys(self._power, -math.inf)
        """When each was last heard of, of those that are not up."""

    def __contains__(self, broker: int) -> bool:
        return broker in self._power

    def __iter__(self) -> Iterator[int]:
        return iter(self._power)

    def power(self, broker: int) -> Power:
        """What the broker's process is doing."""
        return self._power[broker]

    def turn(self, broker: int, power: Power) -> int:
        """Change a broker's power, and give the number of the spell that begins."""
        self._power[broker] = power
        self._spell[broker] += 1
        return self._spell[broker]

    def still(self, broker: int, spell: int) -> bool:
        """Whether the broker is still in that spell."""
        return self._spell[broker] == spell

    def up(self) -> list[int]:
        """Name the brokers that answer, in order."""
        return sorted(b for b, power in self._power.items() if power is Power.UP)

    def hanging(self) -> list[int]:
        """Name the brokers that take a connection and do not answer."""
        return sorted(b for b, power in self._power.items() if power is Power.HANGING)
