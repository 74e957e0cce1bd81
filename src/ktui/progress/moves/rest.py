"""Partitions that do not move: begun, at rest, or not shown by an observation."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktui.cluster.partition import PartitionState
from ktui.progress import news, row
from ktui.progress.health import Health
from ktui.progress.memory import MoveMemory
from ktui.progress.moves.copying import LeaderLog, read_leader
from ktui.progress.moves.lanes import Scene, extend_histories, next_lanes
from ktui.progress.news import EventCollector
from ktui.progress.outcome import SETTLED_S
from ktui.progress.poll import Poll
from ktui.progress.row import extend_recent, history_grid, recent_grid, start_slots
from ktui.progress.timeline import Lane, Mark, Phase, Role, Slots, Timeline


def start_timeline(
    state: PartitionState, poll: Poll, collector: EventCollector, before: Timeline | None = None
) -> Timeline:
    """Start a timeline.

    Args:
        state: the partition. If it has an earlier timeline but is not listed now, its move fell
            between two polls.
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


def fold_at_rest(
    before: Timeline, state: PartitionState, poll: Poll, collector: EventCollector
) -> Timeline:
    """Fold one observation of a partition at rest; cheap where nothing changed."""
    memory = before.memory or MoveMemory()
    if (state == before.state and not state.out_of_sync) or _stale(before, memory, state, poll):
        return _unchanged(before, poll)
    news.report_isr_and_leader(collector, before.state, state)
    if state.replicas != before.state.replicas:
        news.report_replicas_changed(collector, before.state.replicas, state.replicas)
        if before.phase.ended:
            return start_timeline(state, poll, collector, before)
    health = news.report_health(collector, state, poll.config(state.tp), memory.health)
    leader = read_leader(state, memory, poll)
    until_s = poll.now_s if memory.ended_s is None else memory.ended_s
    history = history_grid(before.began_s, until_s)
    scene = Scene(state, (), (), leader, history, poll)
    lanes = next_lanes(scene, before.lanes, before.original)
    if before.phase is Phase.SETTLED:
        lanes = {b: lane for b, lane in lanes.items() if b in state.replicas}
    mark = int(row.next_mark(before, state, before.phase, lanes))
    settled = before.phase is Phase.SETTLED
    return msgspec.structs.replace(
        before,
        state=state,
        original=state.replicas if settled else before.original,
        target=state.replicas if settled else before.target,
        lanes=lanes,
        recent=extend_recent(before.recent, recent_grid(poll.now_s), mark, gap=poll.gap),
        events=collector.after(before.events),
        inbound_messages_s=leader.messages_s,
        inbound_bytes_s=leader.bytes_s,
        memory=_remembered(memory, leader, health),
    )


def _stale(before: Timeline, memory: MoveMemory, state: PartitionState, poll: Poll) -> bool:
    """Whether another broker's metadata still shows a move that has just ended."""
    just_ended = memory.ended_s is not None and poll.now_s - memory.ended_s < SETTLED_S
    return just_ended and state.replicas != before.state.replicas


def _unchanged(before: Timeline, poll: Poll) -> Timeline:
    mark = int(row.mark(before.state, before.phase, before.lanes))
    recent = extend_recent(before.recent, recent_grid(poll.now_s), mark, gap=poll.gap)
    memory = before.memory
    if memory is not None and memory.unseen_since_s is not None:
        memory = msgspec.structs.replace(memory, unseen_since_s=None)
    if recent is before.recent and memory is before.memory:
        return before
    return msgspec.structs.replace(before, recent=recent, memory=memory)


def _remembered(memory: MoveMemory, leader: LeaderLog, health: Health | None) -> MoveMemory:
    return msgspec.structs.replace(
        memory,
        unseen_since_s=None,
        inbound=leader.ends,
        inbound_size=leader.sizes,
        health=health,
    )


LOST_AFTER_S = 60.0
"""A partition that no observation has shown for this long is dropped."""


def fold_unseen(before: Timeline, poll: Poll, collector: EventCollector) -> Timeline | None:
    """Fold an observation without the partition; None once the partition is dropped."""
    if before.phase.ended:
        return _extended(before, poll)
    if poll.absent(before.state):
        news.report_topic_deleted(collector, moving=before.phase is not Phase.SETTLED)
        return None if before.phase is Phase.SETTLED else _deleted(before, poll, collector)
    return _without_metadata(before, poll, collector)


def _extended(before: Timeline, poll: Poll) -> Timeline:
    mark = Mark.GONE if before.phase is Phase.TOPIC_GONE else Mark.NOTHING
    recent = _recent(before, mark, poll)
    return before if recent is before.recent else msgspec.structs.replace(before, recent=recent)


def _deleted(before: Timeline, poll: Poll, collector: EventCollector) -> Timeline:
    return msgspec.structs.replace(
        before,
        phase=Phase.TOPIC_GONE,
        ended_at=poll.observation.at,
        lanes=_lanes_gone(before.lanes),
        recent=_recent(before, Mark.GONE, poll),
        events=collector.after(before.events),
        memory=msgspec.structs.replace(before.memory or MoveMemory(), ended_s=poll.now_s),
    )


def _lanes_gone(lanes: Mapping[int, Lane]) -> dict[int, Lane]:
    return {
        broker: Lane(broker=broker, role=Role.GONE, history=lane.history)
        for broker, lane in lanes.items()
    }


def _without_metadata(before: Timeline, poll: Poll, collector: EventCollector) -> Timeline | None:
    """Wait for a partition that is certainly not listed, but whose metadata is unavailable."""
    memory = before.memory or MoveMemory()
    since_s = poll.now_s if memory.unseen_since_s is None else memory.unseen_since_s
    if poll.now_s - since_s > LOST_AFTER_S:
        if before.phase is not Phase.SETTLED:
            news.report_outcome_unknown(collector)
        return None
    moving = before.phase is not Phase.SETTLED
    return msgspec.structs.replace(
        before,
        phase=Phase.SETTLING if moving else Phase.SETTLED,
        recent=_recent(before, Mark.NOTHING, poll),
        memory=msgspec.structs.replace(memory, unseen_since_s=since_s, unlisted_polls=0),
    )


def _recent(before: Timeline, mark: Mark, poll: Poll) -> Slots:
    return extend_recent(before.recent, recent_grid(poll.now_s), int(mark), gap=poll.gap)
