"""Fold a move under way, from one observation to the next."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktui.cluster.partition import PartitionState
from ktui.progress import causes, news, outcome, row
from ktui.progress.memory import MoveMemory, StillClock, count_still
from ktui.progress.moves.copying import read_leader
from ktui.progress.moves.lanes import Scene, next_lanes
from ktui.progress.news import EventCollector
from ktui.progress.poll import Poll
from ktui.progress.row import extend_recent, history_grid, recent_grid
from ktui.progress.timeline import Lane, Phase, Role, StallKind, Timeline


class _Step(msgspec.Struct, frozen=True, gc=False):
    """The state of the move by the controller's list."""

    phase: Phase
    target: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    unlisted_since_s: float
    unlisted_polls: int


def fold_move(
    before: Timeline, state: PartitionState, poll: Poll, collector: EventCollector
) -> Timeline:
    """Fold one observation of a partition that is listed, or was until recently."""
    memory = before.memory or MoveMemory()
    step = _step(before, memory, state, poll)
    if step.target != before.target:
        news.report_retargeted(collector, before.target, step.target)
    leader = read_leader(state, memory, poll)
    history = history_grid(before.began_s, poll.now_s)
    listed = state.reassigning
    scene = Scene(state, step.adding, step.removing, leader, history, poll)
    lanes = next_lanes(scene, before.lanes, before.original)
    held = _held(memory.held, state, poll)
    if held is not None:
        _raise_alarm(lanes, state, held, poll)
    phase = Phase.STALLED if listed and _any_stalled(lanes) else step.phase
    if phase.ended:
        news.report_ended(collector, phase, state)
    elif listed:
        _report_stalls(collector, before.lanes, lanes)
    health = memory.health
    changed = state != before.state or before.phase is Phase.SETTLING
    if changed and not _uncertain(before, state, phase):
        health = news.report_health(collector, state, poll.config(state.tp), health)
    mark = int(row.next_mark(before, state, phase, lanes))
    return Timeline(
        state=state,
        phase=phase,
        began_at=before.began_at,
        began_s=before.began_s,
        seen_from_start=before.seen_from_start,
        goes_on=before.goes_on,
        ended_at=poll.observation.at if phase.ended else None,
        original=before.original,
        original_ordered=before.original_ordered,
        target=step.target,
        lanes=lanes,
        recent=extend_recent(before.recent, recent_grid(poll.now_s), mark, gap=poll.gap),
        lag_history=row.lag_history(before.lag_history, lanes, poll.now_s, history.slot_s),
        events=collector.after(before.events),
        inbound_messages_s=leader.messages_s,
        inbound_bytes_s=leader.bytes_s,
        memory=MoveMemory(
            adding=step.adding,
            removing=step.removing,
            unlisted_since_s=step.unlisted_since_s,
            unlisted_polls=step.unlisted_polls,
            ended_s=poll.now_s if phase.ended else None,
            inbound=leader.ends,
            inbound_size=leader.sizes,
            held=held,
            health=health,
        ),
    )


def _step(before: Timeline, memory: MoveMemory, state: PartitionState, poll: Poll) -> _Step:
    if state.reassigning:
        return _Step(Phase.MOVING, state.target, state.adding, state.removing, 0.0, 0)
    same = memory.unlisted_polls > 0 and state.replicas == before.state.replicas
    since_s = memory.unlisted_since_s if same else poll.now_s
    polls = memory.unlisted_polls + poll.later if same else 1
    phase = outcome.judge_outcome(before, state, polls, poll.now_s - since_s)
    if phase.ended:
        return _Step(phase, before.target, (), (), since_s, polls)
    return _Step(phase, before.target, memory.adding, memory.removing, since_s, polls)


def _uncertain(before: Timeline, state: PartitionState, phase: Phase) -> bool:
    """Whether the replicas may still include one that is no longer being added.

    Such a replica must not count as missing.
    """
    if phase.ended:
        return False
    known = {*state.isr, *state.adding, *before.original}
    return phase is Phase.SETTLING or not known.issuperset(state.replicas)


def _held(clock: StillClock | None, state: PartitionState, poll: Poll) -> StillClock | None:
    """Measure how long the move is listed although every adding replica is in sync."""
    waited_for = [b for b in state.adding if b not in state.isr and b not in state.removing]
    if waited_for or not state.reassigning or not state.described:
        return None
    return StillClock(poll.now_s) if clock is None else count_still(clock, poll.passed_s)


def _raise_alarm(
    lanes: dict[int, Lane], state: PartitionState, held: StillClock, poll: Poll
) -> None:
    stall = causes.uncompleted_stall(state, held, poll)
    if stall is not None:
        lanes[stall.broker] = msgspec.structs.replace(lanes[stall.broker], stall=stall)


def _any_stalled(lanes: dict[int, Lane]) -> bool:
    return any(
        lane.stall is not None and lane.stall.kind is StallKind.STALLED for lane in lanes.values()
    )


def _report_stalls(
    collector: EventCollector, before: Mapping[int, Lane], lanes: dict[int, Lane]
) -> None:
    for broker, lane in lanes.items():
        known = before.get(broker)
        was = known.stall if known is not None else None
        if lane.stall is not None or (was is not None and lane.role is Role.ADDING):
            news.report_stall(collector, broker, was, lane.stall)
