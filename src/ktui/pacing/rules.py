"""The rules that every step keeps: what may be dropped, in which order, and what would hang."""

from __future__ import annotations

from collections.abc import Callable

from ktui.cluster.partition import Brokers
from ktui.pacing.situation import Blocked, Situation, Step, Why


def in_order(now: Situation, adds: Brokers, drops: Brokers, *, first_leads: bool) -> Brokers:
    """Put the replicas of a step in order.

    CR + NR - DR (KIP-435), the added appended, until the step in which FTR's first replica comes
    to lead: else the cluster's own preferred leader rebalancing would elect behind our back. From
    then on FTR's members as FTR has them, and the rest after them.
    """
    kept = (*(b for b in now.replicas if b not in drops), *adds)
    if not first_leads:
        return kept
    final = tuple(b for b in now.target if b in kept)
    return (*final, *(b for b in kept if b not in now.target))


def adds_below_min_isr(now: Situation, most: int) -> Brokers:
    """Give what to add where too few are in sync, in FTR's order.

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
    """Take the first of ER (KIP-435) that the rules let go.

    Args:
        now: the partition.
        most: how many at most.
        adds_for: what the step adds when it drops so many.
        first_leads: whether FTR's first replica leads, or comes to in this step.
        among: of which of ER; None for all.
    """
    drops: Brokers = ()
    dead = now.dead
    for broker in now.excess if among is None else among:
        if broker in dead:
            continue
        if len(drops) == most:
            break
        wished = (*drops, broker)
        adds = adds_for(len(wished))
        if (
            (first_leads or broker != now.leader)
            and keeps_min_isr(now, broker, wished, adds)
            and keeps_redundancy(now, wished, adds)
        ):
            drops = wished
    return drops


def keeps_min_isr(now: Situation, broker: int, drops: Brokers, adds: Brokers) -> bool:
    """Whether enough stay in sync: no version of Kafka looks when it drops.

    One that is out of sync may always go.
    """
    if broker not in now.isr:
        return True
    return len({*now.isr} - {*drops} | {*adds}) >= now.min_isr


def keeps_redundancy(now: Situation, drops: Brokers, adds: Brokers) -> bool:
    """Whether nothing is dropped unreplaced, unless CR is longer than FTR.

    KIP-435 drops even where TR gets shorter than FTR; a target that is down must not cost a
    replica, so this waits.
    """
    present = len(now.living)
    return present - len(drops) + len(adds) >= min(present, len(now.target))


def waits_in_vain(now: Situation, adds: Brokers, drops: Brokers) -> Brokers:
    """Give the offline replicas whose return a step would wait for.

    Before 4.3 the controller waits for every replica of the target, from 4.3 only for those it
    adds, unless it adds fewer than it removes.
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
    """Make a step of what is added and dropped; None if it would change nothing.

    The dead go with the first step that adds or drops, for before 4.3 a kept offline replica
    hangs it; where that very drop would make a step of 4.3 hang, they stay.

    Args:
        now: the partition.
        adds: what is added (NR).
        drops: what is dropped (DR), but the dead.
        elects: whether FTR's first replica is to be elected afterwards.
        final_order: whether FTR's members stand as FTR has them.
        urgent: whether it adds because too few are in sync.
    """
    gone = (*drops, *now.dead) if adds or drops else _dead_alone(now)
    waiting = waits_in_vain(now, adds, gone)
    if waiting and not waits_in_vain(now, adds, drops):
        waiting, gone = (), drops
    if waiting:
        return Blocked(Why.KEPT_OFFLINE, waiting)
    target = in_order(now, adds, gone, first_leads=final_order)
    alters = target != now.replicas
    if not alters and not elects:
        return None
    return Step(
        target=target,
        adds=adds,
        drops=tuple(b for b in now.replicas if b in gone),
        alters=alters,
        elects=now.first if elects else None,
        moves_leader=elects or now.leader in gone,
        urgent=urgent,
    )


def _dead_alone(now: Situation) -> Brokers:
    """Give the dead that a step of their own may drop: those beyond the final number."""
    return now.dead[: max(0, len(now.replicas) - len(now.target))]


def blocked(now: Situation) -> Blocked:
    """Say why no rule gives a step.

    "The calculation would result in identical steps if it's not able to add new replicas to the
    TR set. This could be because target brokers might be offline" (KIP-435).
    """
    if offline := tuple(b for b in now.target if b not in now.online):
        return Blocked(Why.TARGET_OFFLINE, offline)
    if now.first in now.replicas and not now.leads and not now.can_lead:
        return Blocked(Why.FIRST_NOT_IN_SYNC, (now.first,))
    return Blocked(Why.BELOW_MIN_ISR, tuple(b for b in now.excess if b in now.isr))
