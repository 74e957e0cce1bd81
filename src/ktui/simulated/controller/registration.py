"""The controller's record of a partition."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import TopicPartition


class Registration(msgspec.Struct, frozen=True, gc=False):
    """One partition's record, KRaft's PartitionRegistration.

    During a reassignment `replicas` is the target in order, followed by the replicas being
    removed. `leader` is None while there is no leader. A new leader epoch begins with each new
    leader, and with each change that removes a replica.
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
    """The leader that a partition without ISR and ELR waits for (KIP-966's balanced recovery)."""
    offline: tuple[int, ...] = ()
    """The replicas whose log dir has failed (KIP-858)."""

    @property
    def reassigning(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)


class RecordChange(msgspec.Struct, frozen=True):
    """A partition's record before and after one decision; None if there is no partition."""

    tp: TopicPartition
    topic_id: str
    before: Registration | None
    after: Registration | None
