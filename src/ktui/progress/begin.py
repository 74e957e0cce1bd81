"""The start of a timeline: of a move, or of a partition watched for its health."""

from __future__ import annotations

from collections.abc import Mapping

from ktui.cluster.partition import PartitionState
from ktui.progress import news, row
from ktui.progress.copying import source
from ktui.progress.lanes import Scene, drawn_on, next_lanes
from ktui.progress.memory import MoveMemory
from ktui.progress.news import EventCollector
from ktui.progress.poll import Poll
from ktui.progress.slots import extended_recent, history_grid, recent_grid, started
from ktui.progress.timeline import Lane, Phase, Timeline


def begin(
    state: PartitionState, poll: Poll, told: EventCollector, before: Timeline | None = None
) -> Timeline:
    """Start a timeline.

    Args:
        state: the partition. Known until now and not listed, it was moved between two looks.
        poll: the observation.
        told: takes the events.
        before: what was known of the same partition until now; its row and events go on, and its
            lanes where it is a step of the same move.
    """
    original, ordered = _original(state, before)
    if state.reassigning:
        news.listed(told, original, state.target, seen=poll.first)
    leader = source(state, None, poll)
    known = before if before is not None and before.goes_on else None
    began_s = poll.now_s if known is None else known.began_s
    history = history_grid(began_s, poll.now_s)
    scene = Scene(state, state.adding, state.removing, leader, history, poll)
    lanes = next_lanes(scene, drawn_on(known.lanes, history) if known else {}, original)
    phase = _phase(state, before)
    memory = before.memory if before is not None else None
    healthy = news.judged(told, state, poll.config(state.tp), memory.health if memory else None)
    mark, grid = int(_mark(state, phase, lanes, before)), recent_grid(poll.now_s)
    return Timeline(
        state=state,
        phase=phase,
        began_at=poll.observation.at if known is None else known.began_at,
        began_s=began_s,
        ended_at=poll.observation.at if phase.ended else None,
        original=original,
        original_ordered=ordered,
        target=state.target,
        lanes=lanes,
        recent=extended_recent(before.recent, grid, mark, gap=poll.gap)
        if before
        else started(grid, mark),
        lag_history=row.lag_history(
            known.lag_history if known else (), lanes, poll.now_s, history.slot_s
        ),
        events=told.after(before.events if before else ()),
        seen_from_start=known.seen_from_start if known else state.reassigning and not poll.first,
        goes_on=known is not None,
        memory=MoveMemory(
            adding=state.adding,
            removing=state.removing,
            ended_s=poll.now_s if phase.ended else None,
            health=healthy,
            inbound=leader.ends,
            inbound_size=leader.sizes,
        ),
    )


def _mark(
    state: PartitionState, phase: Phase, lanes: Mapping[int, Lane], before: Timeline | None
) -> int:
    """Give the first mark; a leader that moved between two looks shows."""
    if before is None or before.phase is Phase.SETTLED:
        return row.mark(state, phase, lanes)
    return row.next_mark(before, state, phase, lanes)


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
