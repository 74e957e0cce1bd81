"""Partitions and replicas, as a cluster reports them."""

from __future__ import annotations

import msgspec

Brokers = tuple[int, ...]


class TopicPartition(msgspec.Struct, frozen=True, order=True, gc=False):
    """One partition of a topic, by name. Sorts as KIP-1335 queues: by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Replica(msgspec.Struct, frozen=True, order=True, gc=False):
    """The copy of a partition on one broker."""

    tp: TopicPartition
    broker: int


class Reassignment(msgspec.Struct, frozen=True, gc=False):
    """One entry of ListPartitionReassignments (KIP-455).

    `replicas` is the controller's list during the move: the target in order, then `removing`.
    So [2,1,3] -> [4,5,3] has replicas (4,5,3,1,2), adding (4,5), removing (1,2).
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> Brokers:
        return tuple(b for b in self.replicas if b not in self.removing)

    @property
    def original(self) -> Brokers:
        """The replicas before the reassignment. Kafka forgets their order."""
        return tuple(b for b in self.replicas if b not in self.adding)


class PartitionState(msgspec.Struct, frozen=True, gc=False):
    """The state of a partition. `replicas` is in Kafka's order, with those added and removed.

    `adding` and `removing` are empty unless ListPartitionReassignments names it.
    """

    tp: TopicPartition
    topic_id: str | None  # URL-safe base64 of the 16 bytes, as Kafka's own tools print it
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None
    leader_epoch: int | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()  # replicas on brokers that are down, or whose log dir has failed
    elr: tuple[int, ...] | None = None  # KIP-966; None where it is not reported
    described: bool = True
    """False where metadata could not be read (Describe on the topic is not granted). Only the
    replica lists are valid then; `isr`, `leader` and the rest mean nothing."""

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas if b not in self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas if b not in self.adding)

    @property
    def out_of_sync(self) -> tuple[int, ...]:
        """Replicas out of the ISR, other than those being added or removed."""
        if not self.described or set(self.replicas).issubset(self.isr):
            return ()
        excluded = (*self.isr, *self.adding, *self.removing)
        return tuple(b for b in self.replicas if b not in excluded)

    @property
    def catching_up(self) -> tuple[int, ...]:
        return (*self.adding, *self.out_of_sync)

    def with_reassignment(self, listed: Reassignment) -> PartitionState:
        """Overlay the controller's list, which is about 100 ms ahead of a broker's metadata."""
        return msgspec.structs.replace(
            self, replicas=listed.replicas, adding=listed.adding, removing=listed.removing
        )
