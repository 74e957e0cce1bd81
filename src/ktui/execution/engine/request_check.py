"""Checks of a request against a read made for it: what no longer holds is not sent."""

from __future__ import annotations

from ktui.cluster.partition import PartitionState
from ktui.execution.engine.observed import Observed, StepOutcome, step_outcome
from ktui.execution.run.events import Request
from ktui.execution.run.track import OpenStep, Track
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Step
from ktui.pacing.steps import next_step

LAST_IN_SYNC = "it is not cancelled: without what is being added no replica would be in sync"
"""With unclean leader election enabled such a cancel succeeds, and loses acknowledged data."""


def why_not_sent(request: Request, track: Track, observed: Observed, limits: Limits) -> str | None:
    """Return why an alter or election of a partition's step may not leave; None if it may.

    An alter leaves only if the same step follows from the read. Nobody may be moving the partition,
    and its topic must be the same. Its replicas, ISR and leader must call for no other step.

    Args:
        request: the request that is about to be sent.
        track: the partition; its step is in the journal.
        observed: a read made for this request.
        limits: the limits in force.
    """
    step, state = track.step, observed.state(track.tp)
    if step is None:
        return "its step is over"
    if gone := observed.gone(track):
        return gone
    if state is None:
        return observed.hidden(track.tp.topic)
    if state.reassigning:
        return "it is being reassigned"
    if request is Request.ELECT:
        return _why_not_elected(step, state)
    return _why_not_altered(track, step, state, observed, limits)


def may_cancel(track: Track, observed: Observed) -> bool:
    """Whether a null cancel of a partition's step may leave, by a read made for the cancel.

    Kafka has to list that very step: a reassignment of somebody else is left to them. Also, a
    replica that is not being added has to be in sync: see `LAST_IN_SYNC`.
    """
    state = observed.state(track.tp)
    if track.step is None or state is None or observed.gone(track):
        return False
    return step_outcome(track.step, state) is StepOutcome.IN_FLIGHT and keeps_data(state)


def keeps_data(state: PartitionState) -> bool:
    """Whether a replica in sync remains once those being added are dropped."""
    return bool(set(state.isr) - set(state.adding))


def _why_not_altered(
    track: Track, step: OpenStep, state: PartitionState, observed: Observed, limits: Limits
) -> str | None:
    situation = observed.situation(track, state)
    if situation is None:
        return "the settings of its topic are not known"
    begun, now = step.begun, next_step(situation, limits)
    if isinstance(now, Step) and now.alters and now.target == begun.replicas:
        same = (now.adds, now.drops, now.elects) == (begun.adding, begun.removing, begun.elect)
        if same and state.replicas == begun.before:
            return None
    return "its replicas, ISR, leader or settings have changed since the last poll"


def _why_not_elected(step: OpenStep, state: PartitionState) -> str | None:
    leader = step.begun.elect
    if leader is not None and state.replicas[:1] == (leader,):
        return None
    return f"broker {leader} is not its preferred leader"
