"""What a run may expect before it has seen anything of its own."""

from __future__ import annotations

import msgspec

from ktui.insights.curve import RateCurve
from ktui.insights.spread import NonNegative, NonNegativeInt, Spread


class Prior(msgspec.Struct, frozen=True):
    """How fast earlier runs on the same cluster went."""

    replica_bytes_s: Spread
    """Bytes a second into one replica that is being added, over whole moves."""
    step_s: NonNegative
    """What a step takes beside copying: polls, joining the ISR, elections."""
    curve: RateCurve
    """Bytes a second into a broker, for all the replicas that it is adding."""
    runs: NonNegativeInt
    """How many runs it comes from; 0 where it comes from moves of others."""
