"""One look at what a plan is about, and at nothing else of the cluster."""

from __future__ import annotations

from collections.abc import Collection

from ktui.cluster.errors import ClusterError
from ktui.cluster.ports import ClusterReader
from ktui.planning.finding import ClusterSnapshot
from ktui.planning.plan import Plan


async def snapshot(reader: ClusterReader, plan: Plan) -> ClusterSnapshot:
    """Read brokers, ongoing reassignments, and the partitions and settings of the plan's topics.

    Raises:
        ClusterError: one of these cannot be read at all.
    """
    cluster = await reader.describe_cluster()
    listed = await reader.list_reassignments()
    topics = await reader.describe_topics({target.topic for target in plan.partitions})
    configs = await reader.topic_configs({tp.topic for tp in topics.partitions})
    return ClusterSnapshot(
        partitions=topics.partitions,
        brokers=cluster.brokers,
        configs=configs.configs,
        listed=listed,
        topics=await _all_topics(reader) if topics.absent else (),
        failures=topics.failures,
    )


async def _all_topics(reader: ClusterReader) -> Collection[str]:
    """Give the names among which one may have been meant; none where they cannot be read."""
    names: set[str] = set()
    try:
        async for page in reader.scan_topics():
            names.update(tp.topic for tp in page.partitions)
    except ClusterError:
        return ()  # a suggestion is lost, and nothing that the check rests on
    return names
