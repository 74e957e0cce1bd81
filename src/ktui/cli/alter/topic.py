"""The topic that is to be altered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cluster.broker import Broker
from ktui.cluster.clock import SystemClock
from ktui.cluster.fresh_read import (
    FreshMetadata,
    read_cluster_and_reassignments,
    with_reassignments,
)
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterReader
from ktui.planning.check.snapshot import topic_names
from ktui.planning.names import closest_names, join_all, shortened


class TopicNow(msgspec.Struct, frozen=True):
    """A topic as it was read: its partitions by number, with their reassignments."""

    name: str
    cluster_id: str
    partitions: Mapping[TopicPartition, PartitionState]
    brokers: Mapping[int, Broker]

    @property
    def id(self) -> str | None:
        """The id of the topic."""
        return next(iter(self.partitions.values())).topic_id

    @property
    def moving(self) -> list[TopicPartition]:
        """The partitions that are being reassigned."""
        return [tp for tp, state in self.partitions.items() if state.reassigning]

    @property
    def factors(self) -> Counter[int]:
        """How many partitions have each number of replicas."""
        return Counter(len(state.replicas) for state in self.partitions.values())

    @property
    def replicas(self) -> Mapping[TopicPartition, object]:
        """The replicas of each partition, and which of them come and go."""
        return {tp: (s.replicas, s.adding, s.removing) for tp, s in self.partitions.items()}


async def read_topic(reader: ClusterReader, name: str) -> TopicNow:
    """Read a topic.

    Raises:
        BadInput: there is no such topic, or it cannot be described.
        ClusterError: the cluster does not answer.
    """
    topic = await find_topic(reader, name)
    if topic is None:
        raise BadInput(f"the cluster has no topic {name}{await _suggestion(reader, name)}")
    return topic


async def find_topic(reader: ClusterReader, name: str) -> TopicNow | None:
    """Read a topic, from metadata no older than the call where the cluster can prove that.

    Returns:
        The topic; None if there is no such topic.

    Raises:
        BadInput: it cannot be described.
        ClusterError: the cluster does not answer.
    """
    cluster, listed = await read_cluster_and_reassignments(reader)
    answer, _ = await FreshMetadata(reader, SystemClock()).describe([name])
    for failure in answer.failures:
        raise BadInput(f"topic {name} could not be read: {failure.answer}")
    if not answer.partitions:
        return None
    ours = {tp: moving for tp, moving in listed.items() if tp.topic == name}
    states = with_reassignments(answer.partitions, ours)
    return TopicNow(name, cluster.cluster_id, dict(sorted(states.items())), cluster.brokers)


async def _suggestion(reader: ClusterReader, name: str) -> str:
    near = map(shortened, closest_names(name, await topic_names(reader)))
    return f"; did you mean {words}?" if (words := join_all(near, "or")) else ""
