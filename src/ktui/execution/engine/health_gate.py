"""The health gate: no new step while too many partitions outside the run are unhealthy."""

from __future__ import annotations

from collections.abc import Container

from ktui.cluster.errors import Operation
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.options import RunOptions
from ktui.progress.health import Health, health


def closed_gate_reason(
    options: RunOptions, seen: Observation, ours: Container[TopicPartition]
) -> str | None:
    """Return why no new step may begin; None if one may.

    Partitions of the run do not count, so that the run does not wait for its own moves. An offline
    partition also counts as under min ISR.
    """
    if seen.census is None:
        return "the health of the cluster is not known yet"
    if options.most_under_min_isr is not None and (topic := _unjudged(seen, ours)):
        return f"min.insync.replicas of topic {topic} is not known yet"
    offline, under = _counted(seen, ours)
    for count, most, what in (
        (offline, options.most_offline, "offline"),
        (offline + under, options.most_under_min_isr, "under min ISR"),
    ):
        if most is not None and count > most:
            are = "partition outside the run is" if count == 1 else "partitions outside the run are"
            return f"{count:,} {are} {what}, more than the {most:,} allowed"
    return None


def _unjudged(seen: Observation, ours: Container[TopicPartition]) -> str | None:
    """Name a topic that lacks in-sync replicas, and whose settings will be known in a moment."""
    denied = {f.topic for f in seen.failures if f.operation is Operation.TOPIC_CONFIGS and f.denied}
    known = seen.topic_configs.keys() | denied
    lacking = (
        tp.topic
        for tp, state in seen.partitions.items()
        if tp not in ours and health(state, None) is Health.UNDER_REPLICATED
    )
    return next((topic for topic in lacking if topic not in known), None)


def _counted(seen: Observation, ours: Container[TopicPartition]) -> tuple[int, int]:
    offline = under = 0
    for tp, state in seen.partitions.items():
        if tp not in ours:
            how = health(state, seen.topic_configs.get(tp.topic))
            offline += how is Health.OFFLINE
            under += how is Health.UNDER_MIN_ISR
    return offline, under
