"""A partition as the controller has it on record."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import TopicPartition


class Registration(msgspec.Struct, frozen=True, gc=False):
    """One partition's record, KRaft's PartitionRegistration.

    While a reassignment is under way `replicas` is the target in order and then what is removed;
    `leader` is None while there is none. An epoch of the leader begins with each new leader, and
    with each change that takes a replica away.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966)."""
    last_known_leader: int | None = None
    """Kept while a partition without ISR and ELR waits for it (KIP-966's balanced recovery)."""

    @property
    def reassigning(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)


class RecordChange(msgspec.Struct, frozen=True):
    """A partition's record before and after one decision; None where there is no partition."""

    tp: TopicPartition
    topic_id: str
    before: Registration | None
    after: Registration | None
