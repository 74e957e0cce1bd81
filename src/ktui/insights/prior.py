"""The rates that a run expects before it has measurements of its own."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ktui.insights.curve import RateCurve
from ktui.insights.spread import NonNegative, NonNegativeInt, Spread
from ktui.json_input import checked_moment


class Prior(msgspec.Struct, frozen=True, omit_defaults=True):
    """The speed of earlier runs on the same cluster.

    The last fields say what these runs were like: a run that is unlike them may be unlike their
    speed. Insights files of earlier versions lack them.
    """

    replica_bytes_s: Spread
    """Bytes a second into one replica that is being added, over whole moves."""
    step_s: NonNegative
    """Seconds of a step beside copying: polls, joining the ISR, elections."""
    curve: RateCurve
    """Bytes a second into a broker, over all the replicas that it is adding."""
    runs: NonNegativeInt
    """The number of runs behind these figures; 0 if they come from other people's moves."""
    alone: dict[int, NonNegative] = {}
    """Bytes a second into a single replica without a throttle, by receiving broker. The curve has
    the usual rate, for the other brokers."""
    onto: tuple[int, ...] = ()
    """The brokers that received copies; empty where that is not known."""
    throttle: NonNegativeInt | None = None
    """The highest throttle of copies, in bytes a second; None where no copy had one, or where that
    is not known."""
    largest: NonNegativeInt | None = None
    """The bytes of the largest partition; None where that is not known."""
    brokers: NonNegativeInt | None = None
    """The number of brokers of the cluster; None where that is not known."""
    at: datetime | None = None
    """When the last of these copies were seen; None where that is not known."""

    def __post_init__(self) -> None:
        """Refuse a time that cannot be shown."""
        if self.at is not None:
            checked_moment(self.at)
