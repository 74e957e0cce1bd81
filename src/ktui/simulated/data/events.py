"""Events of the simulated data that the controller has to learn of."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import TopicPartition


class CaughtUp(msgspec.Struct, frozen=True):
    """A follower outside the ISR has caught up, so its leader asks to add it to the ISR.

    Reported again each second until the controller has added it.
    """

    tp: TopicPartition
    broker: int


class FellBehind(msgspec.Struct, frozen=True):
    """A follower in the ISR has lagged for too long, so its leader asks to remove it.

    Reported again after the same time if the controller leaves it in.
    """

    tp: TopicPartition
    broker: int


class DiskFull(msgspec.Struct, frozen=True):
    """A broker's one log dir is full and fails. Reported once each time the broker comes up."""

    broker: int


FlowEvent = CaughtUp | FellBehind | DiskFull
