"""Read what a broker holds: from the controller, from metadata, and from its own log dirs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktui.cluster.broker import Broker, LogDir
from ktui.cluster.errors import ClusterError
from ktui.cluster.fresh_read import read_cluster_and_reassignments, with_reassignments
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterReader, LogDirsAnswer

States = Mapping[TopicPartition, PartitionState]


class BrokerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of one broker."""

    id: int
    cluster_id: str
    brokers: Mapping[int, Broker]
    """The registered brokers. Before Kafka 4.1, a broker that is down may be missing."""
    states: States
    """The partitions with a replica on the broker, or with one that is coming to it."""
    on_disk: LogDirsAnswer | None
    """Its log dirs with all of its replicas; None where it does not answer, or was not asked."""
    unread: tuple[str, ...] = ()
    """What could not be read, and why, as sentences."""

    @property
    def broker(self) -> Broker | None:
        """The broker as it is registered; None where it is not."""
        return self.brokers.get(self.id)

    @property
    def known(self) -> bool:
        """Whether the cluster knows of the broker at all."""
        return self.broker is not None or bool(self.states)

    @property
    def log_dirs(self) -> tuple[LogDir, ...]:
        """The log dirs; empty where the broker does not answer."""
        return () if self.on_disk is None else self.on_disk.log_dirs


async def read_broker(reader: ClusterReader, broker: int, *, fresh: bool = False) -> BrokerFacts:
    """Read what a broker holds, according to the cluster and to the broker itself.

    The log dirs are read last, so that a replica which comes meanwhile is seen. Metadata leaves
    out topics that the principal may not describe; the log dirs have their replicas all the same.

    Args:
        reader: reads the cluster.
        broker: the broker's id.
        fresh: whether the metadata has to be proven to be no older than the call.

    Raises:
        ClusterError: the brokers, the reassignments or the metadata cannot be read, or there is no
            proof of their age.
    """
    known = await read_metadata(reader, broker, fresh=fresh)
    on_disk, problems = await _on_disk(reader, broker)
    return msgspec.structs.replace(known, on_disk=on_disk, unread=(*known.unread, *problems))


async def read_metadata(reader: ClusterReader, broker: int, *, fresh: bool = False) -> BrokerFacts:
    """Read what a broker holds according to the cluster; the broker itself is not asked.

    Args, Raises: as `read_broker`.
    """
    cluster, listed = await read_cluster_and_reassignments(reader)
    found: dict[TopicPartition, PartitionState] = {}
    unread: list[str] = []
    async for page in reader.scan_topics(fresh=fresh):
        found.update((tp, s) for tp, s in page.partitions.items() if broker in s.replicas)
        unread.extend(failure.sentence for failure in page.failures)
    moving = {tp: m for tp, m in listed.items() if tp in found or broker in m.replicas}
    return BrokerFacts(
        id=broker,
        cluster_id=cluster.cluster_id,
        brokers=cluster.brokers,
        states=with_reassignments(found, moving),
        on_disk=None,
        unread=tuple(dict.fromkeys(unread)),
    )


async def _on_disk(
    reader: ClusterReader, broker: int
) -> tuple[LogDirsAnswer | None, tuple[str, ...]]:
    try:
        answer = await reader.log_dirs(broker, None)
    except ClusterError as error:
        return None, (str(error),)
    failed = (each for each in answer.log_dirs if each.error is not None)
    return answer, tuple(
        f"log dir {each.path} is offline ({each.error}), so what is in it cannot be read"
        for each in failed
    )
