"""Where the partitions of a run stand for pacing when a process takes it up: by its journal."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.engine.in_flight import Flights
from ktui.execution.engine.observed import Observed
from ktui.execution.engine.working_state import Hold, Memory, stands
from ktui.execution.run.destination import goal
from ktui.execution.run.events import AnyRunEvent
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.pacing.decision import Decision, Move, WantedPartition
from ktui.pacing.situation import Blocked, BlockReason, Done, Situation
from ktui.pacing.steps import next_step


def in_flight(tracks: Iterable[Track], batch: int) -> Decision:
    """Give the decision that puts steps back into the air that a journal tells of."""
    moves = tuple(
        Move(t.tp, t.step.begun.step, t.step.begun.alone, t.step.begun.holds_place)
        for t in tracks
        if t.step is not None
    )
    return Decision(batch, steps=moves)


def as_left(track: Track) -> WantedPartition:
    """Give a partition as the run left it, with nothing to do until it has been seen."""
    goes_to = goal(track, track.replicas, track.replicas, None)
    situation = Situation(
        replicas=track.replicas,
        isr=track.replicas,
        leader=None,
        target=goes_to.replicas,
        lead=goes_to.lead,
        online=frozenset(),
        reassigning=True,
    )
    return WantedPartition(
        track.tp,
        situation,
        track.planned.size,
        begun=track.under_way,
        first=track.cancel is not None,
    )


def call_off(
    partitions: Iterable[TopicPartition],
    memory: Memory,
    flights: Flights,
) -> tuple[list[AnyRunEvent], set[TopicPartition]]:
    """Carry out that partitions were called off, as the run has been told.

    Args:
        partitions: those called off.
        memory: where each stands.
        flights: the steps in flight: these are to be cancelled.

    Returns:
        What that changes, and the partitions to be looked at before anything is sent for them.
    """
    events: list[AnyRunEvent] = []
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


def _turned(track: Track, memory: Memory, flights: Flights) -> list[AnyRunEvent]:
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
    if isinstance(following, Blocked) and following.why is BlockReason.REASSIGNING:
        return []  # or it was not seen yet: the next look tells
    return stands(track, following, now.replicas)


def join(
    partitions: Iterable[TopicPartition], memory: Memory, look: Observed | None
) -> list[AnyRunEvent]:
    """Queue partitions that nothing is in flight of; those not seen yet with nothing to do.

    Args:
        partitions: as the run has been told of them.
        memory: where each stands.
        look: the last one, if there was one.

    Returns:
        Where those stand that it shows.
    """
    tracks = [memory.run.tracks[tp] for tp in partitions]
    for track in tracks:
        memory.let_go(track.tp)
    memory.roster.add(map(as_left, tracks))
    return (
        [] if look is None else [event for track in tracks for event in _seen(track, memory, look)]
    )


def _seen(track: Track, memory: Memory, look: Observed) -> list[AnyRunEvent]:
    state = look.state(track.tp)
    situation = None if state is None else look.situation(track, state)
    return [] if situation is None else memory.taken_note(track, situation)
