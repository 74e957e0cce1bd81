"""Thresholds for a stalled or falling-behind replica. The causes are in causes.py."""

from __future__ import annotations

from ktui.progress.memory import StillClock

STALLED_AFTER_S = 30.0
STALLED_AFTER_POLLS = 5
FALLING_AFTER_S = 60.0
STARVED_AFTER_S = 15.0
"""Longer than a throttle's window, so that a single burst of writing does not pass for a rate."""


def count_still(clock: StillClock, passed_s: float) -> StillClock:
    """Count one more poll without headway; a poll after no time shows nothing new."""
    if passed_s <= 0.0:
        return clock
    seconds, polls = clock.seconds + passed_s, clock.polls + 1
    return StillClock(clock.since_s, seconds, polls, clock.moved, clock.blocked)


def stalled(clock: StillClock) -> bool:
    """Whether a replica has stood still for max(30 s, 5 polls)."""
    return clock.polls >= STALLED_AFTER_POLLS and clock.seconds >= STALLED_AFTER_S


def falling_behind(rising_s: float) -> bool:
    """Whether the lag has been rising for 60 s."""
    return rising_s >= FALLING_AFTER_S


def starved(starving_s: float) -> bool:
    """Whether for 15 s at least as much was written as a throttle lets through."""
    return starving_s >= STARVED_AFTER_S
