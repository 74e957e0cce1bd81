"""Requested changes of partitions: alter, add or begin them, or refuse them as Kafka does."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ktui.cluster.errors import KafkaError
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import WriteResult
from ktui.simulated.controller.configs import (
    NOTHING_TO_CANCEL,
    TOO_MANY,
    TOO_MANY_ADDED,
    VersionRules,
    all_brokers_down,
    refused,
)
from ktui.simulated.controller.records import Membership, Registration, TopicRecords
from ktui.simulated.layout import TopicSpec


class Election(enum.Enum):
    """The rule by which a leader is chosen."""

    ONLINE = enum.auto()  # the leader stays if it can; otherwise the first replica that may lead
    PREFERRED = enum.auto()  # the first replica if it may lead; otherwise as ONLINE
    UNCLEAN = enum.auto()
    """As ONLINE; failing that, the first replica that is alive, whatever data it lacks."""


class RequestedChange(msgspec.Struct, frozen=True, gc=False):
    """The change requested of one partition; None leaves a field as it is."""

    isr: Brokers | None = None
    replicas: Brokers | None = None
    adding: Brokers | None = None
    removing: Brokers | None = None
    election: Election = Election.ONLINE
    unclean_shutdown: int | None = None  # a broker that may have lost data
    failed: int | None = None  # a broker whose log dir with the replica has failed


class DecisionContext(msgspec.Struct, frozen=True):
    """The inputs to a decision about a partition besides its record."""

    rules: VersionRules
    min_isr: int  # min.insync.replicas, at most the topic's replication factor
    may_lead: Callable[[int], bool]  # registered, unfenced and not shutting down


def decide(
    before: Registration, wish: RequestedChange, context: DecisionContext
) -> Registration | None:
    """Return the partition's next record; None if nothing changes."""
    now = _completed(_requested(before, wish), context.rules)
    offline = _offline(before, wish, now)
    context = _except(offline, context)
    elr = _eligible(before, wish, now.isr, context)
    leader, isr, elr, elected = _with_leader(before, wish.election, now, elr, context)
    removed = not set(before.replicas) <= set(now.replicas)
    after = replace(
        now,
        isr=isr,
        leader=leader,
        leader_epoch=before.leader_epoch + (elected or removed),
        elr=elr,
        last_known_leader=_last_known(before, leader, context),
        offline=offline,
    )
    return None if after == before else replace(after, partition_epoch=before.partition_epoch + 1)


def _except(offline: Brokers, context: DecisionContext) -> DecisionContext:
    if not offline:
        return context
    may_lead = context.may_lead
    return replace(context, may_lead=lambda broker: broker not in offline and may_lead(broker))


def _requested(before: Registration, wish: RequestedChange) -> Registration:
    asked = {name: getattr(wish, name) for name in ("replicas", "isr", "adding", "removing")}
    return replace(before, **{name: each for name, each in asked.items() if each is not None})


def _completed(now: Registration, rules: VersionRules) -> Registration:
    """Complete the reassignment if its replicas are in the ISR, whatever min.insync.replicas."""
    if not (now.adding or now.removing):
        return now
    isr = tuple(b for b in now.isr if b not in now.removing)
    replicas = tuple(b for b in now.replicas if b not in now.removing)
    if now.removing and not (isr and replicas):
        return now
    if not _awaited(now, replicas, rules) <= set(isr):
        return now
    return replace(now, replicas=replicas, isr=isr, adding=(), removing=())


def _awaited(now: Registration, target: Brokers, rules: VersionRules) -> set[int]:
    """Return the replicas that must be in the ISR before the reassignment completes.

    From 4.3 on this includes an adding replica that is also being removed, and never gets there.
    """
    if not rules.completes_without_kept:
        return set(target)
    shrinks = len(now.adding) < len(now.removing)
    return {*now.adding, *target} if shrinks else set(now.adding)


