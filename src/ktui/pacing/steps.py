"""The next step of one partition, in either shape of KIP-435's algorithm."""

from __future__ import annotations

import msgspec

from ktui.pacing.limits import Limits, Shape
from ktui.pacing.shapes import (
    adding_others,
    all_at_once,
    blocked_reason,
    drop_intermediate,
    gentle,
    kip_435,
    reorder_and_elect,
    straight,
    whole,
)
from ktui.pacing.situation import DONE, Blocked, BlockReason, Next, Situation, Step


def next_step(now: Situation, limits: Limits) -> Next:
    """Return the next step, why there is none, or that it is done, by R, E and the shape."""
    if now.reassigning:
        return Blocked(BlockReason.REASSIGNING)
    if not now.replicas or not now.target:
        return Blocked(BlockReason.PARTITION_OFFLINE)
    if limits.shape is Shape.WHOLE and now.lead is None:
        return whole(now)
    return _guarded_step(now, limits)


def next_steps(now: Situation, limits: Limits) -> tuple[Step, ...]:
    """Return the steps of which a partition may take any one next, that of `next_step` first."""
    step = next_step(now, limits)
    return choices(now, step, limits) if isinstance(step, Step) else ()


def choices(now: Situation, step: Step, limits: Limits) -> tuple[Step, ...]:
    """Return a next step of a partition, and those that under B or W may replace it."""
    chooses = limits.by_receiver and limits.shape is Shape.GENTLE
    return adding_others(now, step) if chooses else (step,)


def _guarded_step(now: Situation, limits: Limits) -> Next:
    now = _with_final_leader_first(now)
    if now.replicas == now.target and now.leads:
        return DONE
    if now.leader is None or now.leader not in now.online or not now.isr:
        return _offline(now)
    if now.replicas == now.target:
        return reorder_and_elect(now) if now.can_lead else blocked_reason(now)
    if closed := now.closed_in(now.target):
        return Blocked(BlockReason.CORDONED, closed)
    step = _step_in_shape(now, limits)
    return straight(now) if isinstance(step, Step) and now.closed_in(step.target) else step


def _offline(now: Situation) -> Blocked:
    if now.leader is None and now.eligible_gone:
        return Blocked(BlockReason.ELIGIBLE_GONE, now.eligible_gone)
    return Blocked(BlockReason.PARTITION_OFFLINE)


def _with_final_leader_first(now: Situation) -> Situation:
    """Put the final leader first in the target until it leads: elections pick only the first."""
    if now.lead is None or now.leads:
        return now
    others = (broker for broker in now.target if broker != now.lead)
    return msgspec.structs.replace(now, target=(now.lead, *others))


def _step_in_shape(now: Situation, limits: Limits) -> Step | Blocked:
    if now.intermediate and (step := drop_intermediate(now)):
        return step
    if limits.replicas is None:
        return all_at_once(now)
    if limits.shape is Shape.KIP_435:
        return kip_435(now, limits.replicas)
    return gentle(now, limits.replicas, limits.extra_replicas)


def all_steps(now: Situation, limits: Limits) -> list[Step]:
    """Return all steps of a partition, for previews: as if all replicas were up and in sync."""
    now = _ideal(now)
    steps = []
    while isinstance(step := next_step(now, limits), Step):
        steps.append(step)
        now = after(now, step)
    return steps


def after(now: Situation, step: Step) -> Situation:
    """Return the situation once a step is over and all its replicas are in sync."""
    leader = now.leader if now.leader in step.target else step.target[0]
    return msgspec.structs.replace(
        now,
        replicas=step.target,
        isr=step.target,
        leader=leader if step.elects is None else step.elects,
    )


def _ideal(now: Situation) -> Situation:
    leader = now.leader if now.leader in now.replicas else next(iter(now.replicas), None)
    return msgspec.structs.replace(
        now,
        isr=now.replicas,
        leader=leader,
        online=frozenset((*now.replicas, *now.target)),
        reassigning=False,
    )
