"""The rules of a run, each of them once, about facts that any kind of run has.

A driver turns what it sees into these facts: a decision of the pacing alone, the journal and the
requests of a run on a simulated cluster, each call of a chaos run, or the log of real controllers.
tests/README.md says which driver judges what. Nothing here asks the code under test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from ktui.cluster.partition import TopicPartition
from ktui.cluster.settings import ALL, throttled_entry
from ktui.execution.run.events import Ended
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind
from ktui.pacing.limits import InternalOrder, Limits, Mode
from ktui.pacing.situation import LEAST, Move, Step

Brokers = tuple[int, ...]


class Known(Protocol):
    """A partition as the driver knows it: by a read, a poll, or the controllers' record."""

    @property
    def replicas(self) -> Brokers: ...
    @property
    def isr(self) -> Brokers: ...


class Moving(Known, Protocol):
    """The same, with what is being added and removed."""

    @property
    def adding(self) -> Brokers: ...
    @property
    def removing(self) -> Brokers: ...


# ------------------------------------------------------------------ limits


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What a step in flight takes of the limits, or a partition between two steps."""

    tp: TopicPartition
    adds: Brokers = ()
    leader: int | None = None  # copies to the added ones
    moves_leader: bool = False
    holds_place: bool = False
    urgent: bool = False  # too few in sync: only B and P bind
    alone: bool = False  # fits no limit, and goes while nothing else is in flight
    among_urgent: bool = False  # bound by what other urgent partitions use
    size: int = 0
    theirs: bool = False  # a move of somebody else


def taken_by(move: Move, leader: int | None, size: int = 0) -> Taken:
    step = move.step
    return Taken(
        tp=move.tp, adds=step.adds, leader=leader, moves_leader=step.moves_leader,
        holds_place=move.holds_place, urgent=step.urgent, alone=move.alone,
        among_urgent=move.among_urgent, size=size,
    )  # fmt: skip


def most_at(limits: Limits, field: str, broker: int) -> int | None:
    """Return B, S or W as a broker has it: its own if that is set, else the run's."""
    own: int | UnsetType | None = next(
        (getattr(each, field) for each in limits.brokers if each.broker == broker), UNSET
    )
    of_run: int | None = getattr(limits, field)
    return of_run if own is UNSET else own


def is_internal(tp: TopicPartition) -> bool:
    return tp.topic.startswith("__")


def full_limits(
    limits: Limits, step: Taken, beside: Collection[Taken], racks: Mapping[int, str | None]
) -> set[str]:
    """Return the limits, by field, that leave no room for a step beside what else is in flight."""
    counted = [each for each in beside if each.among_urgent or not step.among_urgent]
    if step.alone and not counted:
        return set()
    full = {"alone"} if any(each.alone for each in counted) else set()
    full |= {field for field, too_many in _full(limits, step, counted, racks) if too_many}
    if limits.internal is not InternalOrder.NONE and step.moves_leader and is_internal(step.tp):
        # one at a time, urgent or not
        moving = (each for each in beside if each.moves_leader and is_internal(each.tp))
        full |= {"internal"} if any(moving) else set()
    return full


def _full(
    limits: Limits, step: Taken, counted: Sequence[Taken], racks: Mapping[int, str | None]
) -> Iterator[tuple[str, bool]]:
    adding = Counter(broker for each in counted for broker in each.adds)
    if step.holds_place:
        yield "partitions", _over(sum(each.holds_place for each in counted) + 1, limits.partitions)
    if step.moves_leader:
        moving = sum(each.moves_leader for each in counted)
        yield "leader_movements", _over(moving + 1, limits.leader_movements)
    for broker in step.adds:
        yield "per_broker", _over(adding[broker] + 1, most_at(limits, "per_broker", broker))
    if step.adds and not step.urgent:
        yield from _full_for_adds(limits, step, counted, racks)


