"""The start of a timeline: of a move, or of a partition watched for its health."""

from __future__ import annotations

from ktui.cluster.partition import PartitionState
from ktui.progress import news, row
from ktui.progress.copying import source
from ktui.progress.lanes import Scene, next_lanes
from ktui.progress.memory import MoveMemory
from ktui.progress.news import News
from ktui.progress.poll import Poll
from ktui.progress.slots import extended_recent, history_grid, recent_grid, started
from ktui.progress.timeline import Phase, Timeline


def begin(
    state: PartitionState, poll: Poll, told: News, before: Timeline | None = None
) -> Timeline:
    """Start a timeline.

    Args:
        state: the partition. Known until now and not listed, it was moved between two looks.
        poll: the observation.
        told: takes the events.
        before: what was known of the same partition until now; its row and events go on.
    """
    original, ordered = _original(state, before)
    if state.reassigning:
        news.listed(told, original, state.target, seen=poll.first)
    leader = source(state, None, poll)
    history = history_grid(poll.now_s, poll.now_s)
    scene = Scene(state, state.adding, state.removing, leader, history, poll)
    lanes = next_lanes(scene, {}, original)
    phase = _phase(state, before)
    known = before.memory if before is not None else None
    healthy = news.judged(told, state, poll.config(state.tp), known.health if known else None)
    mark, grid = int(row.mark(state, phase, lanes)), recent_grid(poll.now_s)
    return Timeline(
        state=state,
        phase=phase,
        began_at=poll.observation.at,
        began_s=poll.now_s,
        ended_at=poll.observation.at if phase.ended else None,
        original=original,
        original_ordered=ordered,
        target=state.target,
        lanes=lanes,
        recent=extended_recent(before.recent, grid, mark, gap=poll.gap)
        if before
        else started(grid, mark),
        lag_history=row.lag_history((), lanes, poll.now_s, history.slot_s),
        events=told.after(before.events if before else ()),
        seen_from_start=state.reassigning and not poll.first,
        memory=MoveMemory(
            adding=state.adding,
            removing=state.removing,
            ended_s=poll.now_s if phase.ended else None,
            health=healthy,
            inbound=leader.ends,
            inbound_size=leader.sizes,
        ),
    )


def _phase(state: PartitionState, before: Timeline | None) -> Phase:
    """Give the phase to begin with: a move that fell between two looks has ended already."""
    if state.reassigning:
        return Phase.MOVING
    return Phase.SETTLED if before is None else Phase.DONE


def _original(state: PartitionState, before: Timeline | None) -> tuple[tuple[int, ...], bool]:
    """Give the replicas from before the move, and whether their order is known.

    The controller's list names them in no order. What was seen of the partition before has the
    order: its replicas, or the target of a move that has completed since.
    """
    if not state.reassigning:
        return state.replicas if before is None else before.state.replicas, True
    if before is not None:
        for known in (before.state.replicas, before.target):
            if set(known) == set(state.original):
                return known, True
    return state.original, False
