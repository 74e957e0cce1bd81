"""Makes the topics of a scenario, also many at once: `metrics-{000..999}`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ktui.simulated.layout import TopicSpec
from ktui.simulated.scenario.file import Place, TopicPart, as_text
from ktui.simulated.scenario.placing import in_turns_of_racks, spread
from ktui.simulated.scenario.world import World

MOST_PARTITIONS = 1_000_000
USUAL_FACTOR = 3
_RANGE = re.compile(r"\{(\d{1,6})\.\.(\d{1,6})\}")


def add_topics(place: Place, value: dict[str | int, Any], world: World) -> None:
    """Read the part `topics` of a file into `world`.

    Raises:
        FileProblem: with the line.
    """
    partitions = 0
    for key, each in value.items():
        here = place.at(str(key))
        part = here.convert(each or {}, TopicPart)
        for name in names_of(here, str(key)):
            topic = topic_of(here, name, part, world)
            world.topics[topic.name] = topic
            partitions += len(topic.replicas)
            if partitions > MOST_PARTITIONS:
                raise here.problem(f"more than {MOST_PARTITIONS:,} partitions in all")


def topic_of(place: Place, name: str, part: TopicPart, world: World) -> TopicSpec:
    """Make one topic that is not in `world` yet."""
    name = world.new_topic(place, name)
    if not part.message_size:
        raise place.at("message-size").problem("expected at least 1 byte")
    return TopicSpec(
        name=name,
        replicas=_placed(place, part, world)
        if part.replicas is None
        else _given(place, part, world),
        bytes_each=int(part.size),
        message_bytes=int(part.message_size),
        inbound=float(part.inbound),
        configs={key: as_text(value) for key, value in part.configs.items()},
    )


def names_of(place: Place, pattern: str) -> Iterator[str]:
    """Write out the range in a name, if it has one, as shells do: leading zeros are kept."""
    found = _RANGE.search(pattern)
    if found is None:
        yield pattern
        return
    first, last = found[1], found[2]
    if int(first) > int(last):
        raise place.problem(f"expected a range from the lower to the higher, got {found[0]}")
    for number in range(int(first), int(last) + 1):
        yield f"{pattern[: found.start()]}{number:0{len(first)}d}{pattern[found.end() :]}"


def _placed(place: Place, part: TopicPart, world: World) -> tuple[tuple[int, ...], ...]:
    """Place partitions on brokers in turn; each topic begins at the next broker."""
    if part.partitions is None:
        raise place.problem("expected 'partitions', or 'replicas' with the brokers of each")
    brokers = in_turns_of_racks(world.racks)
    if part.brokers is not None:
        brokers = list(world.brokers(place.at("brokers"), part.brokers))
    factor = part.replication_factor or min(USUAL_FACTOR, len(brokers))
    if factor > len(brokers):
        raise place.at("replication-factor").problem(
            f"{factor} replicas need as many brokers; there are {len(brokers)}"
        )
    no_racks = not any(world.racks.values())
    return spread(part.partitions, factor, brokers, first=len(world.topics), shifting=no_racks)


def _given(place: Place, part: TopicPart, world: World) -> tuple[tuple[int, ...], ...]:
    for key, other in (
        ("partitions", part.partitions),
        ("replication-factor", part.replication_factor),
        ("brokers", part.brokers),
    ):
        if other is not None:
            raise place.at(key).problem("not beside 'replicas', which says it already")
    here = place.at("replicas")
    if not part.replicas:
        raise here.problem("expected the replicas of at least one partition")
    return tuple(world.brokers(here.at(index), each) for index, each in enumerate(part.replicas))
