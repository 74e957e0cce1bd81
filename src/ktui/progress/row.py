"""A partition as a whole: the word for its state, its mark and curve in the list, its JSON."""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.json_text import utc
from ktui.progress.timeline import Lane, Mark, Phase, Role, Timeline

FOREIGN = "foreign"


def state_word(timeline: Timeline, ours: Container[TopicPartition] | None) -> str:
    """Return the state's word: `stalled` first, then `foreign`, else the phase's own word.

    Args:
        ours: the partitions that a run of this program moves. None while no run is shown: nothing
            is foreign then. A settled partition outside the run is not foreign either.
    """
    if timeline.phase is Phase.STALLED:
        return Phase.STALLED.value
    if ours is not None and timeline.phase is not Phase.SETTLED and timeline.tp not in ours:
        return FOREIGN
    return timeline.phase.value


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


class LagJson(msgspec.Struct, frozen=True):
    """The lag of one replica behind its leader; null for unknown values."""

    broker: int
    messages: int | None
    bytes: int | None
    at: str | None


class PartitionJson(msgspec.Struct, frozen=True):
    """One partition. `batch` and `step` are null unless a run of ktui moves it."""

    topic: str
    topic_id: str | None
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...] | None
    leader: int | None
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    target: tuple[int, ...]
    original: tuple[int, ...]
    lag: tuple[LagJson, ...]
    rate_bytes_s: float | None
    left_s: float | None
    batch: int | None
    step: int | None
    state: str


def partition_json(timeline: Timeline) -> PartitionJson:
    """Return the JSON form of one partition."""
    state, left = timeline.state, timeline.left_s
    return PartitionJson(
        topic=state.tp.topic,
        topic_id=state.topic_id,
        partition=state.tp.partition,
        replicas=state.replicas,
        isr=state.isr if state.described else None,
        leader=state.leader,
        adding=state.adding,
        removing=state.removing,
        target=timeline.target,
        original=timeline.original,
        lag=tuple(_lag_json(lane) for lane in timeline.catching_up),
        rate_bytes_s=timeline.rate_bytes_s,
        left_s=None if left is None else left.middle,
        batch=None,
        step=None,
        state=state_word(timeline, None),
    )


def _lag_json(lane: Lane) -> LagJson:
    at = None if lane.lag_at is None else utc(lane.lag_at)
    return LagJson(lane.broker, lane.lag_messages, lane.lag_bytes, at)
