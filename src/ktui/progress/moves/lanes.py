"""The lanes of a partition: the role of each broker's replica, and how far it has come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from ktui.cluster.partition import PartitionState
from ktui.progress import causes
from ktui.progress.moves import catchup
from ktui.progress.moves.copying import LeaderLog
from ktui.progress.poll import Poll
from ktui.progress.row import Grid, extend_history
from ktui.progress.timeline import Lane, Mark, Role, Slots, Stall, StallKind

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
    removing: tuple[int, ...]
    """As listed now; while the outcome of the move is uncertain, as listed last."""
    source: LeaderLog
    grid: Grid
    """The grid of the histories."""
    poll: Poll


def next_lanes(
    scene: Scene, before: Mapping[int, Lane], original: tuple[int, ...]
) -> dict[int, Lane]:
    """Return the lanes of one fold: the known ones in their order, then the new ones."""
    return {b: _next(scene, b, before.get(b)) for b in _order(before, original, scene.state)}


def extend_histories(lanes: Mapping[int, Lane], grid: Grid) -> dict[int, Lane]:
    """Extend the histories of lanes up to a moment.

    They have stood still since their move, or its step, ended.
    """
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
    hindered = causes.copy_blocker(state, broker, poll)
    catch_up = catchup.follow_replica(
        broker, scene.source, known.memory if known else None, poll, blocked=hindered is not None
    )
    stall = None
    if state.reassigning and now is Role.ADDING:
        earlier = None if before is None else before.stall
        stall = causes.replica_stall(state, broker, catch_up, poll, hindered, earlier)
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
