"""Each event about cancelling in one line, for people."""

from __future__ import annotations

from ktui.execution.cancel_events import CancelAsked, CancelEvent
from ktui.execution.cancel_kind import CancelKind
from ktui.planning.names import among

KIND_IN_WORDS = {
    CancelKind.STOP: "stop",
    CancelKind.ROLLBACK: "roll back",
    CancelKind.TRIM: "stop and trim",
}


def cancel_words(event: CancelEvent) -> str:
    """Say what was asked for, or that the cancel gate was shut or opened."""
    if isinstance(event, CancelAsked):
        who = f", asked by {event.who}" if event.who else ""
        scope = among([str(tp) for tp in event.partitions], told=5)
        return f"{KIND_IN_WORDS[event.kind]} {scope}{who}"
    if event.shut:
        reason = f" by {event.reason}" if event.reason else ""
        return f"the cancel gate is shut{reason}: nothing but cancels is submitted"
    return "the cancel gate is open again"
