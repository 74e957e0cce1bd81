"""The faults of one seed: their kinds, the durations of calls, and what really happened."""

from __future__ import annotations

import enum
import random
from collections import Counter

import msgspec
from msgspec.structs import replace


class Fault(enum.StrEnum):
    """A kind of fault of a call, an operator or the host."""

    SLOW = "slow call"
    VERY_SLOW = "call of 10 minutes"
    TWICE = "request executed twice"
    LOST_ANSWER = "answer lost"
    NOT_LEFT = "request never left"
    HELD = "request held by a suspended broker"
    DENIED_TOPIC = "one topic denied"
    STALE_METADATA = "stale metadata"
    COMMAND = "command during a call"
    OTHERS_ALTER = "somebody alters during a call"
    BROKERS_FAIL = "brokers fail during a call"
    BUSY_JOURNAL = "journal locked"
    BROKEN_JOURNAL = "journal not writable"
    CLOCK_STEP = "clock stepped"
    LOCK_REMOVED = "lock removed"
    RIVAL = "another process takes over"
    OTHERS_RATES = "somebody else's rates"
    KILLED = "engine killed"
    UNREADABLE = "answer that cannot be read"
    IN_TURN = "two runs in turn"
    CONCURRENT = "two runs at once"
    CORDONS = "somebody cordons brokers"


TYPICAL_S = (0.01, 0.3, 2.0, 10.0)
"""Longest seconds of slow calls; each seed chooses one."""
VERY_LONG_S = 600.0
SUSPENDED_S = (70.0, 150.0, 200.0, 400.0)


class Faults(msgspec.Struct):
    """The dice of one seed. Each seed turns half of the kinds off."""

    dice: random.Random
    on: frozenset[Fault]
    typical_s: float
    active: bool = True
    fired: Counter[Fault] = msgspec.field(default_factory=Counter)
    delays_s: float = 0.0
    """The sum of all delays in seconds."""

    def strikes(self, fault: Fault, chance: float) -> bool:
        """Decide whether a fault happens now, and count it."""
        struck = self.active and fault in self.on and self.dice.random() < chance
        self.fired[fault] += struck
        return struck

    def delay_s(self) -> float:
        """Return how many seconds the next half of a call takes."""
        if self.strikes(Fault.VERY_SLOW, 0.001):
            seconds = VERY_LONG_S
        elif self.strikes(Fault.SLOW, 0.5):
            seconds = self.dice.uniform(0.0, self.typical_s)
        else:
            seconds = 0.0
        self.delays_s += seconds
        return seconds


def faults_of(seed: int) -> Faults:
    """Return the faults of a seed."""
    dice = random.Random(f"faults {seed}")  # noqa: S311 - a test's dice
    kinds = [fault for fault in Fault if fault is not Fault.CORDONS]
    on = frozenset(dice.sample(kinds, len(kinds) // 2))
    faults = Faults(dice, on, dice.choice(TYPICAL_S))
    others = random.Random(f"cordons {seed}")  # noqa: S311 - so that the dice go on as without it
    return replace(faults, on=on | {Fault.CORDONS}) if others.random() < 0.5 else faults