def _full_for_adds(
    limits: Limits, step: Taken, counted: Sequence[Taken], racks: Mapping[int, str | None]
) -> Iterator[tuple[str, bool]]:
    """Yield those that do not bind a partition with too few in sync."""
    adding = sum(len(each.adds) for each in counted)
    yield "replica_movements", _over(adding + len(step.adds), limits.replica_movements)
    in_racks = Counter(rack for each in counted for rack in _racks(each, racks))
    for rack in _racks(step, racks):
        yield "per_rack", _over(in_racks[rack] + 1, limits.per_rack)
    if step.leader is not None:
        sent = sum(len(each.adds) for each in counted if each.leader == step.leader)
        most = most_at(limits, "per_leader", step.leader)
        yield "per_leader", _over(sent + len(step.adds), most)
    at, whole = Counter[int | None](), 0
    for each in counted:
        if not each.theirs:  # nobody tells how large those are
            size = max(LEAST, each.size)
            whole += size * len(each.adds)
            at.update(dict.fromkeys(each.adds, size))
            at.update({each.leader: size * len(each.adds)})
    yield "bytes_in_flight", whole >= (limits.bytes_in_flight or inf)
    ends = (*step.adds,) if step.leader is None else (step.leader, *step.adds)
    for broker in ends:
        most = most_at(limits, "bytes_per_broker", broker)
        yield "bytes_per_broker", at[broker] >= (most or inf)


def _over(used: int, most: int | None) -> bool:
    return most is not None and used > most


def _racks(step: Taken, racks: Mapping[int, str | None]) -> set[str]:
    """Return where a partition adds; a broker without a rack is not limited."""
    return {rack for broker in step.adds if (rack := racks.get(broker)) is not None}


# ------------------------------------------------------------------- order


def is_urgent(isr: Collection[int], goal: Collection[int], min_isr: int) -> bool:
    """Return whether a partition has too few in sync to lose another one."""
    return len(isr) < min(max(2, min_isr), len(goal))


def out_of_turn(
    limits: Limits,
    begins: Collection[TopicPartition],
    *,
    going: Collection[object],
    waiting: Collection[TopicPartition],
) -> str:
    """Return why partitions may not begin yet; "" if they may.

    Args:
        limits: the limits in force.
        begins: those that begin, apart from urgent and cancelled ones.
        going: what is in flight or goes on of those begun before.
        waiting: those that could begin and do not.
    """
    if limits.mode is Mode.WAVE and begins and going:
        return f"a wave begins while the last one goes on: {going}"
    others = [tp for tp in waiting if not is_internal(tp)]
    if limits.internal is InternalOrder.LAST and any(map(is_internal, begins)) and others:
        return f"partitions of Kafka's own begin before {others}"
    return ""


def why_held(run: Run, tp: TopicPartition, *, adds: bool, decides: bool = True) -> str:
    """Return what an operator or a gate has against a step; "" if nothing.

    A cancelled partition goes back in any case, except under pauses requested later.

    Args:
        run: the run just before the step.
        tp: its partition.
        adds: whether the step adds replicas.
        decides: whether the step is decided now; later, health gates do not hold it.
    """
    back = run.tracks[tp].cancel is not None
    if run.pauses.stops(tp):
        return f"{tp} is paused"
    if run.cancel_gate.shut and not back:
        return f"{tp} goes on: the cancel gate is shut"
    if decides and run.gate.shut and not (back and not adds):
        return f"{tp} steps while the gate is shut"
    return ""


# -------------------------------------------------------------------- data


def drops_below(isr: Collection[int], left: Collection[int], least: int) -> bool:
    """Return whether replicas in sync go, and fewer than ``least`` are left."""
    return bool({*isr} - {*left}) and len({*left}) < least


def loses(known: Known, target: Brokers, least: int) -> str:
    """Return what an alter would do to the data; "" if nothing.

    Args:
        known: the partition as it is when the request is judged.
        target: the requested replicas.
        least: min.insync.replicas, at most as many as the partition is to have.
    """
    left = {*known.isr} & {*target} | ({*target} - {*known.replicas})
    below = drops_below(known.isr, left, least)
    return f"only {left} stay in sync of {known} for {target}" if below else ""


