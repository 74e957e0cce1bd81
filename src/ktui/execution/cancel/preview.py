"""What a cancel would do to a partition, before it is asked for: by its run and a fresh look."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.execution.engine.landing import Landing, landing
from ktui.execution.engine.observed import Observed
from ktui.execution.engine.request_check import LAST_IN_SYNC
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.cancel_scope import CancelEffect, act_on
from ktui.execution.run.destination import goal, goal_in_words
from ktui.execution.run.track import Track
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Blocked, Situation, Step
from ktui.pacing.steps import all_steps, next_step


class Foreseen(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one partition that is called off now, if nothing else happens to it."""

    tp: TopicPartition
    act: CancelEffect
    cancels: bool = False
    """Whether a cancel is sent: Kafka drops at once what it is adding."""
    steps: tuple[Step, ...] = ()
    """What is sent after that, step by step, under the run's limits."""
    replicas: Brokers
    """In the end, in order."""
    leader: int | None
    """In the end; None where nobody leads. Of one that was not looked at, who led before."""
    planned: int
    """The number of replicas in the plan."""
    original: int
    """The number of replicas before the run."""
    refused: str | None = None
    """Why it cannot be done now."""
    way_out: str | None = None
    """What becomes of it then, and what can be done about it."""
    danger: str | None = None
    """What it puts at risk."""

    @property
    def extra(self) -> int:
        """How many replicas more than before it is left with, which a trim would drop."""
        return max(0, len(self.replicas) - max(self.planned, self.original))


def foreseen(track: Track, kind: CancelKind, limits: Limits, look: Observed) -> Foreseen:
    """Say what becomes of a partition of a run.

    Args:
        track: the partition, by its run's journal.
        kind: what is asked for.
        limits: those in force.
        look: a fresh look that shows the partition; of one that it does not show, the journal
            is believed.
    """
    act, state = act_on(track, kind), look.state(track.tp)
    if act in {CancelEffect.NOTHING, CancelEffect.DEQUEUE}:
        return _as_it_is(track, act, state)
    if reason := look.gone(track):
        return _refused(_as_it_is(track, act, None), reason, _IS_GONE)
    if state is None:
        return _refused(_as_it_is(track, act, state), look.hidden(track.tp.topic), _GOES_ON)
    if state.reassigning and not _is_ours(track, state):
        theirs = _as_it_is(track, act, state)
        return _refused(theirs, "someone else is reassigning it", _OF_OTHERS.format(track.tp))
    told = _called_off(track, kind, limits, look, act, state)
    return (
        msgspec.structs.replace(told, cancels=False, steps=())
        if act is CancelEffect.ALREADY
        else told
    )


def _as_it_is(track: Track, act: CancelEffect, state: PartitionState | None) -> Foreseen:
    return Foreseen(
        tp=track.tp,
        act=act,
        replicas=track.replicas if state is None else state.original,
        leader=track.led if state is None else state.leader,
        planned=len(track.planned.target),
        original=len(track.original),
    )


def _is_ours(track: Track, state: PartitionState) -> bool:
    return track.step is not None and landing(track.step, state) is Landing.FLYING


def _refused(told: Foreseen, reason: str, way_out: str) -> Foreseen:
    return msgspec.structs.replace(told, refused=reason, way_out=way_out)


def _settled(state: PartitionState) -> PartitionState:
    """Give a partition as Kafka leaves it when it is cancelled: without what was being added.

    Where the leader goes with that, the first in sync leads, in the order of the replicas.
    """
    isr = tuple(broker for broker in state.isr if broker not in state.adding)
    leader = state.leader
    if leader in state.adding:
        leader = next((broker for broker in state.original if broker in isr), None)
    return msgspec.structs.replace(
        state, replicas=state.original, isr=isr, leader=leader, adding=(), removing=()
    )


def _called_off(
    track: Track,
    kind: CancelKind,
    limits: Limits,
    look: Observed,
    act: CancelEffect,
    state: PartitionState,
) -> Foreseen:
    after, flying = _settled(state), state.reassigning
    turned = msgspec.structs.replace(track, cancel=kind)
    situation = look.situation(turned, after)
    goes_to = goal(turned, after.replicas, after.isr, after.leader)
    goes_on = kind is not CancelKind.STOP and situation is not None
    lead = next(iter(goes_to.replicas), None) if goes_to.lead is None else goes_to.lead
    told = Foreseen(
        tp=track.tp,
        act=act,
        cancels=flying and bool(after.isr),
        steps=tuple(all_steps(situation, limits)) if goes_on and situation else (),
        replicas=goes_to.replicas,
        leader=after.leader if kind is CancelKind.STOP else lead,
        planned=len(track.planned.target),
        original=len(track.original),
        danger=_danger(after, situation) if flying else None,
    )
    if flying and not after.isr:
        return _refused(told, LAST_IN_SYNC, _LAST_IN_SYNC_OUT)
    following = next_step(situation, limits) if goes_on and situation else None
    if isinstance(following, Blocked):
        return _refused(told, following.sentence_of(goal_in_words(kind)), _GOES_ON)
    return told


def _danger(after: PartitionState, situation: Situation | None) -> str | None:
    least = 1 if situation is None else situation.min_insync_replicas
    if not after.isr or len(after.isr) >= least:
        return None
    return (
        f"{len(after.isr)} would stay in sync, fewer than min.insync.replicas ({least}): "
        "producers with acks=all would fail"
    )


_GOES_ON = "It is done by itself as soon as that has passed"
_IS_GONE = "Nothing is done"
_OF_OTHERS = (
    "It is left to them; `ktui cancel --cluster --partition {0.topic}:{0.partition}` stops it"
)
_LAST_IN_SYNC_OUT = (
    "It is cancelled as soon as another replica is in sync: bring one of their brokers back"
)
