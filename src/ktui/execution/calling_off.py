"""Partitions that operators have called off: stopped where they are, or sent back."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.events import Event
from ktui.execution.flights import Flights
from ktui.execution.goal import goal
from ktui.execution.memory import Hold, Memory, stands
from ktui.execution.states import State
from ktui.execution.taking_up import as_left
from ktui.execution.track import Track
from ktui.pacing.situation import Blocked, Done, Why
from ktui.pacing.steps import next_step


def call_off(
    partitions: Iterable[TopicPartition],
    memory: Memory,
    flights: Flights,
) -> tuple[list[Event], set[TopicPartition]]:
    """Carry out that partitions were called off, as the run has been told.

    Args:
        partitions: those called off.
        memory: where each stands.
        flights: the steps in flight: these are to be cancelled.

    Returns:
        What that changes, and the partitions to be looked at before anything is sent for them.
    """
    events: list[Event] = []
    unseen: set[TopicPartition] = set()
    for tp in partitions:
        track = memory.run.tracks[tp]
        if track.state is State.STOPPED and tp in memory.roster and tp in memory.unanswered:
            events += memory.waits_off(track)  # what is late would meet it at rest
        elif track.state.ended:
            memory.let_go(tp)
        elif tp in memory.roster:
            memory.release(tp, Hold.TOO_LATE)
            events += _turned(track, memory, flights)
        else:
            memory.roster.add([as_left(track)])
            unseen.add(tp)
    return events, unseen


def _turned(track: Track, memory: Memory, flights: Flights) -> list[Event]:
    """Have a partition go where an operator wants it, from where it was seen last."""
    now = memory.roster.situation(track.tp)
    goes_to = goal(track, now.replicas, now.isr, now.leader)
    turned = msgspec.structs.replace(
        now, target=goes_to.replicas, lead=goes_to.lead, intermediate=()
    )
    settled = isinstance(next_step(turned, memory.run.limits), Done)
    if settled and track.step is None and track.tp in memory.unanswered:
        return memory.waits_off(track)
    following = memory.roster.redirect(track.tp, turned)
    if track.step is not None:
        flights.call_off(track)
        return []
    if isinstance(following, Blocked) and following.why is Why.REASSIGNING:
        return []  # or it was not seen yet: the next look tells
    return stands(track, following, now.replicas)
