"""Where the partitions of a run stand for pacing when a process takes it up: by its journal."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.execution.goal import goal
from ktui.execution.track import Track
from ktui.pacing.decision import Decision, Move, Wanted
from ktui.pacing.situation import Situation


def in_flight(tracks: Iterable[Track], batch: int) -> Decision:
    """Give the decision that puts steps back into the air that a journal tells of."""
    moves = tuple(
        Move(t.tp, t.step.begun.step, t.step.begun.alone, t.step.begun.holds_place)
        for t in tracks
        if t.step is not None
    )
    return Decision(batch, steps=moves)


def as_left(track: Track) -> Wanted:
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
    return Wanted(
        track.tp,
        situation,
        track.planned.size,
        begun=track.under_way,
        first=track.cancel is not None,
    )
