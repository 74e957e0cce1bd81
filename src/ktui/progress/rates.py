"""The rate at which a count grows, from readings at irregular times."""

from __future__ import annotations

import math

import msgspec

from ktui.cluster.observation import Reading
from ktui.progress.flows import GULP_S
from ktui.progress.memory import Meter
from ktui.progress.poll import Poll

SMOOTHING_S = 20.0
"""Kafka's throttle works in windows of some 11 s and lets copies through in gulps.

The average must span two windows, and still follow a changed throttle within half a minute.
"""


_SEEN_A_GULP = 1.0 - math.exp(-GULP_S / SMOOTHING_S)
"""From this weight on the average covers at least one pause."""

MIN_INTERVAL_S = 0.05
"""Readings closer together than this say nothing about a rate."""


def advance(meter: Meter | None, reading: Reading | None, poll: Poll) -> Meter | None:
    """Fold one reading into a meter.

    A reading that is missing or no newer changes nothing. A count that went backwards (a
    truncation, another leader, a recreated topic), or one not read for `restart_s`, starts over.
    An interval in which the cluster was out of sight has the weight of one usual poll. When in that
    interval the count grew, or whether it could, is unknown.
    """
    if reading is None or (meter is not None and reading.at_s < meter.at_s + MIN_INTERVAL_S):
        return meter
    if meter is None:
        return Meter(reading.value, reading.at_s)
    passed_s = reading.at_s - meter.at_s
    if meter.interrupted or passed_s > poll.restart_s or reading.value < meter.value:
        return Meter(reading.value, reading.at_s)
    if meter.at_s <= poll.lost_s:
        return _weighed(meter, reading, passed_s, min(passed_s, poll.memory.typical_s or passed_s))
    quiet_s = meter.quiet_s + passed_s if reading.value == meter.value else 0.0
    if 0.0 < quiet_s < GULP_S and meter.weight >= _SEEN_A_GULP:
        return Meter(meter.value, reading.at_s, meter.rate, meter.weight, quiet_s)
    if meter.quiet_s < GULP_S:
        passed_s += meter.quiet_s
    quiet_s = quiet_s if quiet_s >= GULP_S else 0.0
    return _weighed(meter, reading, passed_s, passed_s, quiet_s)


def _weighed(
    meter: Meter, reading: Reading, passed_s: float, weight_s: float, quiet_s: float = 0.0
) -> Meter:
    """Add an interval of `passed_s` to the average as if it had lasted `weight_s`."""
    kept = math.exp(-weight_s / SMOOTHING_S)
    weight = meter.weight * kept + 1.0 - kept
    interval = (reading.value - meter.value) / passed_s
    total = (meter.rate or 0.0) * meter.weight * kept + interval * (1.0 - kept)
    return Meter(reading.value, reading.at_s, total / weight, weight, quiet_s)


def restart_rate(meter: Meter | None) -> Meter | None:
    """Make the next reading start a new rate: counting was impossible in between."""
    return None if meter is None else Meter(meter.value, meter.at_s, interrupted=True)


_DOUBTED = 0.05
"""The part of a rate's weight that stays once other copies share it."""


def discount_rate(meter: Meter | None) -> Meter | None:
    """Weigh a rate less than the next intervals: from now on other copies share it."""
    if meter is None:
        return None
    return msgspec.structs.replace(meter, weight=meter.weight * _DOUBTED)


def rate(meter: Meter | None, now_s: float, restart_s: float) -> float | None:
    """Return the rate per second; None while unknown, or when the last reading is too old."""
    if meter is None or now_s - meter.at_s > restart_s:
        return None
    return meter.rate
