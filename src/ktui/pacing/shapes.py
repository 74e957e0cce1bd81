"""The shapes in which a partition's reassignment is cut into steps; one function per rule."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import Brokers
from ktui.pacing.rules import (
    adds_below_min_isr,
    blocked_reason,
    keeps_redundancy,
    safe_drops,
    step_or_blocked,
)
from ktui.pacing.situation import DONE, Blocked, BlockReason, Next, Situation, Step

RuleResult = Step | Blocked | None
"""None: the rule does not apply."""


def all_at_once(now: Situation) -> Step | Blocked:
    """Return the one step without a limit on replicas: TR = FTR, as far as drops are safe.

    "We practically default to the current behaviour" (KIP-435), except for the promises of `start`:
    no partition falls below min ISR, every drop is replaced, and FTR's first replica leads.
    """
    first_leads = now.leads or now.can_lead or now.first in now.missing
    adds = now.missing
    drops = safe_drops(now, len(now.excess), lambda _: adds, first_leads=first_leads)
    elects = first_leads and not now.leads
    step = step_or_blocked(now, adds, drops, elects=elects, final_order=first_leads)
    return step or blocked_reason(now)


def whole(now: Situation) -> Next:
    """Return the one alter that asks Kafka for FTR, whatever it does to min ISR or the leader.

    Kafka itself elects where the present leader is not a replica any more.
    """
    if now.replicas == now.target:
        return DONE
    if closed := now.closed_in(now.target):
        return Blocked(BlockReason.CORDONED, closed)
    if offline := tuple(b for b in now.target if b not in now.replicas and b not in now.online):
        return Blocked(BlockReason.TARGET_OFFLINE, offline)
    return Step(
        target=now.target,
        adds=tuple(b for b in now.target if b not in now.replicas),
        drops=now.excess,
        alters=True,
        moves_leader=now.leader not in now.target,
    )


def kip_435(now: Situation, most: int) -> Step | Blocked:
    """Return the next step of KIP-435's shape, `most` replicas (R) at a time."""
    step = enough_in_sync(now, most, elects=True) or leader_first(now) or replace_some(now, most)
    return step or blocked_reason(now)


def enough_in_sync(now: Situation, most: int, *, elects: bool) -> RuleResult:
    """Below min ISR, add as many as are lacking, even beyond `most`, and drop nothing (KIP-435).

    Args:
        now: the partition.
        most: R.
        elects: whether to elect FTR's first replica if this step adds it, as KIP-435's shape does.
    """
    adds = adds_below_min_isr(now, most)
    if not adds:
        return None
    first = elects and now.first in adds
    final = elects and (first or now.leads)
    return step_or_blocked(now, adds, elects=first, final_order=final, urgent=True)


def leader_first(now: Situation) -> RuleResult:
    """Elect FTR's first replica before anything else, adding it first if necessary.

    "In the first step we'll elect the new preferred leader (if the reassignment requires it) to
    unload pressure from the current leader"; "if the preferred leader is different in FTR and it
    is not yet reassigned, then add it to the NR" (KIP-435).
    """
    if now.first in now.missing:
        return step_or_blocked(now, (now.first,), elects=True, final_order=True)
    if now.can_lead and not now.leads:
        return reorder_and_elect(now)
    return None


def reorder_and_elect(now: Situation) -> Step:
    """Put FTR's first replica first and elect it: a leader movement, no replica movement."""
    target = (
        *(b for b in now.target if b in now.replicas),
        *now.excess,
    )
    return Step(
        target=target,
        adds=(),
        drops=(),
        alters=target != now.replicas,
        elects=now.first,
        moves_leader=True,
    )


def replace_some(now: Situation, most: int) -> RuleResult:
    """Drop the first `most` replicas of ER, and add as many as FTR has room for.

    "Take the first reassignment.parallel.replica.count replicas of ER, that will be the set of
    dropped replicas"; "take as many replica as reassignment.parallel.replica.count allows";
    "create the target replica (TR) set: CR + NR - DR"; "the last step is always equals to FTR"
    (KIP-435).
    """
    missing, present = now.missing, len(now.living)

    def adds_for(dropped: int) -> Brokers:
        room = len(now.target) - (present - dropped)
        return missing[: max(0, min(most, room))]

    drops = safe_drops(now, most, adds_for, first_leads=now.leads)
    return step_or_blocked(now, adds_for(len(drops)), drops, final_order=now.leads)


def gentle(now: Situation, most: int, extra: int | None) -> Step | Blocked:
    """Return the next step that adds, `most` (R) replicas at a time, or the final cut.

    Args:
        now: the partition.
        most: R.
        extra: E, the replicas beyond FTR's number that the partition may hold after a step.
    """
    step = enough_in_sync(now, most, elects=False)
    if step is None and now.missing:
        step = add_some(now, most, extra) or make_room(now) or blocked_reason(now)
    return step or cut(now)


