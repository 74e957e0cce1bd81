"""What options name has to be on the cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ktui.cli.context.errors import BadInput
from ktui.cli.options.common import unknown_topic
from ktui.cluster.clock import Clock
from ktui.cluster.fresh_read import FRESH_WITHIN_S, FreshMetadata
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.polled import topic_names
from ktui.cluster.ports import ClusterReader, TopicsAnswer
from ktui.planning.names import join_some, shortened

LEARNED_WITHIN_S = 1.0
"""Seconds within which brokers learn of a new topic: it takes them tenths of a second."""


async def check_on_cluster(
    reader: ClusterReader,
    clock: Clock,
    seen: Observation,
    topics: Sequence[str],
    partitions: Sequence[TopicPartition] = (),
    brokers: Sequence[int] = (),
) -> None:
    """Check that a cluster has what options name, moving or not.

    A broker may not have learned of a topic or a partition that was created a moment ago. So what
    the poll lacks is read again before it counts as missing, from fresh metadata where the cluster
    can prove its age.

    Args:
        reader: the cluster.
        clock: for the wait where the cluster cannot prove the age of its metadata.
        seen: a poll that was interested in all of this.
        topics: names of topics.
        partitions: partitions of any topics.
        brokers: ids, which may also be those of brokers that only reassignments name.

    Raises:
        BadInput: some are missing; names each of them, and the topic that was probably meant.
    """
    visible = {tp.topic for tp in seen.partitions} | {each.topic for each in seen.failures}
    lost = [topic for topic in topics if topic not in visible]
    absent = [tp for tp in partitions if tp in seen.absent]
    if (lost or absent) and not seen.fresh:
        again = await _read_again(reader, clock, {*lost, *(tp.topic for tp in absent)})
        lost = [topic for topic in lost if topic in again.absent]
        described = again.partitions.keys()
        hidden = {each.topic for each in again.failures}
        absent = [tp for tp in absent if tp not in described and tp.topic not in hidden]
    known = {*seen.brokers, *(b for state in seen.reassigning.values() for b in state.replicas)}
    missing = [f"broker {broker}" for broker in brokers if broker not in known]
    if not (lost or absent or missing):
        return
    names = {*await topic_names(reader)}
    lost += [tp.topic for tp in absent if names and tp.topic not in names]
    missing = [
        *(unknown_topic(topic, names) for topic in dict.fromkeys(lost)),
        *(
            f"partition {tp.partition} of topic {shortened(tp.topic)!r}"
            for tp in absent
            if tp.topic not in lost
        ),
        *missing,
    ]
    raise BadInput(f"the cluster does not have {join_some(missing, most=10)}")


async def _read_again(reader: ClusterReader, clock: Clock, topics: Collection[str]) -> TopicsAnswer:
    answer, fresh = await FreshMetadata(reader, clock).describe(topics, within_s=FRESH_WITHIN_S)
    if fresh:
        return answer
    await clock.sleep(LEARNED_WITHIN_S)
    return await reader.describe_topics(topics)
