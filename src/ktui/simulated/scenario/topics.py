"""Build the topics of a scenario, and how their partitions are at the first moment."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

import msgspec

from ktui.cluster.partition import Brokers, Replica, TopicPartition
from ktui.quantities import Rate, Share, Size
from ktui.simulated.layout import GIB, USUAL_WEIGHT, BrokerSpec, TopicSpec, TopicStart
from ktui.simulated.scenario.file import BrokerId, FieldPlace, TopicPart, TopicStartPart, as_text
from ktui.simulated.scenario.world import World

Q = TypeVar("Q", Size, Rate)
Entry = tuple[FieldPlace, int, Any]
_LIST = "expected a list, or a text such as '1,2,3 2,3,1'"
_SPARSE = "expected partitions and values, such as {7: 2, 12: 3} or '7=2 12=3'"


def replica_lists(place: FieldPlace, value: Any) -> list[Any]:
    """Return a list of brokers for each partition: of lists, or of a text such as `1,2,3 2,3,1`."""
    if isinstance(value, list):
        return value
    return [_brokers(place, word) for word in _text(place, value, _LIST).split()]


def quantities(place: FieldPlace, value: Any, kind: type[Q]) -> Q | tuple[Q, ...]:
    """Return one quantity, or one for each partition: of a list, or of a text, `1GiB 5MB`."""
    if isinstance(value, list):
        return tuple(place.at(index).convert(each, kind) for index, each in enumerate(value))
    words = value.split() if isinstance(value, str) else ()
    if len(words) > 1 and words[1][0].isdecimal():  # no unit after a blank
        return tuple(_quantity(place, word, kind) for word in words)
    return place.convert(value, kind)


def entries(place: FieldPlace, value: Any, partitions: int) -> Iterator[Entry]:
    """Yield the entries of some partitions: of a map, or of a text such as `7=2 12=3`."""
    if value is None:
        return
    if isinstance(value, dict):
        words = [(place.at(str(key)), str(key), each) for key, each in value.items()]
    else:
        split = (word.partition("=") for word in _text(place, value, _SPARSE).split())
        words = [(place, key, each) for key, _, each in split]
    seen: set[int] = set()
    for here, key, each in words:
        if not key.isdecimal() or each in (None, ""):
            raise here.problem(_SPARSE)
        partition = int(key)
        if partition >= partitions:
            raise here.problem(f"there is no partition {key}; there are 0 to {partitions - 1}")
        if partition in seen:
            raise here.problem(f"partition {partition} is named twice")
        seen.add(partition)
        yield here, partition, each


def broker_list(place: FieldPlace, value: Any) -> list[int]:
    """Return brokers: of a list, of a text such as `1,2`, or a single one."""
    if isinstance(value, list):
        return [place.at(index).convert(each, int) for index, each in enumerate(value)]
    return _brokers(place, str(value))


def sizes_by_broker(place: FieldPlace, value: Any) -> Iterator[tuple[FieldPlace, int, Size]]:
    """Yield a size for some brokers: of a map, or of a text such as `4:12GB,5:3GB`."""
    if isinstance(value, dict):
        for key, each in value.items():
            here = place.at(str(key))
            yield here, here.convert(key, int), here.convert(each, Size)
        return
    for word in _text(place, value, "expected brokers and sizes").split(","):
        broker, _, size = word.partition(":")
        if not broker.isdecimal() or not size:
            raise place.problem(f"expected a broker and a size, such as 4:12GB, got {word!r:.40}")
        yield place, int(broker), _quantity(place, size, Size)


def _brokers(place: FieldPlace, text: str) -> list[int]:
    brokers = text.split(",")
    for broker in brokers:
        if not broker.isdecimal() or not broker.isascii():
            raise place.problem(f"expected ids of brokers such as 1,2,3, got {text!r:.40}")
    return [int(broker) for broker in brokers]


def _quantity(place: FieldPlace, word: str, kind: type[Q]) -> Q:
    if word.isdecimal() and len(word) < 16:  # noqa: PLR2004 - most are plain, and small enough
        return kind(int(word))
    return place.convert(word, kind)


def _text(place: FieldPlace, value: Any, expected: str) -> str:
    """Return a text; YAML reads one of a single number as the number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise place.problem(expected)
    return str(value)


def with_start(
    place: FieldPlace, part: TopicStartPart, topic: TopicSpec, world: World
) -> TopicSpec:
    """Return a topic of the first moment with the state of its partitions."""
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
        if not topic.in_sync(partition, world.down):
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
        if leader in world.down or leader not in topic.in_sync(partition, world.down):
            raise here.problem(f"partition {partition}: broker {leader} is not in sync, or is down")
        leaders[partition] = leader
    return leaders


