"""The shapes in which a partition's way is cut into steps: one function a rule."""

from __future__ import annotations

from ktui.cluster.partition import Brokers
from ktui.pacing.rules import (
    adds_below_min_isr,
    blocked,
    safe_drops,
    step_or_blocked,
)
from ktui.pacing.situation import Blocked, Situation, Step, Why

RuleResult = Step | Blocked | None
"""None: the rule has nothing to say here."""


def all_at_once(now: Situation) -> Step | Blocked:
    """No limit on replicas: TR = FTR in one step, as far as drops are safe.

    "We practically default to the current behaviour" (KIP-435), but for what `start` promises:
    nothing falls below min ISR, nothing is dropped unreplaced, and FTR's first replica leads.
    """
    first_leads = now.leads or now.can_lead or now.first in now.missing
    adds = now.missing
    drops = safe_drops(now, len(now.excess), lambda _: adds, first_leads=first_leads)
    elects = first_leads and not now.leads
    given = step_or_blocked(now, adds, drops, elects=elects, final_order=first_leads)
    return given or blocked(now)


def kip_435(now: Situation, most: int) -> Step | Blocked:
    """Give the next step of KIP-435's shape, `most` replicas (R) at a time."""
    given = enough_in_sync(now, most, elects=True) or leader_first(now) or replace_some(now, most)
    return given or blocked(now)


def enough_in_sync(now: Situation, most: int, *, elects: bool) -> RuleResult:
    """Below min ISR: add as many as are lacking, even beyond `most`, and drop nothing (KIP-435).

    Args:
        now: the partition.
        most: R.
        elects: whether FTR's first replica is elected if it is among the added: KIP-435's shape.
    """
    adds = adds_below_min_isr(now, most)
    if not adds:
        return None
    first = elects and now.first in adds
    final = elects and (first or now.leads)
    return step_or_blocked(now, adds, elects=first, final_order=final, urgent=True)


def leader_first(now: Situation) -> RuleResult:
    """Elect FTR's first replica before anything else, adding it first if need be.

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
    """Drop the first `most` of ER and add as many as FTR leaves room for.

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
    """Give the next step that adds, `most` (R) at a time, or the cut that ends it.

    Args:
        now: the partition.
        most: R.
        extra: E, how many replicas beyond FTR's number it may hold after a step.
    """
    given = enough_in_sync(now, most, elects=False)
    if given is None and now.missing:
        given = add_some(now, most, extra) or make_room(now) or blocked(now)
    return given or cut(now)


def add_some(now: Situation, most: int, extra: int | None) -> RuleResult:
    """Append the first `most` of the missing, as far as there is room: an alter that only adds.

    "Bring one replica online, bring it in-sync" (KIP-435). It begins no leader epoch.
    """
    room = most if extra is None else len(now.target) + extra - len(now.living)
    adds = now.missing[: max(0, min(most, room))]
    return step_or_blocked(now, adds) if adds else None


def drop_intermediate(now: Situation) -> Step | None:
    """Drop what only a target wanted that was given up on the way (KIP-236's drop set).

    Without this, an intermediate replica "will remain in the assigned replicas until" the new ones
    are in sync, "wasting network bandwidth and CPU". The rules of safe drops hold, and where too
    few are in sync, adding comes first.
    """
    going = tuple(b for b in now.excess if b in now.intermediate and b not in now.dead)
    if not going or adds_below_min_isr(now, 1):
        return None
    drops = safe_drops(now, len(going), lambda _: (), first_leads=False, among=going)
    step = step_or_blocked(now, drops=drops, final_order=now.leads) if drops else None
    return step if isinstance(step, Step) else None


def make_room(now: Situation) -> RuleResult:
    """Drop what is beyond FTR's number, adding nothing: "then remove one of the old replicas"."""
    beyond = len(now.living) - len(now.target)
    drops = safe_drops(now, beyond, lambda _: (), first_leads=now.leads)
    return step_or_blocked(now, drops=drops) if drops else None


def cut(now: Situation) -> Step | Blocked:
    """Ask for FTR once all of it is in sync: an alter that only removes, or reorders.

    It completes inside the call and begins one leader epoch. If the old leader leaves, the lead
    goes with it to FTR's first replica; if it stays, that one is elected.
    """
    if offline := tuple(b for b in now.target if b not in now.online):
        return Blocked(Why.TARGET_OFFLINE, offline)
    if behind := tuple(b for b in now.target if not now.in_sync(b)):
        return Blocked(Why.TARGET_NOT_IN_SYNC, behind)
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
