"""Partitions and replicas, as a cluster reports them."""

from __future__ import annotations

import msgspec

Brokers = tuple[int, ...]
"""Broker ids: replicas in Kafka's order, or a part of them."""


class TopicPartition(msgspec.Struct, frozen=True, order=True):
    """One partition of one topic, by name. Orders as KIP-1335 queues: topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Give Kafka's own spelling, `topic-partition`."""
        return f"{self.topic}-{self.partition}"


class Replica(msgspec.Struct, frozen=True, order=True):
    """One partition's copy on one broker."""

    tp: TopicPartition
    broker: int


class Reassignment(msgspec.Struct, frozen=True):
    """One entry of ListPartitionReassignments (KIP-455).

    `replicas` is the controller's list while it moves: the target in order, then `removing`.
    So [2,1,3] -> [4,5,3] reads replicas (4,5,3,1,2), adding (4,5), removing (1,2).
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class PartitionState(msgspec.Struct, frozen=True):
    """One partition at one moment.

    `replicas` is in Kafka's order, the first being the preferred leader; while the partition is
    being reassigned it also holds the adding and the removing ones. `adding` and `removing` are
    empty unless ListPartitionReassignments names the partition.
    """

    tp: TopicPartition
    topic_id: str | None
    """URL-safe base64 of the 16 bytes, as Kafka's own tools print it."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None
    """None while the partition has no leader, which is to say while it is offline."""
    leader_epoch: int | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    """Replicas on brokers that are down, or whose log dir has failed."""
    elr: tuple[int, ...] | None = None
    """Eligible leader replicas (KIP-966); None where the cluster does not tell."""
    described: bool = True
    """False where metadata could not be read (Describe on the topic is not granted): only the
    replica lists are true then; `isr`, `leader` and the rest mean nothing."""

    @property
    def reassigning(self) -> bool:
        """Whether the controller lists the partition as being reassigned."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that the reassignment leads to, in order."""
        return tuple(b for b in self.replicas if b not in self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """The replicas from before the reassignment. Kafka forgets their order."""
        return tuple(b for b in self.replicas if b not in self.adding)

    @property
    def out_of_sync(self) -> tuple[int, ...]:
        """Replicas that should be in the ISR and are not: neither adding nor removing."""
        if not self.described:
            return ()
        aside = (*self.isr, *self.adding, *self.removing)
        return tuple(b for b in self.replicas if b not in aside)

    @property
    def catching_up(self) -> tuple[int, ...]:
        """Replicas whose lag matters: those being added, and those fallen out of the ISR."""
        return (*self.adding, *self.out_of_sync)

    def with_reassignment(self, listed: Reassignment) -> PartitionState:
        """Overlay the controller's list, which leads a broker's metadata by some 100 ms."""
        return msgspec.structs.replace(
            self, replicas=listed.replicas, adding=listed.adding, removing=listed.removing
        )