def _offline(before: Registration, wish: RequestedChange, now: Registration) -> Brokers:
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
    before: Registration, kind: Election, now: Registration, elr: Brokers, context: DecisionContext
) -> tuple[int | None, Brokers, Brokers, bool]:
    leader, unclean = _elect(before, kind, now, elr, context)
    elected = leader != before.leader
    if elected and unclean and leader is not None:
        return leader, (leader,), (), True
    if elected and leader in elr:
        return leader, (leader,), tuple(b for b in elr if b != leader), True
    empty_kept = not now.isr and not context.rules.eligible_leader_replicas
    return leader, before.isr if empty_kept else now.isr, elr, elected


def _elect(
    before: Registration, kind: Election, now: Registration, elr: Brokers, context: DecisionContext
) -> tuple[int | None, bool]:
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
    if leader is not None or not context.rules.eligible_leader_replicas:
        return None
    return before.leader if before.last_known_leader is None else before.last_known_leader


class Assignable(NamedTuple):
    """The brokers that partitions may get, by the rules of a version."""

    members: Membership
    cordoned: frozenset[int]  # with all log dirs cordoned: Kafka places nothing on them
    rules: VersionRules

    def problem(self, target: Brokers) -> str:
        if not target:
            return "The manual partition assignment includes an empty replica list."
        previous = None
        for broker in sorted(target):
            if broker not in self.members.registered:
                return (
                    f"The manual partition assignment includes broker {broker}, but no such broker "
                    "is registered."
                )
            if broker in self.cordoned and self.rules.refuses_cordoned:
                return (
                    f"The manual partition assignment includes broker {broker}, but all its log "
                    "directories are cordoned."
                )
            if broker == previous:
                return (
                    f"The manual partition assignment includes the broker {broker} more than once."
                )
            previous = broker
        return ""


def request_move(
    known: Registration, target: Brokers, brokers: Assignable, *, guarded: bool
) -> RequestedChange | WriteResult:
    """Request a target and the removal of all other current replicas.

    An empty list of adding or removing replicas is not requested. It leaves the list of a
    reassignment under way as it is. Hence a target that keeps the replicas being removed changes
    nothing. For the same reason a target that drops an adding replica may never complete.

    Args:
        guarded: whether a different replication factor is refused (KIP-860).
    """
    problem = brokers.problem(target)
    if problem:
        return refused(KafkaError.INVALID_REPLICA_ASSIGNMENT, problem)
    if guarded and (refusal := refuse_other_factor(known, target)):
        return refusal
    removing = tuple(sorted({*known.replicas} - {*target}))
    adding = tuple(sorted({*target} - {*known.replicas}))
    return RequestedChange(
        replicas=(*target, *removing), adding=adding or None, removing=removing or None
    )


def request_cancel(
    tp: TopicPartition, known: Registration, *, unclean: bool
) -> RequestedChange | WriteResult:
    """Cancel: keep the replicas that are not being added; `unclean` if none of them is in sync."""
    if not known.reassigning:
        return NOTHING_TO_CANCEL
    replicas = tuple(b for b in known.replicas if b not in known.adding)
    isr = tuple(b for b in known.isr if b not in known.adding)
    if not isr and not unclean:
        words = (
            f"Unable to revert partition assignment for {tp.topic}:{tp.partition} because it "
            "would require an unclean leader election."
        )
        return refused(KafkaError.INVALID_REPLICA_ASSIGNMENT, words)
    election = Election.UNCLEAN if unclean else Election.ONLINE
    return RequestedChange(isr or replicas[:1], replicas, (), (), election)


def refuse_other_factor(known: Registration, target: Brokers) -> WriteResult | None:
    """Refuse a target with another replication factor than the current target's; else None.

    Brokers check this from 4.1 on (KIP-860); before, the sender has to.
    """
    present = len({*known.replicas, *known.adding} - {*known.removing})
    if present == len(target):
        return None
    words = f"The replication factor is changed from {present} to {len(target)}"
    return refused(KafkaError.INVALID_REPLICATION_FACTOR, words)


