"""Add partitions to a topic: what a request asks for, checked as the KRaft controller checks it."""

from __future__ import annotations

from collections.abc import Sequence

from ktui.cluster.partition import Brokers
from ktui.cluster.ports import WriteResult
from ktui.simulated.controller.altering import assignment_problem
from ktui.simulated.controller.answers import all_brokers_down, refused
from ktui.simulated.controller.membership import Membership
from ktui.simulated.controller.registration import Registration


def new_partitions(
    topic: str,
    present: Sequence[Registration],
    count: int,
    assignment: Sequence[Brokers] | None,
    members: Membership,
) -> list[Registration] | WriteResult:
    """Return the records of new partitions, or the refusal.

    Their number of replicas is that of the first partition's list, even while a reassignment has
    made that list longer.

    Args:
        topic: the topic's name.
        present: the records of its partitions.
        count: the number of partitions that the topic is to have.
        assignment: the replicas of each new partition; None to place them here.
        members: the brokers.
    """
    begin = len(present)
    if count == begin:
        return refused("INVALID_PARTITIONS", f"Topic already has {begin} partition(s).")
    if count < begin:
        words = (
            f"The topic {topic} currently has {begin} partition(s); {count} would not be an "
            "increase."
        )
        return refused("INVALID_PARTITIONS", words)
    factor = len(present[0].replicas)
    if assignment is None:
        return _placed(begin, count, factor, members)
    if len(assignment) != count - begin:
        words = (
            f"Attempted to add {count - begin} additional partition(s), but only "
            f"{len(assignment)} assignment(s) were specified."
        )
        return refused("INVALID_REPLICA_ASSIGNMENT", words)
    return _assigned(begin, factor, assignment, members)


def _assigned(
    begin: int, factor: int, assignment: Sequence[Brokers], members: Membership
) -> list[Registration] | WriteResult:
    made = []
    for number, replicas in enumerate(assignment, begin):
        problem = assignment_problem(replicas, members.registered)
        if not problem and len(replicas) != factor:
            problem = (
                f"The manual partition assignment includes a partition with {len(replicas)} "
                f"replica(s), but this is not consistent with previous partitions, which have "
                f"{factor} replica(s)."
            )
        if problem:
            return refused("INVALID_REPLICA_ASSIGNMENT", problem)
        isr = tuple(filter(members.may_lead, replicas))
        if not isr:
            return all_brokers_down(number)
        made.append(Registration(replicas, isr, isr[0]))
    return made


def _placed(
    begin: int, count: int, factor: int, members: Membership
) -> list[Registration] | WriteResult:
    """Place replicas on brokers in turn; Kafka draws, and brokers that are down come last."""
    if factor > len(members.registered):
        words = (
            f"Unable to replicate the partition {factor} time(s): The target replication factor "
            f"of {factor} cannot be reached because only {len(members.registered)} broker(s) are "
            "registered."
        )
        return refused("INVALID_REPLICATION_FACTOR", words)
    if not members.active:
        words = (
            f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced."
        )
        return refused("INVALID_REPLICATION_FACTOR", words)
    active, others = sorted(members.active), sorted(members.registered - members.active)
    made = []
    for number in range(begin, count):
        turn = number % len(active)
        replicas = (*active[turn:], *active[:turn], *others)[:factor]
        isr = tuple(filter(members.may_lead, replicas))
        made.append(Registration(replicas, isr, isr[0]))
    return made
