"""Each event about extra plans in one line, for people."""

from __future__ import annotations

from ktui.execution.add_events import Added, AddEvent, OnConflict
from ktui.planning.names import among
from ktui.quantities import as_count


def add_words(event: AddEvent) -> str:
    """Say which plan has joined, or who of it waits in the queue now."""
    if isinstance(event, Added):
        who = f", asked by {event.who}" if event.who else ""
        of = as_count(event.partitions, "partition")
        return f"plan {event.plan} joins the run, {of}; {_CONFLICTS[event.on_conflict]}{who}"
    scope = among([str(tp) for tp in event.partitions], told=5)
    wait = "waits" if len(event.partitions) == 1 else "wait"
    return f"{scope} {wait} for the target of an extra plan"


_CONFLICTS = {
    OnConflict.ROLLBACK: "what the run moves elsewhere is rolled back first",
    OnConflict.KEEP: "what the run moves elsewhere keeps its target",
    OnConflict.RETARGET: "what the run moves elsewhere goes there from where it is",
}
