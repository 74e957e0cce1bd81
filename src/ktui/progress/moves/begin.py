"""Start a timeline: for a move, or for a partition watched for its health."""

from __future__ import annotations

from collections.abc import Mapping

from ktui.cluster.partition import PartitionState
from ktui.progress import news, row
from ktui.progress.memory import MoveMemory
from ktui.progress.moves.copying import read_leader
from ktui.progress.moves.lanes import Scene, extend_histories, next_lanes
from ktui.progress.news import EventCollector
from ktui.progress.poll import Poll
from ktui.progress.slots import extend_recent, history_grid, recent_grid, start_slots
from ktui.progress.timeline import Lane, Phase, Timeline


def start_timeline(
    state: PartitionState, poll: Poll, collector: EventCollector, before: Timeline | None = None
) -> Timeline:
    """Start a timeline.

    Args:
        state: the partition. If it has an earlier timeline but is not listed now, its move fell
            between two polls.
        poll: the observation.
        collector: receives the events.
        before: the partition's earlier timeline. Its row and events continue, and its lanes too
            where this is a step of the same move.
    """
    original, ordered = _original(state, before)
    if state.reassigning:
        news.report_listed(collector, original, state.target, seen=poll.first)
    leader = read_leader(state, None, poll)
    continued = before if before is not None and before.goes_on else None
    began_s = poll.now_s if continued is None else continued.began_s
    history = history_grid(began_s, poll.now_s)
    scene = Scene(state, state.adding, state.removing, leader, history, poll)
    lanes = next_lanes(
        scene, extend_histories(continued.lanes, history) if continued else {}, original
    )
    phase = _phase(state, before)
    memory = before.memory if before is not None else None
    health = news.report_health(
        collector, state, poll.config(state.tp), memory.health if memory else None
    )
    mark, grid = int(_mark(state, phase, lanes, before)), recent_grid(poll.now_s)
    return Timeline(
        state=state,
        phase=phase,
        began_at=poll.observation.at if continued is None else continued.began_at,
        began_s=began_s,
        ended_at=poll.observation.at if phase.ended else None,
        original=original,
        original_ordered=ordered,
        target=state.target,
        lanes=lanes,
        recent=extend_recent(before.recent, grid, mark, gap=poll.gap)
        if before
        else start_slots(grid, mark),
        lag_history=row.lag_history(
            continued.lag_history if continued else (), lanes, poll.now_s, history.slot_s
        ),
        events=collector.after(before.events if before else ()),
        seen_from_start=continued.seen_from_start
        if continued
        else state.reassigning and not poll.first,
        goes_on=continued is not None,
        memory=MoveMemory(
            adding=state.adding,
            removing=state.removing,
            ended_s=poll.now_s if phase.ended else None,
            health=health,
            inbound=leader.ends,
            inbound_size=leader.sizes,
        ),
    )


def _mark(
    state: PartitionState, phase: Phase, lanes: Mapping[int, Lane], before: Timeline | None
) -> int:
    """Return the first mark; it shows a leader change that fell between two polls."""
    if before is None or before.phase is Phase.SETTLED:
        return row.mark(state, phase, lanes)
    return row.next_mark(before, state, phase, lanes)


def _phase(state: PartitionState, before: Timeline | None) -> Phase:
    """Return the first phase: a move that fell between two polls has already ended."""
    if state.reassigning:
        return Phase.MOVING
    return Phase.SETTLED if before is None else Phase.DONE


def _original(state: PartitionState, before: Timeline | None) -> tuple[tuple[int, ...], bool]:
    """Return the replicas before the move, and whether their order is known.

    The controller lists them in no order. An earlier timeline has the order: in its replicas, or in
    the target of a move that has completed since.
    """
    if not state.reassigning:
        return state.replicas if before is None else before.state.replicas, True
    if before is not None:
        for known in (before.state.replicas, before.target):
            if set(known) == set(state.original):
                return known, True
    return state.original, False
