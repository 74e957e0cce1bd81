"""Build the topics of a scenario, including ranges such as `metrics-{000..999}`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from ktui.simulated.layout import GIB, BrokerSpec, TopicSpec
from ktui.simulated.scenario.file import BrokerId, FieldPlace, TopicPart, TopicStartPart, as_text
from ktui.simulated.scenario.start import in_sync, with_start
from ktui.simulated.scenario.targets import alternate_racks, place_replicas
from ktui.simulated.scenario.texts import quantities, replica_lists
from ktui.simulated.scenario.world import World
from ktui.units import Rate, Size

USUAL_FACTOR = 3
Q = TypeVar("Q", Size, Rate)
_RANGE = re.compile(r"\{(\d{1,6})\.\.(\d{1,6})\}")


def add_topics(
    place: FieldPlace, value: dict[str | int, Any], world: World, brokers: Iterable[BrokerSpec]
) -> None:
    """Read the section `topics` of a file into `world`.

    Raises:
        FileProblem: a topic is wrong, or the disks of `brokers` cannot hold it; with the line.
    """
    room = _Room(brokers)
    for key, each in value.items():
        here = place.at(str(key))
        part = here.convert(each or {}, TopicStartPart)
        for name in names_of(here, str(key)):
            room.take(here, topic_of(here, name, part, world), world)


def topic_of(place: FieldPlace, name: str, part: TopicPart, world: World) -> TopicSpec:
    """Build a new topic, and add it to `world`.

    Raises:
        FileProblem: the topic is wrong, or exists already; with the line.
    """
    name = world.new_topic(place, name)
    if not part.message_size:
        raise place.at("message-size").problem("expected at least 1 byte")
    explicit = part.replicas is not None
    replicas = _explicit(place, part, world) if explicit else _placed(place, part, world)
    sizes = _of_each(place.at("size"), part.size, Size, len(replicas))
    inbounds = _of_each(place.at("inbound"), part.inbound, Rate, len(replicas))
    topic = TopicSpec(
        name=name,
        replicas=replicas,
        bytes_each=0 if isinstance(sizes, tuple) else int(sizes),
        sizes=tuple(map(int, sizes)) if isinstance(sizes, tuple) else (),
        message_bytes=int(part.message_size),
        inbound=mean_rate(inbounds) if isinstance(inbounds, tuple) else float(inbounds),
        inbounds=tuple(map(float, inbounds)) if isinstance(inbounds, tuple) else (),
        configs={key: as_text(value) for key, value in part.configs.items()},
    )
    if isinstance(part, TopicStartPart):
        topic = with_start(place, part, topic, world)
    world.add(place, topic)
    return topic


def _of_each(place: FieldPlace, value: Any, kind: type[Q], partitions: int) -> Q | tuple[Q, ...]:
    """Return one quantity for all partitions, or one for each."""
    found = quantities(place, value, kind)
    if isinstance(found, tuple) and len(found) != partitions:
        count = f"{len(found):,} for {partitions:,} partitions"
        raise place.problem(f"expected one value, or one for each partition, got {count}")
    return found


def mean_rate(rates: Sequence[float]) -> float:
    """Return what is written to a partition that is added to some with these rates."""
    return math.fsum(rates) / len(rates)


class _Room:
    """The space left on each broker's disk."""

    def __init__(self, brokers: Iterable[BrokerSpec]) -> None:
        self._disks = {broker.id: broker.disk_bytes for broker in brokers}
        self._used: Counter[int] = Counter()

    def take(self, place: FieldPlace, topic: TopicSpec, world: World) -> None:
        """Put a topic's replicas on the disks."""
        taken: Counter[int] = Counter()
        for partition in range(len(topic.replicas)):
            size = topic.size(partition)
            for broker in in_sync(topic, partition, world):
                taken[broker] += size
        for replica, held in topic.start.held.items():
            taken[replica.broker] += held
        self._used += taken
        for broker in taken:
            if self._used[broker] > self._disks[broker]:
                needed, has = _gib(self._used[broker]), _gib(self._disks[broker])
                raise place.problem(f"broker {broker} would need {needed}; its disk has {has}")


def _gib(count: int) -> str:
    return f"{count / GIB:,.4g} GiB"


def names_of(place: FieldPlace, pattern: str) -> Iterator[str]:
    """Expand the range in a name, if any, as shells do, keeping leading zeros."""
    found = _RANGE.search(pattern)
    if found is None:
        yield pattern
        return
    first, last = found[1], found[2]
    if int(first) > int(last):
        raise place.problem(f"expected a range from lower to higher, got {found[0]}")
    for number in range(int(first), int(last) + 1):
        yield f"{pattern[: found.start()]}{number:0{len(first)}d}{pattern[found.end() :]}"


def _placed(place: FieldPlace, part: TopicPart, world: World) -> tuple[tuple[int, ...], ...]:
    """Place partitions on brokers in turn; each topic begins at the next broker."""
    if part.partitions is None:
        raise place.problem("expected 'partitions', or 'replicas' with the brokers of each")
    brokers = alternate_racks(world.racks)
    if part.brokers is not None:
        brokers = list(world.brokers(place.at("brokers"), part.brokers))
    factor = part.replication_factor or min(USUAL_FACTOR, len(brokers))
    if factor > len(brokers):
        raise place.at("replication-factor").problem(
            f"{factor} replicas need {factor} brokers; there are {len(brokers)}"
        )
    no_racks = not any(world.racks.values())
    world.check_room(place, part.partitions, part.partitions * factor)
    return place_replicas(
        part.partitions, factor, brokers, first=len(world.topics), shifting=no_racks
    )


def _explicit(place: FieldPlace, part: TopicPart, world: World) -> tuple[tuple[int, ...], ...]:
    for key, other in (
        ("partitions", part.partitions),
        ("replication-factor", part.replication_factor),
        ("brokers", part.brokers),
    ):
        if other is not None:
            raise place.at(key).problem("not allowed with 'replicas', which defines it already")
    here = place.at("replicas")
    lists = replica_lists(here, part.replicas)
    if not lists:
        raise here.problem("expected the replicas of at least one partition")
    if isinstance(part.replicas, list):
        lists = here.convert(lists, list[list[BrokerId]])
    world.check_room(place, len(lists), sum(map(len, lists)))
    return tuple(world.brokers(here.at(index), each) for index, each in enumerate(lists))
