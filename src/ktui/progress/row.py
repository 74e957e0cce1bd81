"""The partition as a whole: its mark in the list's row, and its curve of lag."""

from __future__ import annotations

from collections.abc import Mapping

from ktui.cluster.partition import PartitionState
from ktui.progress.timeline import Lane, Mark, Phase, Role, Timeline

LAG_POINTS = 240


def mark(state: PartitionState, phase: Phase, lanes: Mapping[int, Lane]) -> int:
    """Return the mark of one moment: trouble, else the share of the replica farthest behind."""
    if phase is Phase.TOPIC_GONE:
        return Mark.GONE
    if phase is Phase.STALLED:
        return Mark.STALLED
    adding = [lane.share for lane in lanes.values() if lane.role is Role.ADDING]
    if adding:
        known = [share for share in adding if share is not None]
        return int(min(known) * 100) if known else Mark.NOTHING
    if not state.described:
        return Mark.NOTHING
    healthy = state.leader is not None and not state.out_of_sync
    return Mark.IN_SYNC if healthy else Mark.OUT_OF_SYNC


def next_mark(
    before: Timeline, state: PartitionState, phase: Phase, lanes: Mapping[int, Lane]
) -> int:
    """Return the mark of a fold: a change since the last one goes before the current state."""
    if phase in (Phase.CANCELLED, Phase.CHANGED_ELSEWHERE) and not before.phase.ended:
        return Mark.CANCELLED
    was, now = before.state.leader, state.leader
    if was is not None and now is not None and was != now:
        return Mark.LEADER_MOVED
    return mark(state, phase, lanes)


def lag_history(
    points: tuple[tuple[float, int], ...],
    lanes: Mapping[int, Lane],
    now_s: float,
    spacing_s: float,
) -> tuple[tuple[float, int], ...]:
    """Append the worst lag of the adding replicas, in messages; thinned to `spacing_s`."""
    worst = max(
        (
            lane.lag_messages
            for lane in lanes.values()
            if lane.role is Role.ADDING and lane.lag_messages is not None
        ),
        default=None,
    )
    if worst is None:
        return points
    if len(points) > 1 and now_s - points[-2][0] < spacing_s:
        points = points[:-1]
    points = (*points, (now_s, worst))
    while len(points) > LAG_POINTS:
        points = (*points[:-1:2], points[-1])
    return points
