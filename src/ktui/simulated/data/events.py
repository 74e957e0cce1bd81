"""What happens in the data of a simulated cluster that its controller has to hear of."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import TopicPartition


class CaughtUp(msgspec.Struct, frozen=True):
    """A follower outside the ISR is in step: its leader would have it in the ISR.

    Told again each second until the controller has taken it in.
    """

    tp: TopicPartition
    broker: int


class FellBehind(msgspec.Struct, frozen=True):
    """A follower in the ISR has lagged for too long: its leader would have it out.

    Told again after as long if the controller leaves it in.
    """

    tp: TopicPartition
    broker: int


class DiskFull(msgspec.Struct, frozen=True):
    """A broker's one log dir has no room left, and fails. Told once for each time it comes up."""

    broker: int


FlowEvent = CaughtUp | FellBehind | DiskFull
