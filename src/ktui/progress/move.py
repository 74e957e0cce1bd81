"""The lanes of a partition: the role of each broker's replica, and how far it has come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from ktui.cluster.partition import PartitionState
from ktui.progress import catchup, news, row, timeline
from ktui.progress.catchup import LeaderLog, read_leader
from ktui.progress.memory import MoveMemory, StillClock, count_still
from ktui.progress.news import EventCollector, EventSeverity, shown
from ktui.progress.poll import Poll
from ktui.progress.row import (
    Grid,
    extend_history,
    extend_recent,
    history_grid,
    recent_grid,
    start_slots,
)
from ktui.progress.timeline import (
    SETTLED_S,
    LagHistory,
    Lane,
    Mark,
    Phase,
    Role,
    Slots,
    Stall,
    StallKind,
    Timeline,
)

_MARKS = {
    Role.IN_SYNC: Mark.IN_SYNC,
    Role.LEADER: Mark.LEADER,
    Role.OUT_OF_SYNC: Mark.OUT_OF_SYNC,
    Role.RETIRING: Mark.RETIRING,
    Role.GONE: Mark.GONE,
    Role.ADDING: Mark.NOTHING,
}


class Scene(msgspec.Struct, frozen=True, gc=False):
    """The input that all lanes of one partition share in one fold."""

    state: PartitionState
    adding: tuple[int, ...]
    removing: tuple[int, ...]  # as listed; last, while the outcome is uncertain
    source: LeaderLog
    grid: Grid
    poll: Poll


def next_lanes(
    scene: Scene, before: Mapping[int, Lane], original: tuple[int, ...]
) -> dict[int, Lane]:
    """Return the lanes of one fold: the known ones in their order, then the new ones."""
    return {b: _next(scene, b, before.get(b)) for b in _order(before, original, scene.state)}


def extend_histories(lanes: Mapping[int, Lane], grid: Grid) -> dict[int, Lane]:
    """Extend the histories of lanes up to a moment."""
    before = Grid(grid.slot_s, grid.index - 1, grid.end_s - grid.slot_s)
    return {broker: _extended(lane, before) for broker, lane in lanes.items()}


def _extended(lane: Lane, grid: Grid) -> Lane:
    if lane.history is None or grid.index < 0:
        return lane
    mark = lane.history.marks[-1] if lane.role is Role.ADDING else _MARKS[lane.role]
    history = extend_history(lane.history, grid, int(mark), gap=False)
    return msgspec.structs.replace(lane, history=history)


def _order(
    before: Mapping[int, Lane], original: tuple[int, ...], state: PartitionState
) -> Iterator[int]:
    if not before:
        yield from original
        yield from (b for b in state.replicas if b not in original)
        return
    yield from before
    yield from (b for b in state.replicas if b not in before)


def role(
    state: PartitionState, broker: int, adding: tuple[int, ...], removing: tuple[int, ...]
) -> Role:
    """Return the role of a broker's replica in the partition."""
    if broker not in state.replicas:
        return Role.GONE
    if broker == state.leader:
        return Role.LEADER
    if broker in removing:
        return Role.RETIRING
    if broker in state.isr:
        return Role.IN_SYNC
    if broker in adding:
        return Role.ADDING
    return Role.OUT_OF_SYNC if state.described else Role.IN_SYNC


def _next(scene: Scene, broker: int, before: Lane | None) -> Lane:
    now = role(scene.state, broker, scene.adding, scene.removing)
    if now is Role.ADDING or now is Role.OUT_OF_SYNC:
        return _copying(scene, broker, now, before)
    mark = _MARKS[now]
    if now is Role.LEADER and broker in scene.poll.down:
        mark = Mark.OUT_OF_SYNC
    elif before is not None:
        if now is Role.LEADER and before.role is not Role.LEADER:
            mark = Mark.LEADER_MOVED
        elif now is Role.GONE and before.role is Role.ADDING:
            mark = Mark.CANCELLED
    history = _history(scene, before, mark)
    if before is not None and before.role is now and before.history is history:
        return before if before.stall is None else msgspec.structs.replace(before, stall=None)
    share = 1.0 if now is Role.IN_SYNC or now is Role.LEADER else None
    return Lane(broker=broker, role=now, share=share, history=history)


