"""Add partitions to a topic: what a request asks for, checked as the KRaft controller checks it."""

from __future__ import annotations

from collections.abc import Sequence

from ktui.cluster.partition import Brokers
from ktui.cluster.ports import WriteResult
from ktui.simulated.controller.altering import Assignable
from ktui.simulated.controller.answers import TOO_MANY, TOO_MANY_ADDED, all_brokers_down, refused
from ktui.simulated.controller.records import TopicRecords
from ktui.simulated.controller.registration import Registration

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
        topic: the topic, with the records of its partitions.
        count: the number of partitions that the topic is to have.
        assignment: the replicas of each new partition; None to place them here.
        brokers: the brokers.
    """
    begin = len(topic.partitions)
    if count - begin > ADDED:
        return TOO_MANY_ADDED if brokers.rules.limits_added_partitions else TOO_MANY
    if count == begin:
        return refused("INVALID_PARTITIONS", f"Topic already has {begin} partition(s).")
    if count < begin:
        words = (
            f"The topic {topic.name} currently has {begin} partition(s); {count} would not be an "
            "increase."
        )
        return refused("INVALID_PARTITIONS", words)
    factor = len(topic.first_found.replicas)
    if assignment is None:
        return _placed(begin, count, factor, brokers)
    if len(assignment) != count - begin:
        words = (
            f"Attempted to add {count - begin} additional partition(s), but only "
            f"{len(assignment)} assignment(s) were specified."
        )
        return refused("INVALID_REPLICA_ASSIGNMENT", words)
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
            return refused("INVALID_REPLICA_ASSIGNMENT", problem)
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
        return refused("INVALID_REPLICATION_FACTOR", words)
    if factor > len(usable):
        or_cordoned = " or some brokers have all their log directories cordoned"
        words = (
            f"The target replication factor of {factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered{or_cordoned if knows_cordons else ''}."
        )
        return refused("INVALID_REPLICATION_FACTOR", words)
    made = []
    for number in range(begin, count):
        turn = number % len(active)
        replicas = (*active[turn:], *active[:turn], *others)[:factor]
        isr = tuple(filter(members.may_lead, replicas))
        made.append(Registration(replicas, isr, isr[0]))
    return made