def _held(
    place: FieldPlace, part: TopicStartPart, topic: TopicSpec, world: World
) -> dict[Replica, int]:
    held = {
        Replica(TopicPartition(topic.name, partition), broker): topic.size(partition)
        for partition, replicas in enumerate(topic.replicas if world.down else ())
        for broker in replicas
        if broker in world.down and broker not in topic.in_sync(partition, world.down)
    }
    for where, partition, value in entries(place, part.held, len(topic.replicas)):
        synced, size = topic.in_sync(partition, world.down), topic.size(partition)
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


USUAL_FACTOR = 3
_RANGE = re.compile(r"\{(\d{1,6})\.\.(\d{1,6})\}")


def add_topics(
    place: FieldPlace, value: dict[str | int, Any], world: World, brokers: Iterable[BrokerSpec]
) -> None:
    """Read the section `topics` of a file into `world`."""
    room = _Room(brokers)
    for key, each in value.items():
        here = place.at(str(key))
        part = here.convert(each or {}, TopicStartPart)
        for name in names_of(here, str(key)):
            room.occupy(here, topic_of(here, name, part, world), world)


def topic_of(place: FieldPlace, name: str, part: TopicPart, world: World) -> TopicSpec:
    """Build a new topic, and add it to `world`."""
    name = world.new_topic(place, name)
    if not part.message_size:
        raise place.at("message-size").problem("expected at least 1 byte")
    explicit = part.replicas is not None
    replicas = _explicit(place, part, world) if explicit else _placed(place, part, world)
    sizes = _of_each(place.at("size"), part.size, Size, len(replicas))
    weights: tuple[Size, ...] = ()
    inbounds = _of_each(place.at("inbound"), part.inbound, Rate, len(replicas))
    if part.spread:
        sizes = _uneven(f"{name} size", sizes, part.spread, len(replicas))
        inbounds = _uneven(f"{name} inbound", inbounds, part.spread, len(replicas))
        weights = _uneven(f"{name} copies", Size(USUAL_WEIGHT), part.spread, len(replicas))
    topic = TopicSpec(
        name=name,
        replicas=replicas,
        bytes_each=0 if isinstance(sizes, tuple) else int(sizes),
        sizes=tuple(map(int, sizes)) if isinstance(sizes, tuple) else (),
        message_bytes=int(part.message_size),
        inbound=mean_rate(inbounds) if isinstance(inbounds, tuple) else float(inbounds),
        inbounds=tuple(map(float, inbounds)) if isinstance(inbounds, tuple) else (),
        weights=tuple(max(1, int(weight)) for weight in weights),
        configs={key: as_text(value) for key, value in part.configs.items()},
    )
    if isinstance(part, TopicStartPart):
        topic = with_start(place, part, topic, world)
    world.add(place, topic)
    return topic


def _of_each(place: FieldPlace, value: Any, kind: type[Q], partitions: int) -> Q | tuple[Q, ...]:
    found = quantities(place, value, kind)
    if isinstance(found, tuple) and len(found) != partitions:
        count = f"{len(found):,} for {partitions:,} partitions"
        raise place.problem(f"expected one value, or one for each partition, got {count}")
    return found


def _uneven(of: str, values: Q | tuple[Q, ...], spread: Share, partitions: int) -> tuple[Q, ...]:
    """Return values of the same kind, each up to `spread` more or less: always the same ones."""
    each = values if isinstance(values, tuple) else (values,) * partitions
    chance = random.Random(of)  # noqa: S311 - a simulation's dice
    return tuple(type(value)(value * (1 + spread * (2 * chance.random() - 1))) for value in each)


def mean_rate(rates: Sequence[float]) -> float:
    """Return what is written to a partition that is added to some with these rates."""
    return math.fsum(rates) / len(rates)


class _Room:
    def __init__(self, brokers: Iterable[BrokerSpec]) -> None:
        self._disks = {broker.id: broker.disk_bytes for broker in brokers}
        self._used: Counter[int] = Counter()

    def occupy(self, place: FieldPlace, topic: TopicSpec, world: World) -> None:
        taken = topic.held(world.down)
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


def alternate_racks(racks: Mapping[int, str | None]) -> list[int]:
    """Order brokers so that neighbours are in different racks, as long as racks last."""
    by_rack: dict[str | None, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    turns = zip_longest(*by_rack.values())
    return [broker for turn in turns for broker in turn if broker is not None]


def place_replicas(
    partitions: int, factor: int, brokers: Sequence[int], *, first: int = 0, shifting: bool = False
) -> tuple[tuple[int, ...], ...]:
    """Assign replicas to brokers in turn; `shifting` moves followers each round, as Kafka does."""
    count = len(brokers)
    return tuple(
        tuple(
            brokers[(first + number + gap) % count]
            for gap in _gaps(factor, count, number // count if shifting else 0)
        )
        for number in range(partitions)
    )


def _gaps(factor: int, count: int, shift: int) -> list[int]:
    return [0, *(1 + (shift + place) % (count - 1) for place in range(factor - 1))]


def _placed(place: FieldPlace, part: TopicPart, world: World) -> tuple[tuple[int, ...], ...]:
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