def _copying(scene: Scene, broker: int, now: Role, before: Lane | None) -> Lane:
    poll, state = scene.poll, scene.state
    known = before if before is not None and before.memory is not None else None
    hindered = news.copy_blocker(state, broker, poll)
    catch_up = catchup.follow_replica(
        broker, scene.source, known.memory if known else None, poll, blocked=hindered is not None
    )
    stall = None
    if state.reassigning and now is Role.ADDING:
        earlier = None if before is None else before.stall
        stall = news.replica_stall(state, broker, catch_up, poll, hindered, earlier)
    figures = catch_up.figures
    share, approximate = figures.share, figures.approximate
    if share is None and known is not None:
        share, approximate = known.share, known.approximate
    at, messages, size = None, figures.messages, figures.size
    if figures.at_s is not None:
        at = poll.wall_time(figures.at_s)
    if messages is None and size is None and known is not None:
        at, messages, size = known.lag_at, known.lag_messages, known.lag_bytes
    return Lane(
        broker=broker,
        role=now,
        lag_messages=messages,
        lag_bytes=size,
        lag_at=at,
        share=share,
        approximate=approximate,
        rate_messages_s=catch_up.messages_s,
        rate_bytes_s=catch_up.bytes_s,
        left_s=catch_up.left_s,
        stall=stall,
        history=_history(scene, before, _copying_mark(now, share, stall)),
        memory=catch_up.memory,
    )


def _copying_mark(now: Role, share: float | None, stall: Stall | None) -> int:
    if stall is not None and stall.kind is StallKind.STALLED:
        return Mark.STALLED
    if now is Role.OUT_OF_SYNC:
        return Mark.OUT_OF_SYNC
    return Mark.NOTHING if share is None else int(share * 100)


def _history(scene: Scene, before: Lane | None, mark: int) -> Slots:
    known = before.history if before is not None else None
    return extend_history(known, scene.grid, int(mark), gap=scene.poll.gap)


