"""What options name has to be on the cluster."""

from __future__ import annotations

from collections.abc import Sequence

from ktui.cli.context.errors import BadInput
from ktui.cli.options.common import unknown_topic
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterReader
from ktui.planning.check.snapshot import topic_names
from ktui.planning.names import join_some, shortened


async def check_on_cluster(
    reader: ClusterReader,
    seen: Observation,
    topics: Sequence[str],
    partitions: Sequence[TopicPartition] = (),
    brokers: Sequence[int] = (),
) -> None:
    """Check that a cluster has what options name, moving or not.

    Args:
        reader: reads all names of topics where one is unknown, for the suggestion.
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
