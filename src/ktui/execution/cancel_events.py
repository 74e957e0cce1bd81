"""What operators call off of a run, as its journal keeps it."""

from __future__ import annotations

from ktui.cluster.partition import TopicPartition
from ktui.execution.cancel_kind import CancelKind
from ktui.execution.run_event import RunEvent


class CancelAsked(RunEvent, frozen=True, kw_only=True, tag="cancel_asked"):
    """From here on some partitions do not go to their targets; nothing that does is sent."""

    kind: CancelKind
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
