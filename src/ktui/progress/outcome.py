"""The outcome of a reassignment that the controller no longer lists."""

from __future__ import annotations

from ktui.cluster.partition import PartitionState
from ktui.progress.timeline import Phase, Timeline

SETTLED_POLLS = 3
SETTLED_S = 2.0
"""A broker's metadata may lag the controller for hundreds of milliseconds."""


def judge_outcome(before: Timeline, state: PartitionState, polls: int, seconds: float) -> Phase:
    """Judge whether an unlisted move is done, cancelled or changed; SETTLING while uncertain.

    Args:
        before: the move as last known while listed.
        state: the partition now, unlisted.
        polls: consecutive polls that saw it unlisted with these replicas.
        seconds: how long it has been unlisted with these replicas.
    """
    if state.replicas == before.target and _unmistakable(before, state):
        return Phase.DONE
    if polls < SETTLED_POLLS or seconds < SETTLED_S:
        return Phase.SETTLING
    if state.replicas == before.target:
        return Phase.DONE
    if set(state.replicas) == set(before.original):
        return Phase.CANCELLED
    return Phase.CHANGED_ELSEWHERE


def completed_between(before: Timeline, state: PartitionState) -> bool:
    """Whether a listed reassignment is the next one, and the known one completed unseen.

    Altering a moving partition makes all its replicas but the newly added ones the new original. So
    an original equal to the old target, in sync, means that the old target had been reached.
    """
    unchanged = state.replicas == before.state.replicas
    if unchanged or not state.described or state.target == before.target:
        return False
    added = set(before.target) - set(before.original)
    return (
        set(state.original) == set(before.target)
        and added.issubset(state.isr)
        and bool(added or set(before.original) - set(before.target))
    )


def recreated(before: PartitionState, now: PartitionState) -> bool:
    """Whether the name now belongs to another topic."""
    return None not in (before.topic_id, now.topic_id) and before.topic_id != now.topic_id


def _unmistakable(before: Timeline, state: PartitionState) -> bool:
    """Whether metadata equal to the target can be neither stale nor from a cancelled move.

    While a move that only adds replicas is under way, `replicas` equals its target: only the ISR
    distinguishes the cases.
    """
    added = set(before.target) - set(before.original)
    changed = set(before.target) != set(before.original) or (
        before.original_ordered and before.target != before.original
    )
    return changed and added.issubset(state.isr)
