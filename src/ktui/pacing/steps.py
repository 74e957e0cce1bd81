"""The next step of one partition, in either shape of KIP-435's algorithm."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ktui.cluster.partition import Brokers
from ktui.pacing.limits import Limits, Shape
from ktui.pacing.situation import DONE, At, Blocked, BlockReason, Next, Situation, Step

_GENTLE, _KIP_435, _WHOLE, _RECEIVER = Shape.GENTLE, Shape.KIP_435, Shape.WHOLE, At.RECEIVER.value
"""Bare, as steps are asked for often: to look a member up in its enum takes ten times as long."""


def in_order(now: Situation, adds: Brokers, drops: Brokers, *, first_leads: bool) -> Brokers:
    """Return the replicas of a step in order: CR + NR - DR (KIP-435), added ones last.

    From the step in which FTR's first replica becomes leader, FTR's members come first and in FTR's
    order: the cluster's preferred leader rebalancing would elect behind our back.
    """
    kept = (*[b for b in now.replicas if b not in drops], *adds)
    if not first_leads:
        return kept
    final = tuple(b for b in now.target if b in kept)
    return (*final, *(b for b in kept if b not in now.target))


def adds_below_min_isr(now: Situation, most: int) -> Brokers:
    """Return the replicas to add where too few are in sync, beyond R if need be (KIP-435)."""
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
    """Return the first replicas of ER (KIP-435), or of `among`, that the rules allow to drop.

    `adds_for` returns what the step adds when it drops so many. `first_leads`: FTR's first replica
    leads, or becomes leader in this step.
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
    """Whether enough replicas stay in sync, which no Kafka checks; others may always go."""
    if broker not in now.isr:
        return True
    return len({*now.isr} - {*drops} | {*adds}) >= now.min_isr


def keeps_redundancy(now: Situation, drops: Brokers, adds: Brokers) -> bool:
    """Whether drops are replaced, unless CR is longer than FTR; KIP-435 lets TR get shorter."""
    present = len(now.living)
    return present - len(drops) + len(adds) >= min(present, len(now.target))


def offline_replicas_awaited(now: Situation, adds: Brokers, drops: Brokers) -> Brokers:
    """Return the offline replicas whose return a step would wait for.

    Before Kafka 4.3, the controller waits for the whole target; since then only for what is added,
    unless that is less than is removed.
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
    """Build a step from added (NR) and dropped (DR) replicas; None if it would change nothing.

    Dead replicas are dropped with the first step that adds or drops: before Kafka 4.3, a step hangs
    on any offline replica that it keeps. They stay if dropping them would make a step of Kafka 4.3
    hang. `drops` has the dead that have to go now, `urgent` means too few are in sync.
    """
    dead = tuple([b for b in now.dead if b not in drops])
    beyond = max(0, len(now.replicas) - len(now.target))
    dropped = (*drops, *dead) if adds or drops else now.dead[:beyond]
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
        drops=tuple([b for b in now.replicas if b in dropped]),
        alters=alters,
        elects=now.first if elects else None,
        moves_leader=elects or now.leader in dropped,
        urgent=urgent,
    )


def blocked_reason(now: Situation) -> Blocked:
    """Return the reason why no rule yields a step: target brokers may be offline (KIP-435)."""
    if offline := tuple(b for b in now.target if b not in now.online):
        return Blocked(BlockReason.TARGET_OFFLINE, offline)
    if now.first in now.replicas and not now.leads and not now.can_lead:
        return Blocked(BlockReason.FIRST_NOT_IN_SYNC, (now.first,))
    return Blocked(BlockReason.BELOW_MIN_ISR, tuple(b for b in now.excess if b in now.isr))


RuleResult = Step | Blocked | None  # None: the rule does not apply


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
    """Return the one alter that asks Kafka for FTR, which elects where the leader leaves."""
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
    """Below min ISR, add as many as are lacking, even beyond R, and drop nothing (KIP-435)."""
    adds = adds_below_min_isr(now, most)
    if not adds:
        return None
    first = elects and now.first in adds
    final = elects and (first or now.leads)
    return step_or_blocked(now, adds, elects=first, final_order=final, urgent=True)


def leader_first(now: Situation) -> RuleResult:
    """Elect FTR's first replica before all else, to unload the leader; add it first (KIP-435)."""
    if now.first in now.missing:
        return step_or_blocked(now, (now.first,), elects=True, final_order=True)
    if now.can_lead and not now.leads:
        return reorder_and_elect(now)
    return None