class _Step(msgspec.Struct, frozen=True, gc=False):
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
        what = f"re-targeted: {shown(step.target)} instead of {shown(before.target)}"
        collector.add(what, EventSeverity.WARNING)
    leader = read_leader(state, memory, poll)
    history = history_grid(before.began_s, poll.now_s)
    listed = state.reassigning
    scene = Scene(state, step.adding, step.removing, leader, history, poll)
    lanes = next_lanes(scene, before.lanes, before.original)
    held = _held(memory.held, state, poll)
    stall = None if held is None else news.uncompleted_stall(state, held, poll)
    if stall is not None:
        lanes[stall.broker] = msgspec.structs.replace(lanes[stall.broker], stall=stall)
    phase = Phase.STALLED if listed and _any_stalled(lanes) else step.phase
    if phase.ended:
        sentence, severity = news.ENDINGS[phase]
        collector.add(sentence.format(now=shown(state.replicas)), severity)
    elif listed:
        _report_stalls(collector, before.lanes, lanes)
    health = memory.health
    changed = state != before.state or before.phase is Phase.SETTLING
    if changed and not _uncertain(before, state, phase):
        health = news.report_health(collector, state, poll.config(state.tp), health)
    return msgspec.structs.replace(
        before,
        state=state,
        phase=phase,
        ended_at=poll.observation.at if phase.ended else None,
        target=step.target,
        lanes=lanes,
        recent=_recent(before, row.next_mark(before, state, phase, lanes), poll),
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
    phase = timeline.judge_outcome(before, state, polls, poll.now_s - since_s)
    if phase.ended:
        return _Step(phase, before.target, (), (), since_s, polls)
    return _Step(phase, before.target, memory.adding, memory.removing, since_s, polls)


def _uncertain(before: Timeline, state: PartitionState, phase: Phase) -> bool:
    """Whether replicas may include one no longer being added, which is not missing."""
    if phase.ended:
        return False
    known = {*state.isr, *state.adding, *before.original}
    return phase is Phase.SETTLING or not known.issuperset(state.replicas)


def _held(clock: StillClock | None, state: PartitionState, poll: Poll) -> StillClock | None:
    waited_for = [b for b in state.adding if b not in state.isr and b not in state.removing]
    if waited_for or not state.reassigning or not state.described:
        return None
    return StillClock(poll.now_s) if clock is None else count_still(clock, poll.passed_s)


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


def start_timeline(
    state: PartitionState, poll: Poll, collector: EventCollector, before: Timeline | None = None
) -> Timeline:
    """Start a timeline; row and events of `before` go on, and its lanes in a step of the move."""
    original, ordered = _original(state, before)
    if state.reassigning:
        verb = "under way" if poll.first else "started"
        collector.add(f"reassignment {verb}: {shown(original)} -> {shown(state.target)}")
    leader = read_leader(state, None, poll)
    continued = before if before is not None and before.goes_on else None
    began_s = poll.now_s if continued is None else continued.began_s
    history = history_grid(began_s, poll.now_s)
    scene = Scene(state, state.adding, state.removing, leader, history, poll)
    lanes = next_lanes(
        scene, extend_histories(continued.lanes, history) if continued else {}, original
    )
    at_rest = Phase.SETTLED if before is None else Phase.DONE
    phase = Phase.MOVING if state.reassigning else at_rest
    memory = before.memory if before is not None else None
    health = news.report_health(
        collector, state, poll.config(state.tp), memory.health if memory else None
    )
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
        recent=_recent(before, _mark(state, phase, lanes, before), poll),
        lag_history=row.lag_history(
            continued.lag_history if continued else LagHistory(), lanes, poll.now_s, history.slot_s
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
    if before is None or before.phase is Phase.SETTLED:
        return row.mark(state, phase, lanes)
    return row.next_mark(before, state, phase, lanes)


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
        # never seen listed: a reorder, a removal, or a very fast move
        was, now = shown(before.state.replicas), shown(state.replicas)
        collector.add(f"replicas changed from {was} to {now} between two polls")
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
    settled = before.phase is Phase.SETTLED
    return msgspec.structs.replace(
        before,
        state=state,
        original=state.replicas if settled else before.original,
        target=state.replicas if settled else before.target,
        lanes=lanes,
        recent=_recent(before, row.next_mark(before, state, before.phase, lanes), poll),
        events=collector.after(before.events),
        inbound_messages_s=leader.messages_s,
        inbound_bytes_s=leader.bytes_s,
        memory=msgspec.structs.replace(
            memory,
            unseen_since_s=None,
            inbound=leader.ends,
            inbound_size=leader.sizes,
            health=health,
        ),
    )


def _stale(before: Timeline, memory: MoveMemory, state: PartitionState, poll: Poll) -> bool:
    """Whether another broker's metadata still shows a move that has just ended."""
    just_ended = memory.ended_s is not None and poll.now_s - memory.ended_s < SETTLED_S
    return just_ended and state.replicas != before.state.replicas


def _unchanged(before: Timeline, poll: Poll) -> Timeline:
    recent = _recent(before, row.mark(before.state, before.phase, before.lanes), poll)
    memory = before.memory
    if memory is not None and memory.unseen_since_s is not None:
        memory = msgspec.structs.replace(memory, unseen_since_s=None)
    if recent is before.recent and memory is before.memory:
        return before
    return msgspec.structs.replace(before, recent=recent, memory=memory)


LOST_AFTER_S = 60.0


def fold_unseen(before: Timeline, poll: Poll, collector: EventCollector) -> Timeline | None:
    """Fold an observation without the partition; None once the partition is dropped."""
    if before.phase.ended:
        return _rest_extended(before, poll)
    if poll.absent(before.state):
        moving = before.phase is not Phase.SETTLED
        collector.add("topic deleted", EventSeverity.TROUBLE if moving else EventSeverity.WARNING)
        return None if before.phase is Phase.SETTLED else _deleted(before, poll, collector)
    return _without_metadata(before, poll, collector)


def _rest_extended(before: Timeline, poll: Poll) -> Timeline:
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
    memory = before.memory or MoveMemory()
    since_s = poll.now_s if memory.unseen_since_s is None else memory.unseen_since_s
    if poll.now_s - since_s > LOST_AFTER_S:
        if before.phase is not Phase.SETTLED:
            what = "no longer listed, and its metadata cannot be read: outcome unknown"
            collector.add(what, EventSeverity.WARNING)
        return None
    moving = before.phase is not Phase.SETTLED
    return msgspec.structs.replace(
        before,
        phase=Phase.SETTLING if moving else Phase.SETTLED,
        recent=_recent(before, Mark.NOTHING, poll),
        memory=msgspec.structs.replace(memory, unseen_since_s=since_s, unlisted_polls=0),
    )


def _recent(before: Timeline | None, mark: int, poll: Poll) -> Slots:
    grid = recent_grid(poll.now_s)
    if before is None:
        return start_slots(grid, mark)
    return extend_recent(before.recent, grid, int(mark), gap=poll.gap)
