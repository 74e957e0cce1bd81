"""The pacing state of a run's partitions, restored from the journal when a process takes over."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.engine.in_flight import StepsInFlight
from ktui.execution.engine.observed import Observed
from ktui.execution.engine.working_state import Hold, WorkingState, standing_events
from ktui.execution.run.destination import find_goal
from ktui.execution.run.events import AnyRunEvent
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.pacing.decision import Decision, WantedPartition
from ktui.pacing.situation import Blocked, BlockReason, Done, Situation
from ktui.pacing.steps import next_step


def steps_to_restore(tracks: Iterable[Track], batch: int) -> Decision:
    """Return a decision that restores the steps that a journal has in flight."""
    begun = (t.step.begun for t in tracks if t.step is not None)
    return Decision(batch, steps=tuple(each.move for each in begun))


def as_journaled(track: Track) -> WantedPartition:
    """Return a partition as the run left it, with no step to take until it was polled.

    A step in flight still counts at the leader that it copies from, for S and W.
    """
    goes_to = find_goal(track, track.replicas, track.replicas, None)
    situation = Situation(
        replicas=track.replicas,
        isr=track.replicas,
        leader=None if track.step is None else track.step.begun.leader,
        target=goes_to.replicas,
        lead=goes_to.lead,
        online=frozenset(),
        reassigning=True,
    )
    return WantedPartition(
        track.tp,
        situation,
        track.planned.size,
        track.planned.sized,
        track.planned.ahead,
        begun=track.under_way,
        first=track.cancel is not None,
    )


def requeue_cancelled(
    partitions: Iterable[TopicPartition],
    memory: WorkingState,
    flights: StepsInFlight,
    polled: Collection[TopicPartition],
) -> tuple[list[AnyRunEvent], set[TopicPartition]]:
    """Carry out that partitions were called off. The run has applied that event already.

    Of a partition that the last poll did not ask for, only the next poll says how it stands.

    Args:
        partitions: those called off.
        memory: the pacing state of each partition.
        flights: the steps in flight, which are to be cancelled.
        polled: the partitions of the last poll.

    Returns:
        The events that follow, and the partitions to poll before anything is sent for them.
    """
    events: list[AnyRunEvent] = []
    unseen: set[TopicPartition] = set()
    for tp in partitions:
        track = memory.run.tracks[tp]
        if track.state is State.STOPPED and tp in memory.roster and tp in memory.unanswered:
            # a late request would meet the partition at rest
            events += memory.hold_unanswered(track)
        elif track.state.ended:
            memory.forget(tp)
        elif tp in memory.roster and (tp in polled or track.step or tp in memory.unanswered):
            memory.release(tp, Hold.TOO_LATE)
            events += _redirect(track, memory, flights)
        else:
            memory.forget(tp)
            memory.roster.add([as_journaled(track)])
            unseen.add(tp)
    return events, unseen


def _redirect(track: Track, memory: WorkingState, flights: StepsInFlight) -> list[AnyRunEvent]:
    """Send a partition to the operator's new goal, from its last observed state."""
    now = memory.roster.situation(track.tp)
    goes_to = find_goal(track, now.replicas, now.isr, now.leader, now.closed)
    turned = msgspec.structs.replace(
        now, target=goes_to.replicas, lead=goes_to.lead, intermediate=()
    )
    settled = isinstance(next_step(turned, memory.run.limits), Done)
    if settled and track.step is None and track.tp in memory.unanswered:
        return memory.hold_unanswered(track)
    following = memory.roster.redirect(track.tp, turned)
    if track.step is not None:
        flights.cancel(track)
        return []
    if isinstance(following, Blocked) and following.why is BlockReason.REASSIGNING:
        return []  # or it was not polled yet: the next poll decides
    return standing_events(track, following, now.replicas)


def requeue_joined(
    partitions: Iterable[TopicPartition], memory: WorkingState, observed: Observed | None
) -> list[AnyRunEvent]:
    """Queue partitions that have nothing in flight; those not polled yet get no step.

    Args:
        partitions: the partitions; the run has applied the event already.
        memory: the pacing state of each partition.
        observed: the last poll, if there was one.

    Returns:
        The new states of the partitions that the last poll shows.
    """
    tracks = [memory.run.tracks[tp] for tp in partitions]
    for track in tracks:
        memory.forget(track.tp)
    memory.roster.add(map(as_journaled, tracks))
    return (
        []
        if observed is None
        else [event for track in tracks for event in _record(track, memory, observed)]
    )


def _record(track: Track, memory: WorkingState, observed: Observed) -> list[AnyRunEvent]:
    state = observed.state(track.tp)
    situation = None if state is None else observed.situation(track, state)
    return [] if situation is None else memory.note_situation(track, situation)
