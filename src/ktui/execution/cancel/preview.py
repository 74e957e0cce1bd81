"""Preview of a cancel: its effect on each partition, from the run and a fresh read."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.execution.engine.landing import StepOutcome, step_outcome
from ktui.execution.engine.observed import Observed
from ktui.execution.engine.request_check import LAST_IN_SYNC
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.cancel_scope import CancelEffect, effect_of_cancel
from ktui.execution.run.destination import find_goal, goal_text
from ktui.execution.run.track import Track
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Blocked, Situation, Step
from ktui.pacing.steps import all_steps, next_step


class CancelPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one partition that is called off now, if nothing else happens to it."""

    tp: TopicPartition
    act: CancelEffect
    cancels: bool = False
    """Whether a cancel is sent: Kafka drops at once the replicas that it is adding."""
    steps: tuple[Step, ...] = ()
    """The steps that are sent after the cancel, under the run's limits."""
    replicas: Brokers
    """The final replicas, in order."""
    leader: int | None
    """The final leader; None if nobody leads. If the partition was not read, the leader before the
    run."""
    planned: int
    """The number of replicas in the plan."""
    original: int
    """The number of replicas before the run."""
    refused: str | None = None
    """Why the partition cannot be called off now."""
    way_out: str | None = None
    """What happens to a refused partition, and what the operator can do about it."""
    danger: str | None = None
    """What the cancel puts at risk."""

    @property
    def extra(self) -> int:
        """How many extra replicas the partition keeps, which a trim would drop.

        The count is beyond both the plan and the number before the run.
        """
        return max(0, len(self.replicas) - max(self.planned, self.original))


def preview_cancel(
    track: Track, kind: CancelKind, limits: Limits, observed: Observed
) -> CancelPreview:
    """Preview a cancel of one partition of a run.

    Args:
        track: the partition in the run's journal.
        kind: the kind of cancel.
        limits: the limits in force.
        observed: a fresh read of the partition. If the read does not show it, the journal counts.
    """
    act, state = effect_of_cancel(track, kind), observed.state(track.tp)
    if act in {CancelEffect.NOTHING, CancelEffect.DEQUEUE}:
        return _as_it_is(track, act, state)
    if reason := observed.gone(track):
        return _refused(_as_it_is(track, act, None), reason, _IS_GONE)
    if state is None:
        return _refused(_as_it_is(track, act, state), observed.hidden(track.tp.topic), _GOES_ON)
    if state.reassigning and not _is_ours(track, state):
        theirs = _as_it_is(track, act, state)
        return _refused(theirs, "someone else is reassigning it", _OF_OTHERS.format(track.tp))
    preview = _called_off(track, kind, limits, observed, act, state)
    return (
        msgspec.structs.replace(preview, cancels=False, steps=())
        if act is CancelEffect.ALREADY
        else preview
    )


def _as_it_is(track: Track, act: CancelEffect, state: PartitionState | None) -> CancelPreview:
    return CancelPreview(
        tp=track.tp,
        act=act,
        replicas=track.replicas if state is None else state.original,
        leader=track.led if state is None else state.leader,
        planned=len(track.planned.target),
        original=len(track.original),
    )


def _is_ours(track: Track, state: PartitionState) -> bool:
    return track.step is not None and step_outcome(track.step, state) is StepOutcome.FLYING


def _refused(preview: CancelPreview, reason: str, way_out: str) -> CancelPreview:
    return msgspec.structs.replace(preview, refused=reason, way_out=way_out)


def _settled(state: PartitionState) -> PartitionState:
    """Return a partition as Kafka leaves it after a cancel: without the replicas being added.

    If the leader was one of those, the first replica in sync leads, in the order of the replicas.
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
    observed: Observed,
    act: CancelEffect,
    state: PartitionState,
) -> CancelPreview:
    after, flying = _settled(state), state.reassigning
    turned = msgspec.structs.replace(track, cancel=kind)
    situation = observed.situation(turned, after)
    goes_to = find_goal(turned, after.replicas, after.isr, after.leader)
    goes_on = kind is not CancelKind.STOP and situation is not None
    lead = next(iter(goes_to.replicas), None) if goes_to.lead is None else goes_to.lead
    preview = CancelPreview(
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
        return _refused(preview, LAST_IN_SYNC, _LAST_IN_SYNC_OUT)
    following = next_step(situation, limits) if goes_on and situation else None
    if isinstance(following, Blocked):
        return _refused(preview, following.sentence_of(goal_text(kind)), _GOES_ON)
    return preview


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
