"""How the controller turns a wish about one partition into that partition's next record.

The rules of KRaft's PartitionChangeBuilder: completing a reassignment, electing a leader, keeping
the eligible leader replicas (KIP-966), and beginning epochs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import msgspec

from ktui.cluster.partition import Brokers
from ktui.simulated.controller.registration import Registration
from ktui.simulated.controller.rules import VersionRules


class Election(enum.Enum):
    """How a leader is chosen."""

    ONLINE = enum.auto()
    """The leader stays if it can; else the first replica that may lead."""
    PREFERRED = enum.auto()
    """The first replica if it may lead; else as ONLINE."""
    UNCLEAN = enum.auto()
    """As ONLINE; else the first replica that is alive, whatever it lacks."""


class Wish(msgspec.Struct, frozen=True, gc=False):
    """What is asked of one partition; None leaves as it is."""

    isr: Brokers | None = None
    replicas: Brokers | None = None
    adding: Brokers | None = None
    removing: Brokers | None = None
    election: Election = Election.ONLINE
    unclean_shutdown: int | None = None
    """A broker that came back without having shut down properly: it may lack what it had."""


class Circumstances(msgspec.Struct, frozen=True):
    """What a decision about a partition depends on besides its record."""

    rules: VersionRules
    min_isr: int
    """min.insync.replicas, at most the topic's replication factor."""
    may_lead: Callable[[int], bool]
    """Whether a broker may lead at all: registered, unfenced and not shutting down."""


def decide(before: Registration, wish: Wish, given: Circumstances) -> Registration | None:
    """Give the partition's next record; None if there is nothing to change."""
    assignment = _completed(_assignment(before, wish), given.rules)
    elr = _eligible(before, wish, assignment.isr, given)
    leader, isr, elr, elected = _with_leader(before, wish.election, assignment, elr, given)
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
        last_known_leader=_last_known(before, leader, given),
    )
    if after == before:
        return None
    return msgspec.structs.replace(after, partition_epoch=before.partition_epoch + 1)


class _Assignment(msgspec.Struct, frozen=True, gc=False):
    replicas: Brokers
    isr: Brokers
    adding: Brokers
    removing: Brokers


def _assignment(before: Registration, wish: Wish) -> _Assignment:
    return _Assignment(
        before.replicas if wish.replicas is None else wish.replicas,
        before.isr if wish.isr is None else wish.isr,
        before.adding if wish.adding is None else wish.adding,
        before.removing if wish.removing is None else wish.removing,
    )


def _completed(now: _Assignment, rules: VersionRules) -> _Assignment:
    """End the reassignment if those it waits for are in the ISR.

    No version looks at min.insync.replicas here.
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
    """Give those who must be in the ISR first.

    From 4.3 an adding replica that is also being removed is awaited in vain.
    """
    if not rules.completes_without_kept:
        return set(target)
    shrinks = len(now.adding) < len(now.removing)
    return {*now.adding, *target} if shrinks else set(now.adding)


def _eligible(before: Registration, wish: Wish, isr: Brokers, given: Circumstances) -> Brokers:
    """Give the ELR that goes with an ISR: who was in sync since it fell below the minimum."""
    if not given.rules.eligible_leader_replicas or len(isr) >= given.min_isr:
        return ()
    known = {*before.elr, *before.isr}
    return tuple(sorted(known - {*isr, wish.unclean_shutdown}))


def _with_leader(
    before: Registration, kind: Election, now: _Assignment, elr: Brokers, given: Circumstances
) -> tuple[int | None, Brokers, Brokers, bool]:
    """Give the leader, the ISR and ELR that go with it, and whether it was elected."""
    leader, unclean = _elect(before, kind, now, elr, given)
    elected = leader != before.leader
    if elected and unclean and leader is not None:
        return leader, (leader,), (), True
    if elected and leader in elr:
        return leader, (leader,), tuple(b for b in elr if b != leader), True
    empty_kept = not now.isr and not given.rules.eligible_leader_replicas
    return leader, before.isr if empty_kept else now.isr, elr, elected


def _elect(
    before: Registration, kind: Election, now: _Assignment, elr: Brokers, given: Circumstances
) -> tuple[int | None, bool]:
    """Give the leader that an election chooses, and whether it may lack data."""
    eligible = now.isr or elr
    current = () if before.leader is None else (before.leader,)
    first = now.replicas[:1] if kind is Election.PREFERRED else ()
    for broker in (*first, *current, *now.replicas):
        if broker in eligible and given.may_lead(broker):
            return broker, False
    last = None if eligible else before.last_known_leader
    if last is not None and given.rules.eligible_leader_replicas and given.may_lead(last):
        return last, True
    if kind is Election.UNCLEAN:
        return next(filter(given.may_lead, now.replicas), None), True
    return None, False


def _last_known(before: Registration, leader: int | None, given: Circumstances) -> int | None:
    """Give who led last, while there is no leader (KIP-966)."""
    if leader is not None or not given.rules.eligible_leader_replicas:
        return None
    return before.leader if before.last_known_leader is None else before.last_known_leader
