"""Submit a scenario's plan: throttles of the followers being added, then all reassignments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from ktui.cluster.clock import Clock
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import (
    ClusterWriter,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, broker_resource, topic_resource
from ktui.simulated.layout import ClusterSpec
from ktui.simulated.scenario.file import ScenarioPlan

_CHUNK = 5_000  # partitions per request. Brokers write at most 10,000 records for one request

Refusals = tuple[str, ...]


async def submit_plan(
    plan: ScenarioPlan, spec: ClusterSpec, writer: ClusterWriter, clock: Clock
) -> Refusals:
    """Submit the plan once it is due; partitions only reordered get a preferred election."""
    await clock.sleep(plan.start_s)
    refused = [*await _set_throttles(plan, spec, writer)]
    current = _current(spec)
    targets = list(plan.targets.items())
    for start in range(0, len(targets), _CHUNK):
        chunk = dict(targets[start : start + _CHUNK])
        refused += _refused(
            await writer.alter_reassignments(chunk, allow_replication_factor_change=True)
        )
    reordered = [tp for tp, target in targets if set(target) == set(current[tp])]
    if reordered:
        refused += _refused(await writer.elect_preferred_leaders(reordered))
    return tuple(refused)


async def _set_throttles(plan: ScenarioPlan, spec: ClusterSpec, writer: ClusterWriter) -> Refusals:
    if plan.throttle is None:
        return ()
    current = _current(spec)
    adding = [
        Replica(tp, broker)
        for tp, target in plan.targets.items()
        for broker in target
        if broker not in current[tp]
    ]
    changes = _throttles(adding, int(plan.throttle))
    return tuple(_refused(await writer.alter_configs(changes)))


def _current(spec: ClusterSpec) -> Mapping[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition(topic.name, number): replicas
        for topic in spec.topics
        for number, replicas in enumerate(topic.replicas)
    }


def _throttles(adding: Iterable[Replica], rate: int) -> list[ConfigChange]:
    entries: defaultdict[str, list[str]] = defaultdict(list)
    brokers: set[int] = set()
    for replica in adding:
        entries[replica.tp.topic].append(f"{replica.tp.partition}:{replica.broker}")
        brokers.add(replica.broker)
    lists = [
        ConfigChange(topic_resource(topic), FOLLOWER_REPLICAS, ConfigOp.SET, ",".join(of))
        for topic, of in entries.items()
    ]
    rates = [
        ConfigChange(broker_resource(broker), FOLLOWER_RATE, ConfigOp.SET, str(rate))
        for broker in sorted(brokers)
    ]
    return lists + rates


def _refused(
    results: Mapping[TopicPartition, WriteResult] | Mapping[ConfigResource, WriteResult],
) -> list[str]:
    return [
        f"{_name(what)}: {_reason(result)}"
        for what, result in results.items()
        if result.verdict is not Verdict.ACCEPTED
    ]


def _reason(result: WriteResult) -> str:
    if result.verdict is Verdict.UNKNOWN:
        return "no answer; the change may have taken effect"
    if result.code is None:
        return "could not be reached, so nothing was sent to it"
    return f"Kafka refused it: {result.message} ({result.code})".replace(":  (", ": (")


def _name(what: TopicPartition | ConfigResource) -> str:
    return f"{what.scope.value} {what.name}" if isinstance(what, ConfigResource) else str(what)