def add_some(now: Situation, most: int, extra: int | None) -> RuleResult:
    """Append the first `most` missing replicas, as far as there is room.

    "Bring one replica online, bring it in-sync" (KIP-435). An alter that only adds begins no leader
    epoch.
    """
    room = most if extra is None else len(now.target) + extra - len(now.living)
    adds = now.missing[: max(0, min(most, room))]
    return step_or_blocked(now, adds) if adds else None


def adding_others(now: Situation, step: Step) -> tuple[Step, ...]:
    """Return a step of shape gentle, and the same that begins at another missing replica.

    Which ones come first is free, because the cut puts all of them in the target's order.
    """
    count, missing = len(step.adds), now.missing
    if step.urgent or step.moves_leader or not 0 < count < len(missing):
        return (step,)
    around = missing * 2
    return (step, *(_adding(around[n : n + count], step) for n in range(1, len(missing))))


def _adding(adds: Brokers, step: Step) -> Step:
    """Return the step with other adds in the places of its own."""
    instead = dict(zip(step.adds, adds, strict=True))
    target = tuple(instead.get(broker, broker) for broker in step.target)
    return msgspec.structs.replace(step, target=target, adds=adds)


def drop_intermediate(now: Situation) -> Step | None:
    """Drop replicas that only an abandoned target wanted (KIP-236's drop set).

    Without this step, an intermediate replica "will remain in the assigned replicas until" the new
    ones are in sync, "wasting network bandwidth and CPU". The rules of safe drops hold. Where too
    few replicas are in sync, adding comes first.
    """
    candidates = tuple(b for b in now.excess if b in now.intermediate and b not in now.dead)
    if not candidates or adds_below_min_isr(now, 1):
        return None
    drops = safe_drops(now, len(candidates), lambda _: (), first_leads=False, among=candidates)
    step = step_or_blocked(now, drops=drops, final_order=now.leads) if drops else None
    return step if isinstance(step, Step) else None


def straight(now: Situation) -> Step | Blocked:
    """Return the step that drops the closed brokers, where every target has to leave them out.

    It goes in every shape in place of the step that would name them. It adds what replaces them,
    the target's first replica before others where it drops the leader. As Kafka 4.4 ends a step
    once the added are in sync, whatever the kept are by then, either those kept in sync or those
    added have to be enough for producers by themselves.
    """
    closed, surplus = now.closed_in(now.replicas), len(now.living) - len(now.target)
    drops_leader = now.leader in closed
    kept_in_sync = len({*now.isr} - now.closed)
    too_few = kept_in_sync < now.min_isr
    most = max(
        len(now.closed_in(now.living)) - max(0, surplus),
        now.min_isr if too_few else 0,
        drops_leader and now.first in now.missing,
    )
    adds = now.missing[:most]
    if too_few and len(adds) < now.min_isr and kept_in_sync < len(now.isr):
        return Blocked(BlockReason.CORDONED_IN_SYNC, closed)
    leads = now.leads or (drops_leader and (now.can_lead or now.first in adds))
    if not keeps_redundancy(now, now.closed_in(now.living), adds) or (drops_leader and not leads):
        return blocked_reason(now)
    urgent = bool(adds) and len(now.isr) < now.min_isr
    step = step_or_blocked(now, adds, closed, final_order=leads, urgent=urgent)
    return step or blocked_reason(now)


def make_room(now: Situation) -> RuleResult:
    """Drop replicas beyond FTR's number and add none: "then remove one of the old replicas"."""
    beyond = len(now.living) - len(now.target)
    drops = safe_drops(now, beyond, lambda _: (), first_leads=now.leads)
    return step_or_blocked(now, drops=drops) if drops else None


def cut(now: Situation) -> Step | Blocked:
    """Alter to FTR once all of FTR is in sync: this only removes or reorders replicas.

    The alter completes inside the call and begins one leader epoch. If it drops the old leader,
    leadership goes to FTR's first replica. If the old leader stays, that replica is elected.
    """
    if offline := tuple(b for b in now.target if b not in now.online):
        return Blocked(BlockReason.TARGET_OFFLINE, offline)
    if behind := tuple(b for b in now.target if not now.in_sync(b)):
        return Blocked(BlockReason.TARGET_NOT_IN_SYNC, behind)
    stays = now.leader in now.target
    return Step(
        target=now.target,
        adds=(),
        drops=now.excess,
        alters=True,
        elects=now.first if stays and not now.leads else None,
        moves_leader=not now.leads,
        cut=True,
    )
