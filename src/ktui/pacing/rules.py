"""The rules of every step: safe drops, the order of replicas, and steps that would hang."""

from __future__ import annotations

from collections.abc import Callable

from ktui.cluster.partition import Brokers
from ktui.pacing.situation import Blocked, BlockReason, Situation, Step


def in_order(now: Situation, adds: Brokers, drops: Brokers, *, first_leads: bool) -> Brokers:
    """Return the replicas of a step in order.

    The order is CR + NR - DR (KIP-435), with added replicas appended. This holds until the step in
    which FTR's first replica becomes leader. Otherwise the cluster's own preferred leader
    rebalancing would elect behind our back. From then on FTR's members come in FTR's order, and the
    rest after them.
    """
    kept = (*(b for b in now.replicas if b not in drops), *adds)
    if not first_leads:
        return kept
    final = tuple(b for b in now.target if b in kept)
    return (*final, *(b for b in kept if b not in now.target))


def adds_below_min_isr(now: Situation, most: int) -> Brokers:
    """Return the replicas to add where too few are in sync, in FTR's order.

    "In the first step we add that many replicas that is enough to fulfil the min.insync.replicas
    requirement, even if it exceeds the limit on parallel replica reassignments" (KIP-435).
    """
    lacking = now.min_isr - len(now.isr)
    return now.missing[: max(most, lacking)] if lacking > 0 else ()


def safe_drops(
    now: Situation,
    most: int,
    adds_for: Callable[[int], Brokers],
    *,
    first_leads: bool,
    among: Brokers | None = None,
) -> Brokers:
    """Return the first replicas of ER (KIP-435) that the rules allow to drop.

    Args:
        now: the partition.
        most: the most replicas to drop.
        adds_for: returns the replicas that the step adds when it drops that many.
        first_leads: whether FTR's first replica leads, or becomes leader in this step.
        among: the candidates, a part of ER; None for all of ER.
    """
    drops: Brokers = ()
    dead = now.dead
    for broker in now.excess if among is None else among:
        if broker in dead:
            continue
        if len(drops) == most:
            break
        candidate = (*drops, broker)
        adds = adds_for(len(candidate))
        if (
            (first_leads or broker != now.leader)
            and keeps_min_isr(now, broker, candidate, adds)
            and keeps_redundancy(now, candidate, adds)
        ):
            drops = candidate
    return drops


def keeps_min_isr(now: Situation, broker: int, drops: Brokers, adds: Brokers) -> bool:
    """Whether enough replicas stay in sync: no version of Kafka checks that on a drop.

    A replica that is out of sync may always be dropped.
    """
    if broker not in now.isr:
        return True
    return len({*now.isr} - {*drops} | {*adds}) >= now.min_isr


def keeps_redundancy(now: Situation, drops: Brokers, adds: Brokers) -> bool:
    """Whether every drop is replaced, unless CR is longer than FTR.

    KIP-435 drops even if TR gets shorter than FTR. This rule waits instead: a target that is down
    must not cost a replica.
    """
    present = len(now.living)
    return present - len(drops) + len(adds) >= min(present, len(now.target))


def offline_replicas_awaited(now: Situation, adds: Brokers, drops: Brokers) -> Brokers:
    """Return the offline replicas whose return a step would wait for.

    Before Kafka 4.3, the controller waits for every replica of the target. From 4.3, it waits only
    for those it adds, unless it adds fewer than it removes.
    """
    if not adds and not drops:
        return ()
    if not now.waits_for_kept and len(adds) >= len(drops):
        return ()
    return tuple(b for b in now.replicas if b not in drops and b not in now.online)


def step_or_blocked(
    now: Situation,
    adds: Brokers = (),
    drops: Brokers = (),
    *,
    elects: bool = False,
    final_order: bool = False,
    urgent: bool = False,
) -> Step | Blocked | None:
    """Build a step from added and dropped replicas; return None if it would change nothing.

    Dead replicas are dropped with the first step that adds or drops. Before Kafka 4.3, a step hangs
    on any offline replica that it keeps. If dropping the dead would itself make a step of Kafka 4.3
    hang, they stay.

    Args:
        now: the partition.
        adds: replicas to add (NR).
        drops: replicas to drop (DR); of the dead, those that have to go with this step.
        elects: whether to elect FTR's first replica afterwards.
        final_order: whether FTR's members are in FTR's order.
        urgent: whether the step adds because too few are in sync.
    """
    dead = tuple(b for b in now.dead if b not in drops)
    dropped = (*drops, *dead) if adds or drops else _dead_alone(now)
    hangs_on = offline_replicas_awaited(now, adds, dropped)
    if hangs_on and not offline_replicas_awaited(now, adds, drops):
        hangs_on, dropped = (), drops
    if hangs_on:
        return Blocked(BlockReason.KEPT_OFFLINE, hangs_on)
    target = in_order(now, adds, dropped, first_leads=final_order)
    alters = target != now.replicas
    if not alters and not elects:
        return None
    return Step(
        target=target,
        adds=adds,
        drops=tuple(b for b in now.replicas if b in dropped),
        alters=alters,
        elects=now.first if elects else None,
        moves_leader=elects or now.leader in dropped,
        urgent=urgent,
    )


def _dead_alone(now: Situation) -> Brokers:
    """The dead that a step may drop alone: those beyond the final number."""
    return now.dead[: max(0, len(now.replicas) - len(now.target))]


def blocked_reason(now: Situation) -> Blocked:
    """Return the reason why no rule yields a step.

    "The calculation would result in identical steps if it's not able to add new replicas to the
    TR set. This could be because target brokers might be offline" (KIP-435).
    """
    if offline := tuple(b for b in now.target if b not in now.online):
        return Blocked(BlockReason.TARGET_OFFLINE, offline)
    if now.first in now.replicas and not now.leads and not now.can_lead:
        return Blocked(BlockReason.FIRST_NOT_IN_SYNC, (now.first,))
    return Blocked(BlockReason.BELOW_MIN_ISR, tuple(b for b in now.excess if b in now.isr))
