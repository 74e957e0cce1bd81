"""Requested changes of partitions: alter, add or begin them, or refuse them as Kafka does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ktui.cluster.kafka_error import KafkaError
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import WriteResult
from ktui.simulated.controller.change import Election, RequestedChange
from ktui.simulated.controller.records import Membership, Registration, TopicRecords
from ktui.simulated.controller.rules import (
    NOTHING_TO_CANCEL,
    TOO_MANY,
    TOO_MANY_ADDED,
    VersionRules,
    all_brokers_down,
    refused,
)
from ktui.simulated.layout import TopicSpec


class Assignable(NamedTuple):
    """The brokers that partitions may get, by the rules of a version."""

    members: Membership
    cordoned: frozenset[int]
    """The brokers with all log dirs cordoned: Kafka places nothing on them itself."""
    rules: VersionRules

    def problem(self, target: Brokers) -> str:
        """Return why no partition can have these replicas; empty if one can."""
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
        target: the target replicas, preferred leader first.
        brokers: the brokers that the target may name.
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
    """Request the replicas that are not being added, in their present order.

    Args:
        unclean: whether an unclean leader election is allowed. A cancel leads to one if only
            adding replicas are in sync.
    """
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
    """Refuse a target whose replication factor differs from that of the current target.

    Without a reassignment under way the current target is the present assignment. Returns None if
    the factor is the same. Brokers check this from 4.1 on (KIP-860); before 4.1
    the sender of the request has to.
    """
    present = len({*known.replicas, *known.adding} - {*known.removing})
    if present == len(target):
        return None
    words = f"The replication factor is changed from {present} to {len(target)}"
    return refused(KafkaError.INVALID_REPLICATION_FACTOR, words)


def first_record(
    topic: TopicSpec, partition: int, brokers: Assignable
) -> Registration | WriteResult:
    """Return the record of a partition when its topic is created, or Kafka's refusal.

    Replicas that are up are in sync, and the first of them leads, unless the topic says otherwise.
    """
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


ADDED = 10_000
"""Partitions that one request may add: records that it may produce."""


def new_partitions(
    topic: TopicRecords,
    count: int,
    assignment: Sequence[Brokers] | None,
    brokers: Assignable,
) -> list[Registration] | WriteResult:
    """Return the records of new partitions, or the refusal.

    They have as many replicas as the first partition that Kafka finds, even while a reassignment
    has made that one's list longer.

    Args:
        count: the number of partitions that the topic is to have.
        assignment: the replicas of each new partition; None to place them here.
    """
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
