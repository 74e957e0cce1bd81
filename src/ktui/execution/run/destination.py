"""The replicas a partition is heading for: its target, or what a cancel asks for."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import Brokers
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.track import Track


class Goal(msgspec.Struct, frozen=True):
    """Replicas in order, and the leader to end with; None for the first replica."""

    replicas: Brokers
    lead: int | None = None


def find_goal(
    track: Track,
    replicas: Brokers,
    isr: Brokers,
    leader: int | None,
    closed: frozenset[int] = frozenset(),
) -> Goal:
    """Return the replicas that a partition is heading for from its present ones.

    Args:
        track: the partition.
        replicas: its present replicas in order; during a reassignment, with those being added.
        isr: the replicas in sync.
        leader: the present leader.
        closed: cordoned brokers that no target may name.
    """
    match track.cancel:
        case None:
            return Goal(track.planned.target)
        case CancelKind.ROLLBACK:
            return Goal(track.original, track.led)
        case CancelKind.TRIM:
            kept = trimmed_replicas(replicas, isr, leader, track.original, closed)
            return Goal(kept, leader if leader in kept else None)
        case CancelKind.STOP:
            return Goal(replicas, leader)


def goal_text(kind: CancelKind | None) -> str:
    """Name the goal of a partition with such a cancel, or with none."""
    return "original replicas" if kind is CancelKind.ROLLBACK else "target"


def trimmed_replicas(
    replicas: Brokers,
    isr: Brokers,
    leader: int | None,
    original: Brokers,
    closed: frozenset[int] = frozenset(),
) -> Brokers:
    """Return as many replicas as there were originally.

    Of the brokers that a target may name, the leader is kept first, then replicas in sync, then
    original ones. They stand in their original order, with any other after them. A leader that is
    not an original replica stands first: else Kafka's own rebalancing would take the leadership
    from it.
    """
    if len(replicas) <= len(original):
        return replicas

    def drop_order(broker: int) -> tuple[bool, ...]:
        return broker in closed, broker != leader, broker not in isr, broker not in original

    kept = set(sorted(replicas, key=drop_order)[: len(original)])
    first = (leader,) if leader in kept and leader not in original else ()
    ordered = dict.fromkeys((*first, *original, *replicas))
    return tuple(broker for broker in ordered if broker in kept)
