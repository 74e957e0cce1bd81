"""Fold a partition that does not move: watched for its health, or after its move has ended."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import PartitionState
from ktui.progress import news, row
from ktui.progress.health import Health
from ktui.progress.memory import MoveMemory
from ktui.progress.moves.begin import start_timeline
from ktui.progress.moves.copying import LeaderLog, read_leader
from ktui.progress.moves.lanes import Scene, next_lanes
from ktui.progress.news import EventCollector
from ktui.progress.outcome import SETTLED_S
from ktui.progress.poll import Poll
from ktui.progress.slots import extend_recent, history_grid, recent_grid
from ktui.progress.timeline import Phase, Timeline


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