def reorder_and_elect(now: Situation) -> Step:
    """Put FTR's first replica first and elect it: a leader movement, no replica movement."""
    target = (*(b for b in now.target if b in now.replicas), *now.excess)
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
    dropped replicas"; "the last step is always equals to FTR" (KIP-435).
    """
    missing, present = now.missing, len(now.living)

    def adds_for(dropped: int) -> Brokers:
        room = len(now.target) - (present - dropped)
        return missing[: max(0, min(most, room))]

    drops = safe_drops(now, most, adds_for, first_leads=now.leads)
    return step_or_blocked(now, adds_for(len(drops)), drops, final_order=now.leads)


def gentle(now: Situation, most: int, extra: int | None) -> Step | Blocked:
    """Return the next step that adds, R at a time and up to E beyond FTR, or the final cut."""
    step = enough_in_sync(now, most, elects=False)
    if step is None and (missing := now.missing):
        step = add_some(now, missing, most, extra) or make_room(now) or blocked_reason(now)
    return step or cut(now)


def add_some(now: Situation, missing: Brokers, most: int, extra: int | None) -> RuleResult:
    """Append the first `most` missing replicas, as far as there is room.

    "Bring one replica online, bring it in-sync" (KIP-435). An alter that only adds begins no
    leader epoch.
    """
    room = most if extra is None else len(now.target) + extra - len(now.living)
    adds = missing[: max(0, min(most, room))]
    return step_or_blocked(now, adds) if adds else None


def adding_others(now: Situation, step: Step) -> tuple[Step, ...]:
    """Return a gentle step, and others that begin at another missing replica; a cut sorts all."""
    count, missing = len(step.adds), now.missing
    if step.urgent or step.moves_leader or not 0 < count < len(missing):
        return (step,)
    around = missing * 2
    return (step, *(_adding(around[n : n + count], step) for n in range(1, len(missing))))


def _adding(adds: Brokers, step: Step) -> Step:
    instead = dict(zip(step.adds, adds, strict=True))
    target = tuple(instead.get(broker, broker) for broker in step.target)
    return msgspec.structs.replace(step, target=target, adds=adds)


def drop_intermediate(now: Situation) -> Step | None:
    """Drop replicas that only an abandoned target wanted (KIP-236's drop set), if that is safe.

    Otherwise one "will remain in the assigned replicas until" the new ones are in sync, "wasting
    network bandwidth and CPU". Where too few are in sync, adding comes first.
    """
    candidates = tuple(b for b in now.excess if b in now.intermediate and b not in now.dead)
    if not candidates or adds_below_min_isr(now, 1):
        return None
    drops = safe_drops(now, len(candidates), lambda _: (), first_leads=False, among=candidates)
    step = step_or_blocked(now, drops=drops, final_order=now.leads) if drops else None
    return step if isinstance(step, Step) else None


def straight(now: Situation) -> Step | Blocked:
    """Return the step that drops the closed brokers, where every target has to leave them out.

    It goes in every shape instead of the step that would name them, and adds what replaces them,
    first the target's first replica where it drops the leader. Kafka 4.4 ends a step once the added
    are in sync, whatever the kept are: so either must be enough for producers alone.
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

    It completes inside the call and begins one leader epoch. If the old leader goes, FTR's first
    replica leads; if it stays, that replica is elected.
    """
    if offline := tuple([b for b in now.target if b not in now.online]):
        return Blocked(BlockReason.TARGET_OFFLINE, offline)
    if behind := tuple([b for b in now.target if not now.in_sync(b)]):
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


def next_step(now: Situation, limits: Limits) -> Next:
    """Return the next step, why there is none, or that it is done, by R, E and the shape."""
    if now.reassigning:
        return Blocked(BlockReason.REASSIGNING)
    if not now.replicas or not now.target:
        return Blocked(BlockReason.PARTITION_OFFLINE)
    if limits.shape is _WHOLE and now.lead is None:
        return whole(now)
    return _guarded_step(now, limits)


def next_steps(now: Situation, limits: Limits) -> tuple[Step, ...]:
    """Return the steps of which a partition may take any one next, that of `next_step` first."""
    step = next_step(now, limits)
    return choices(now, step, limits) if isinstance(step, Step) else ()


def choices(now: Situation, step: Step, limits: Limits) -> tuple[Step, ...]:
    """Return a next step of a partition, and those that under B or W may replace it."""
    chooses = limits.shape is _GENTLE and limits.counts_at[_RECEIVER]
    return adding_others(now, step) if chooses else (step,)


def _guarded_step(now: Situation, limits: Limits) -> Next:
    if now.lead is not None and not now.leads:
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
    others = (broker for broker in now.target if broker != now.first)
    return msgspec.structs.replace(now, target=(now.first, *others))


def _step_in_shape(now: Situation, limits: Limits) -> Step | Blocked:
    if now.intermediate and (step := drop_intermediate(now)):
        return step
    if limits.replicas is None:
        return all_at_once(now)
    if limits.shape is _KIP_435:
        return kip_435(now, limits.replicas)
    return gentle(now, limits.replicas, limits.extra_replicas)


def all_steps(now: Situation, limits: Limits) -> list[Step]:
    """Return all steps of a partition, for previews: as if all replicas were up and in sync."""
    now = ideal(now)
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


def ideal(now: Situation) -> Situation:
    """Return a partition with all replicas up and in sync, and one of them leading."""
    leader = now.leader if now.leader in now.replicas else next(iter(now.replicas), None)
    return msgspec.structs.replace(
        now,
        isr=now.replicas,
        leader=leader,
        online=frozenset((*now.replicas, *now.target)),
        reassigning=False,
    )
