"""What operators call off of a run, as its journal keeps it."""

from __future__ import annotations

import enum

from ktui.cluster.partition import TopicPartition
from ktui.execution.run_event import RunEvent


class Kind(enum.StrEnum):
    """What is to become of a partition in place of its target."""

    STOP = "stop"
    """What Kafka adds is dropped again (KIP-455's cancel); nothing more is done."""
    ROLLBACK = "rollback"
    """It goes back to its original replicas, in their order, and their leader (KIP-236)."""
    TRIM = "trim"
    """It stops, and the replicas beyond its original number are dropped."""


class CancelAsked(RunEvent, frozen=True, kw_only=True, tag="cancel_asked"):
    """From here on some partitions do not go to their targets; nothing that does is sent."""

    kind: Kind
    partitions: tuple[TopicPartition, ...]
    command: int | None = None
    who: str = ""


class CancelGate(RunEvent, frozen=True, kw_only=True, tag="cancel_gate"):
    """The cluster's cancel gate (KIP-236's reassign_cancel) was found shut, or open again.

    While it is shut nothing is submitted on the cluster but what cancels and rolls back.
    """

    shut: bool
    reason: str = ""
    """Who shut it, and when."""


CancelEvent = CancelAsked | CancelGate
