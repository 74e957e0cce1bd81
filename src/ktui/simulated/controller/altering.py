"""Turn AlterPartitionReassignments into a requested change or a refusal (KIP-455)."""

from __future__ import annotations

from typing import NamedTuple

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import WriteResult
from ktui.simulated.controller.answers import NOTHING_TO_CANCEL, refused
from ktui.simulated.controller.change import Election, RequestedChange
from ktui.simulated.controller.membership import Membership
from ktui.simulated.controller.registration import Registration
from ktui.simulated.controller.rules import VersionRules


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
        known: the partition's record.
        target: the target replicas, preferred leader first.
        brokers: the brokers that the target may name.
        guarded: whether a different replication factor is refused (KIP-860).
    """
    problem = brokers.problem(target)
    if problem:
        return refused("INVALID_REPLICA_ASSIGNMENT", problem)
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
        tp: the partition.
        known: the partition's record.
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
        return refused("INVALID_REPLICA_ASSIGNMENT", words)
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
    return refused("INVALID_REPLICATION_FACTOR", words)
