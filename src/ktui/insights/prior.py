"""What a run may expect before it has seen anything of its own."""

from __future__ import annotations

import msgspec

from ktui.insights.curve import Curve
from ktui.insights.spread import Count, Figure, Spread


class Prior(msgspec.Struct, frozen=True):
    """How fast earlier runs on the same cluster went."""

    replica_bytes_s: Spread
    """Bytes a second into one replica that is being added, over whole moves."""
    step_s: Figure
    """What a step takes beside copying: polls, joining the ISR, elections."""
    curve: Curve
    """Bytes a second into a broker, for all the replicas that it is adding."""
    runs: Count
    """How many runs it comes from; 0 where it comes from moves of others."""
