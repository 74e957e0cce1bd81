"""The rates that a run expects before it has measurements of its own."""

from __future__ import annotations

import msgspec

from ktui.insights.curve import RateCurve
from ktui.insights.spread import NonNegative, NonNegativeInt, Spread


class Prior(msgspec.Struct, frozen=True):
    """The speed of earlier runs on the same cluster."""

    replica_bytes_s: Spread
    """Bytes a second into one replica that is being added, over whole moves."""
    step_s: NonNegative
    """Seconds of a step beside copying: polls, joining the ISR, elections."""
    curve: RateCurve
    """Bytes a second into a broker, over all the replicas that it is adding."""
    runs: NonNegativeInt
    """The number of runs behind these figures; 0 if they come from other people's moves."""
