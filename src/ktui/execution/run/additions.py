"""The extra plans of a run: the fold of the events about them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import Added, CancelAsked, Planned
from ktui.execution.run.states import State
from ktui.execution.run.track import Track


class AddedPlan(msgspec.Struct, frozen=True):
    """An extra plan that has joined a run."""

    added: Added
    at: datetime


class Additions(msgspec.Struct):
    """The extra plans that have joined a run, and who of them waits until its move is over."""

    plans: list[AddedPlan] = []
    waiting: dict[TopicPartition, Track] = {}
    """Partitions that the run had before, and that are not queued with their new targets yet."""
    coming: AddedPlan | None = None
    """One of which not all partitions have been told."""
    told: list[Planned] = []
    """Those that have been."""
    numbered: int = 0
    """How many places in the plans of the run were given."""

    def number(self) -> int:
        """Give the next place in the plans of the run, from 0."""
        self.numbered += 1
        return self.numbered - 1

    def expect(self, added: Added, at: datetime) -> None:
        """Take note that the partitions of an extra plan follow."""
        self.coming, self.told = AddedPlan(added, at), []

    def take(self, partitions: Sequence[Planned]) -> Sequence[Planned]:
        """Take in some partitions, and give those that the run has now.

        An extra plan's are given when all of them are there. They are written at once: some are
        missing only where the journal was damaged, and then none of them counts.
        """
        if self.coming is None:
            return partitions
        self.told += partitions
        if len(self.told) < self.coming.added.partitions:
            return ()
        self.plans.append(self.coming)
        whole, self.told, self.coming = self.told, [], None
        return whole

    def wait(self, track: Track, planned: Planned) -> None:
        """Have a partition go where an extra plan wants it, once its move is over."""
        track.then = planned
        track.under_way = track.under_way and not track.state.ended
        self.waiting[track.tp] = track

    def join(self, track: Track) -> None:
        """Have a partition go there now, after all that the run has."""
        _turn(track)
        self.forget(track)
        track.number = self.number()

    def forget(self, track: Track) -> None:
        """Have a partition go nowhere once its move is over."""
        track.then = None
        self.waiting.pop(track.tp, None)

    def overrule(self, asked: CancelAsked) -> None:
        """Have partitions that an operator calls off go nowhere after that."""
        if asked.command is not None and self.added_by(asked.command):
            return  # called off for an extra plan
        for tp in self.waiting.keys() & {*asked.partitions}:
            self.forget(self.waiting[tp])

    def added_by(self, command: int) -> Added | None:
        """Give the extra plan that a command brought, if that was carried out."""
        return next((each.added for each in self.plans if each.added.command == command), None)


def _turn(track: Track) -> None:
    """Give a partition at rest what an extra plan wants of it in place of what it had.

    Its original replicas are those from before the run; where others have changed it since, or
    nothing of it was ever begun, those that the extra plan found.
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
    track.refusals, track.turned = 0, True
    track.under_way = track.under_way and track.state is State.STOPPED  # on its way still


def _intermediate(track: Track, then: Planned) -> tuple[int, ...]:
    """Give what only the earlier target wanted (KIP-236), unless that was reached."""
    if track.state is State.DONE:
        return ()
    kept = (*track.original, *then.target)
    return tuple(broker for broker in track.replicas if broker not in kept)


_OTHERS = (State.CHANGED_ELSEWHERE, State.TOPIC_GONE)