def cancel_loses(known: Moving) -> str:
    """Return whether a cancel would drop all that is in sync; "" if not."""
    left = {*known.isr} - {*known.adding}
    return "" if left else f"it is cancelled though nothing else was in sync: {known}"


def not_as_begun(known: Moving, before: Brokers) -> str:
    """Return why a step that begins at some replicas may not be sent; "" if it may."""
    if known.adding or known.removing:
        return f"altered while it moved: {known}"
    return "" if known.replicas == before else f"altered from {before}: {known}"


def step_problems(
    step: Step,
    known: Known,
    leader: int | None,
    *,
    goal: Brokers,
    first: int,
    least: int,
    up: Collection[int],
) -> Iterator[str]:
    """Yield what is wrong with a step, whatever the limits.

    Args:
        step: the step.
        known: its partition.
        leader: who leads it.
        goal: where it goes.
        first: who is to lead it then.
        least: min.insync.replicas, at most as many as the goal has.
        up: the brokers that are up, with the log dirs of this partition.
    """
    dead = {*known.replicas} - {*up} - {*known.isr} - {*goal}
    before, later, gone = {*known.replicas} - dead, {*step.target} - dead, {*step.drops}
    if wrong := loses(known, step.target, least):
        yield wrong
    if gone - dead and len(later) < min(len(before), len(goal)):
        yield "a replica is dropped unreplaced"
    ready = {*known.isr} & {*up} | {*step.adds}
    if (leader in gone or step.elects is not None) and first not in ready:
        yield "the leader goes before the next one can lead"
    if not step.alters and step.elects in (None, leader):
        yield "nothing changes"
    if step.cut and (step.adds or not {*goal} <= {*known.isr} & {*up}):
        yield "a cut while a target is not in sync"


def adds_too_many(limits: Limits, step: Step, known: Known, least: int) -> bool:
    """Return whether a step adds more than R; an urgent one may add what min ISR lacks."""
    lacking = least - len(known.isr) if step.urgent else 0
    return limits.replicas is not None and len(step.adds) > max(limits.replicas, lacking)


# ------------------------------------------------------------------ cancel


def against_cancel(
    kind: CancelKind | None, before: Brokers, replicas: Brokers, original: Brokers
) -> str:
    """Return why a step does not lead back after a cancel; "" if it does, or without a cancel."""
    adding, removing = {*replicas} - {*before}, {*before} - {*replicas}
    match kind:
        case CancelKind.STOP:
            return "a step after a stop"
        case CancelKind.TRIM if adding:
            return f"a trim adds {adding}"
        case CancelKind.TRIM if len(replicas) < len(original) or len(before) <= len(original):
            return f"a trim from {before} to {replicas}, of {original}"
        case CancelKind.ROLLBACK if adding - {*original}:
            return f"a rollback adds {adding - {*original}}"
        case CancelKind.ROLLBACK if removing & {*original}:
            return f"a rollback drops the originals {removing & {*original}}"
        case _:
            return ""


def may_still_come(ended: Ended) -> set[TopicPartition]:
    """Return the partitions of which a request may arrive after the end: those that it names."""
    return {TopicPartition(each.topic, each.partition) for each in ended.open}


# ---------------------------------------------------------------- throttle


def unthrottled(
    tp: TopicPartition,
    broker: int,
    listed: Collection[str] | None,
    rate: str | None,
    allowed: Collection[str] | None,
) -> str:
    """Return why a copy is not bound by the run's rate; "" if it is.

    Args:
        tp: the partition.
        broker: who is throttled for it.
        listed: the entries of its topic's list; None if others have changed that.
        rate: the broker's rate.
        allowed: the rates that the run may rest on; None if others have changed it.
    """
    if listed is not None and not {throttled_entry(tp.partition, broker), ALL} & {*listed}:
        return f"{tp} onto {broker} is not listed"
    if allowed is not None and rate not in allowed:
        return f"{tp} onto {broker} at {rate} in place of {allowed}"
    return ""
