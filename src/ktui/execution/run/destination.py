"""Where a partition of a run goes: to its target, or elsewhere once an operator called that off."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import Brokers
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.track import Track


class Goal(msgspec.Struct, frozen=True):
    """Replicas in order, and who is to lead in the end; None for their first."""

    replicas: Brokers
    lead: int | None = None


def goal(track: Track, replicas: Brokers, isr: Brokers, leader: int | None) -> Goal:
    """Give where a partition goes from where it stands.

    Args:
        track: the partition.
        replicas: those that it has, in order; while Kafka is at it, with those being added.
        isr: those in sync.
        leader: who leads.
    """
    match track.cancel:
        case None:
            return Goal(track.planned.target)
        case CancelKind.ROLLBACK:
            return Goal(track.original, track.led)
        case CancelKind.TRIM:
            return Goal(trimmed(replicas, isr, leader, track.original), leader)
        case CancelKind.STOP:
            return Goal(replicas, leader)


def goal_in_words(kind: CancelKind | None) -> str:
    """Name where a partition goes that was called off so, or was not."""
    return "original replicas" if kind is CancelKind.ROLLBACK else "target"


def trimmed(replicas: Brokers, isr: Brokers, leader: int | None, original: Brokers) -> Brokers:
    """Give as many replicas as there were: the leader, then those in sync, then the original ones.

    They stand in their original order, with any other after them; the leader stands first where
    it is none of the original: else Kafka's own rebalancing would take the lead from it.
    """
    if len(replicas) <= len(original):
        return replicas

    def worth(broker: int) -> tuple[bool, bool, bool]:
        return broker != leader, broker not in isr, broker not in original

    kept = set(sorted(replicas, key=worth)[: len(original)])
    first = (leader,) if leader in kept and leader not in original else ()
    ordered = dict.fromkeys((*first, *original, *replicas))
    return tuple(broker for broker in ordered if broker in kept)