def first_record(
    topic: TopicSpec, partition: int, brokers: Assignable
) -> Registration | WriteResult:
    """Return a new partition's record, or a refusal; replicas that are up begin in sync."""
    replicas, start, members = topic.replicas[partition], topic.start, brokers.members
    isr = start.isr.get(partition) or tuple(filter(members.may_lead, replicas))
    if not isr:
        return all_brokers_down(partition)
    able = [b for b in (*replicas, *isr) if b in isr and members.may_lead(b)]
    leader = start.leaders.get(partition, able[0] if able else None)
    known = Registration(replicas, isr, leader)
    target = start.reassigning.get(partition)
    if target is None:
        return known
    wish = request_move(known, target, brokers, guarded=False)
    if isinstance(wish, WriteResult):
        return wish
    moving, adding, removing = wish.replicas or replicas, wish.adding or (), wish.removing or ()
    return Registration(moving, isr, leader, adding=adding, removing=removing)


ADDED = 10_000  # partitions that one request may add: records that it may produce


def new_partitions(
    topic: TopicRecords, count: int, assignment: Sequence[Brokers] | None, brokers: Assignable
) -> list[Registration] | WriteResult:
    """Return new partitions' records or a refusal; with as many replicas as the first found."""
    begin = len(topic.partitions)
    if count - begin > ADDED:
        return TOO_MANY_ADDED if brokers.rules.limits_added_partitions else TOO_MANY
    if count == begin:
        return refused(KafkaError.INVALID_PARTITIONS, f"Topic already has {begin} partition(s).")
    if count < begin:
        words = (
            f"The topic {topic.name} currently has {begin} partition(s); {count} would not be an "
            "increase."
        )
        return refused(KafkaError.INVALID_PARTITIONS, words)
    factor = len(topic.first_found.replicas)
    if assignment is None:
        return _placed(begin, count, factor, brokers)
    if len(assignment) != count - begin:
        words = (
            f"Attempted to add {count - begin} additional partition(s), but only "
            f"{len(assignment)} assignment(s) were specified."
        )
        return refused(KafkaError.INVALID_REPLICA_ASSIGNMENT, words)
    return _assigned(begin, factor, assignment, brokers)


def _assigned(
    begin: int, factor: int, assignment: Sequence[Brokers], brokers: Assignable
) -> list[Registration] | WriteResult:
    made = []
    for number, replicas in enumerate(assignment, begin):
        problem = brokers.problem(replicas)
        if not problem and len(replicas) != factor:
            problem = (
                f"The manual partition assignment includes a partition with {len(replicas)} "
                f"replica(s), but this is not consistent with previous partitions, which have "
                f"{factor} replica(s)."
            )
        if problem:
            return refused(KafkaError.INVALID_REPLICA_ASSIGNMENT, problem)
        isr = tuple(filter(brokers.members.may_lead, replicas))
        if not isr:
            return all_brokers_down(number)
        made.append(Registration(replicas, isr, isr[0]))
    return made


def _placed(
    begin: int, count: int, factor: int, brokers: Assignable
) -> list[Registration] | WriteResult:
    """Place replicas on brokers in turn; Kafka draws, and brokers that are down come last."""
    members, cordoned = brokers.members, brokers.cordoned
    knows_cordons = brokers.rules.cordons_log_dirs
    usable = members.registered - cordoned
    active, others = sorted(usable & members.active), sorted(usable - members.active)
    if not usable or (factor <= len(usable) and not active):
        or_cordoned = ", or have all their log directories cordoned" if knows_cordons else ""
        words = f"All brokers are currently fenced{or_cordoned}."
        return refused(KafkaError.INVALID_REPLICATION_FACTOR, words)
    if factor > len(usable):
        or_cordoned = " or some brokers have all their log directories cordoned"
        words = (
            f"The target replication factor of {factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered{or_cordoned if knows_cordons else ''}."
        )
        return refused(KafkaError.INVALID_REPLICATION_FACTOR, words)
    made = []
    for number in range(begin, count):
        turn = number % len(active)
        replicas = (*active[turn:], *active[:turn], *others)[:factor]
        isr = tuple(filter(members.may_lead, replicas))
        made.append(Registration(replicas, isr, isr[0]))
    return made
