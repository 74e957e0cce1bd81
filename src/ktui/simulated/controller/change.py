"""Decide a partition's next record from a requested change.

The rules of KRaft's PartitionChangeBuilder: completing a reassignment, electing a leader, keeping
the eligible leader replicas (KIP-966), and starting epochs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import msgspec

from ktui.cluster.partition import Brokers
from ktui.simulated.controller.records import Registration
from ktui.simulated.controller.rules import VersionRules


class Election(enum.Enum):
    """The rule by which a leader is chosen."""

    ONLINE = enum.auto()
    """The leader stays if it can; otherwise the first replica that may lead."""
    PREFERRED = enum.auto()
    """The first replica if it may lead; otherwise as ONLINE."""
    UNCLEAN = enum.auto()
    """As ONLINE; failing that, the first replica that is alive, whatever data it lacks."""


class RequestedChange(msgspec.Struct, frozen=True, gc=False):
    """The change requested of one partition; None leaves a field as it is."""

    isr: Brokers | None = None
    replicas: Brokers | None = None
    adding: Brokers | None = None
    removing: Brokers | None = None
    election: Election = Election.ONLINE
    unclean_shutdown: int | None = None
    """A broker that came back after an unclean shutdown and may have lost data."""
    failed: int | None = None
    """A broker whose log dir with the replica has failed."""


class DecisionContext(msgspec.Struct, frozen=True):
    """The inputs to a decision about a partition besides its record."""

    rules: VersionRules
    min_isr: int
    """min.insync.replicas, at most the topic's replication factor."""
    may_lead: Callable[[int], bool]
    """Whether a broker may lead at all: registered, unfenced and not shutting down."""


def decide(
    before: Registration, wish: RequestedChange, context: DecisionContext
) -> Registration | None:
    """Return the partition's next record; None if nothing changes."""
    assignment = _completed(_assignment(before, wish), context.rules)
    offline = _offline(before, wish, assignment)
    context = _except(offline, context)
    elr = _eligible(before, wish, assignment.isr, context)
    leader, isr, elr, elected = _with_leader(before, wish.election, assignment, elr, context)
    removed = not set(before.replicas) <= set(assignment.replicas)
    after = Registration(
        replicas=assignment.replicas,
        isr=isr,
        leader=leader,
        leader_epoch=before.leader_epoch + (elected or removed),
        partition_epoch=before.partition_epoch,
        adding=assignment.adding,
        removing=assignment.removing,
        elr=elr,
        last_known_leader=_last_known(before, leader, context),
        offline=offline,
    )
    if after == before:
        return None
    return msgspec.structs.replace(after, partition_epoch=before.partition_epoch + 1)


def _except(offline: Brokers, context: DecisionContext) -> DecisionContext:
    """Let no replica lead whose log dir has failed."""
    if not offline:
        return context
    may_lead = context.may_lead
    return msgspec.structs.replace(
        context, may_lead=lambda broker: broker not in offline and may_lead(broker)
    )


class _Assignment(msgspec.Struct, frozen=True, gc=False):
    replicas: Brokers
    isr: Brokers
    adding: Brokers
    removing: Brokers


def _assignment(before: Registration, wish: RequestedChange) -> _Assignment:
    return _Assignment(
        before.replicas if wish.replicas is None else wish.replicas,
        before.isr if wish.isr is None else wish.isr,
        before.adding if wish.adding is None else wish.adding,
        before.removing if wish.removing is None else wish.removing,
    )


def _completed(now: _Assignment, rules: VersionRules) -> _Assignment:
    """Complete the reassignment if the replicas it waits for are in the ISR.

    No version checks min.insync.replicas here.
    """
    if not (now.adding or now.removing):
        return now
    isr = tuple(b for b in now.isr if b not in now.removing)
    replicas = tuple(b for b in now.replicas if b not in now.removing)
    if now.removing and not (isr and replicas):
        return now
    if not _awaited(now, replicas, rules) <= set(isr):
        return now
    return _Assignment(replicas, isr, (), ())


def _awaited(now: _Assignment, target: Brokers, rules: VersionRules) -> set[int]:
    """Return the replicas that must be in the ISR before the reassignment completes.

    From 4.3 on this includes an adding replica that is also being removed, and never gets there.
    """
    if not rules.completes_without_kept:
        return set(target)
    shrinks = len(now.adding) < len(now.removing)
    return {*now.adding, *target} if shrinks else set(now.adding)


def _offline(before: Registration, wish: RequestedChange, now: _Assignment) -> Brokers:
    """Return the replicas whose log dir has failed, of those that are still assigned."""
    if wish.failed is None and not before.offline:
        return ()
    return tuple(b for b in now.replicas if b in before.offline or b == wish.failed)


def _eligible(
    before: Registration, wish: RequestedChange, isr: Brokers, context: DecisionContext
) -> Brokers:
    """Return the ELR of an ISR: the replicas in sync since the ISR fell below the minimum."""
    if not context.rules.eligible_leader_replicas or len(isr) >= context.min_isr:
        return ()
    known = {*before.elr, *before.isr}
    return tuple(sorted(known - {*isr, wish.unclean_shutdown}))


def _with_leader(
    before: Registration, kind: Election, now: _Assignment, elr: Brokers, context: DecisionContext
) -> tuple[int | None, Brokers, Brokers, bool]:
    """Return the leader, its ISR and ELR, and whether the leader was newly elected."""
    leader, unclean = _elect(before, kind, now, elr, context)
    elected = leader != before.leader
    if elected and unclean and leader is not None:
        return leader, (leader,), (), True
    if elected and leader in elr:
        return leader, (leader,), tuple(b for b in elr if b != leader), True
    empty_kept = not now.isr and not context.rules.eligible_leader_replicas
    return leader, before.isr if empty_kept else now.isr, elr, elected


def _elect(
    before: Registration, kind: Election, now: _Assignment, elr: Brokers, context: DecisionContext
) -> tuple[int | None, bool]:
    """Return the leader that an election chooses, and whether the leader may lack data."""
    eligible = now.isr or elr
    current = () if before.leader is None else (before.leader,)
    first = now.replicas[:1] if kind is Election.PREFERRED else ()
    for broker in (*first, *current, *now.replicas):
        if broker in eligible and context.may_lead(broker):
            return broker, False
    last = None if eligible else before.last_known_leader
    if last is not None and context.rules.eligible_leader_replicas and context.may_lead(last):
        return last, True
    if kind is Election.UNCLEAN:
        return next(filter(context.may_lead, now.replicas), None), True
    return None, False


def _last_known(before: Registration, leader: int | None, context: DecisionContext) -> int | None:
    """Return the last leader while there is none (KIP-966); None otherwise."""
    if leader is not None or not context.rules.eligible_leader_replicas:
        return None
    return before.leader if before.last_known_leader is None else before.last_known_leader
