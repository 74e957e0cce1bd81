"""The extra plans of a run, folded from their events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import Added, CancelAsked, Planned
from ktui.execution.run.states import State
from ktui.execution.run.track import Track

_OTHERS = (State.CHANGED_ELSEWHERE, State.TOPIC_GONE)


class AddedPlan(msgspec.Struct, frozen=True):
    """An extra plan that has joined a run."""

    added: Added
    at: datetime


class ExtraPlans(msgspec.Struct):
    """The extra plans that have joined a run, and the partitions that wait for an earlier move."""

    plans: list[AddedPlan] = []
    waiting: dict[TopicPartition, Track] = {}
    """Partitions of the run that are not queued with their new targets yet."""
    coming: AddedPlan | None = None
    """An extra plan whose partitions have not all been read."""
    received: list[Planned] = []
    """The partitions of it that have been read."""
    numbered: int = 0
    """How many places in the plans of the run have been assigned."""

    def number(self) -> int:
        """Assign the next place in the plans of the run, from 0."""
        self.numbered += 1
        return self.numbered - 1

    def expect(self, added: Added, at: datetime) -> None:
        """Note that the partitions of an extra plan follow."""
        self.coming, self.received = AddedPlan(added, at), []

    def take(self, partitions: Sequence[Planned]) -> Sequence[Planned]:
        """Add planned partitions, and return those that join the run with them.

        Partitions of an extra plan are returned once all of them are there. They are written in
        one transaction, so some are missing only where the journal was damaged. Then none counts.
        """
        if self.coming is None:
            return partitions
        self.received += partitions
        if len(self.received) < self.coming.added.partitions:
            return ()
        self.plans.append(self.coming)
        whole, self.received, self.coming = self.received, [], None
        return whole

    def wait(self, track: Track, planned: Planned) -> None:
        """Make a partition wait for its target of an extra plan until its move is over."""
        track.then = planned
        track.under_way = track.under_way and not track.state.ended
        self.waiting[track.tp] = track

    def join(self, track: Track) -> None:
        """Queue a partition for its target of an extra plan, behind all others of the run."""
        _retarget(track)
        self.forget(track)
        track.number = self.number()

    def forget(self, track: Track) -> None:
        """Drop what an extra plan wants of a partition."""
        track.then = None
        self.waiting.pop(track.tp, None)

    def overrule(self, asked: CancelAsked) -> None:
        """Drop what extra plans want of the partitions that an operator cancels."""
        if asked.command is not None and self.added_by(asked.command):
            return  # cancelled for an extra plan
        for tp in self.waiting.keys() & {*asked.partitions}:
            self.forget(self.waiting[tp])

    def added_by(self, command: int) -> Added | None:
        """Return the extra plan that a command has added; None if it was not carried out."""
        return next((each.added for each in self.plans if each.added.command == command), None)


def _retarget(track: Track) -> None:
    """Replace the plan of a partition at rest by that of an extra plan.

    Its original replicas stay those from before the run. Where others have changed it since, or no
    step of it was ever begun, they are the ones that the extra plan found.
    """
    then = track.then
    if then is None:
        return
    if not track.begun or track.state in _OTHERS or then.topic_id != track.planned.topic_id:
        track.planned, track.replicas, track.original = then, then.original, then.original
        track.led = then.leader if then.leader in then.original else None
        track.steps, track.sent, track.intermediate = 0, None, ()
    else:
        track.intermediate = _intermediate(track, then)
        had, size = track.planned, then.size or track.planned.size
        track.planned = msgspec.structs.replace(
            then, original=had.original, leader=had.leader, size=size
        )
    track.then = track.cancel = None
    track.refusals, track.turned, track.taken = 0, True, False
    track.under_way = track.under_way and track.state is State.STOPPED  # still on its way


def _intermediate(track: Track, then: Planned) -> tuple[int, ...]:
    """Return the replicas that only the earlier target wanted (KIP-236), unless it was reached."""
    if track.state is State.DONE:
        return ()
    kept = (*track.original, *then.target)
    return tuple(broker for broker in track.replicas if broker not in kept)
