"""Read how partitions of a topic are at the first moment, where they differ from healthy ones."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import Brokers, Replica, TopicPartition
from ktui.simulated.layout import TopicSpec, TopicStart
from ktui.simulated.scenario.file import FieldPlace, TopicStartPart
from ktui.simulated.scenario.texts import broker_list, entries, sizes_by_broker
from ktui.simulated.scenario.world import World


def with_start(
    place: FieldPlace, part: TopicStartPart, topic: TopicSpec, world: World
) -> TopicSpec:
    """Return a topic of the first moment with the state of its partitions.

    Raises:
        FileProblem: a partition cannot be in that state; with the line.
    """
    targets = _targets(place.at("reassigning"), part, topic, world)
    topic = _with(topic, TopicStart(reassigning=targets))
    topic = _with(
        topic, TopicStart(reassigning=targets, isr=_isr(place.at("isr"), part, topic, world))
    )
    if world.down:
        _check_up(place, topic, world)
    leaders = _leaders(place.at("leaders"), part, topic, world)
    held = _held(place.at("held"), part, topic, world)
    return _with(topic, msgspec.structs.replace(topic.start, leaders=leaders, held=held))


def in_sync(topic: TopicSpec, partition: int, world: World) -> Brokers:
    """Return the replicas of a partition that are in sync; those before a fault at their start."""
    isr = topic.start.isr.get(partition)
    if isr is None and world.down:
        return tuple(b for b in topic.replicas[partition] if b not in world.down)
    return topic.replicas[partition] if isr is None else isr


def _with(topic: TopicSpec, start: TopicStart) -> TopicSpec:
    return msgspec.structs.replace(topic, start=start)


def _targets(
    place: FieldPlace, part: TopicStartPart, topic: TopicSpec, world: World
) -> dict[int, Brokers]:
    targets = {}
    for here, partition, value in entries(place, part.reassigning, len(topic.replicas)):
        target = world.brokers(here, broker_list(here, value))
        if {*target} == {*topic.replicas[partition]}:
            raise here.problem(f"partition {partition}: the target adds and removes nothing")
        targets[partition] = target
    return targets


def _isr(
    place: FieldPlace, part: TopicStartPart, topic: TopicSpec, world: World
) -> dict[int, Brokers]:
    found = {}
    for here, partition, value in entries(place, part.isr, len(topic.replicas)):
        isr = world.brokers(here, broker_list(here, value))
        for broker in isr:
            _check_replica(here, topic, partition, broker)
        down = [broker for broker in isr if broker in world.down]
        if 0 < len(down) < len(isr):
            raise here.problem(
                f"partition {partition}: broker {down[0]} is down, so it is not in sync"
            )
        found[partition] = isr
    return found


def _check_up(place: FieldPlace, topic: TopicSpec, world: World) -> None:
    for partition in range(len(topic.replicas)):
        if not in_sync(topic, partition, world):
            raise place.problem(
                f"all brokers of partition {partition} are down. Name those that were in sync last "
                "with 'isr'"
            )


def _leaders(
    place: FieldPlace, part: TopicStartPart, topic: TopicSpec, world: World
) -> dict[int, int]:
    leaders = {}
    for here, partition, value in entries(place, part.leaders, len(topic.replicas)):
        brokers = broker_list(here, value)
        if len(brokers) != 1:
            raise here.problem(f"partition {partition}: expected one broker")
        leader = world.broker(here, brokers[0])
        if leader in world.down or leader not in in_sync(topic, partition, world):
            raise here.problem(f"partition {partition}: broker {leader} is not in sync, or is down")
        leaders[partition] = leader
    return leaders


def _held(
    place: FieldPlace, part: TopicStartPart, topic: TopicSpec, world: World
) -> dict[Replica, int]:
    """Return the bytes of replicas out of sync. Brokers that are down have theirs in full."""
    held = {
        Replica(TopicPartition(topic.name, partition), broker): topic.size(partition)
        for partition, replicas in enumerate(topic.replicas if world.down else ())
        for broker in replicas
        if broker in world.down and broker not in in_sync(topic, partition, world)
    }
    for where, partition, value in entries(place, part.held, len(topic.replicas)):
        synced, size = in_sync(topic, partition, world), topic.size(partition)
        for here, broker, each in sizes_by_broker(where, value):
            _check_replica(here, topic, partition, broker)
            if broker in synced:
                raise here.problem(
                    f"partition {partition}: broker {broker} is in sync, so it holds everything"
                )
            if each > size:
                raise here.problem(
                    f"partition {partition}: broker {broker} cannot hold more than the partition's "
                    f"{size:,} bytes"
                )
            held[Replica(TopicPartition(topic.name, partition), broker)] = int(each)
    return {replica: size for replica, size in held.items() if size}


def _check_replica(place: FieldPlace, topic: TopicSpec, partition: int, broker: int) -> None:
    if broker not in (*topic.replicas[partition], *topic.start.reassigning.get(partition, ())):
        raise place.problem(f"partition {partition} has no replica on broker {broker}")
