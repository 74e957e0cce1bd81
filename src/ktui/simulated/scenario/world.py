"""What a scenario may name: the brokers there are, and the topics at a moment of the story."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ktui.cluster.partition import TopicPartition
from ktui.simulated.layout import TopicSpec
from ktui.simulated.names import legal_topic_name
from ktui.simulated.scenario.file import Place
from ktui.simulated.scenario.placing import Racks


class World:
    """Brokers and topics by which names in a file are checked.

    Every check raises a FileProblem with the line of what names something that is not there.
    """

    def __init__(self, racks: Racks, topics: Iterable[TopicSpec] = ()) -> None:
        self.racks = racks
        self.topics: dict[str, TopicSpec] = {topic.name: topic for topic in topics}

    def broker(self, place: Place, broker: int) -> int:
        """Give the broker's id if there is such a broker."""
        if broker not in self.racks:
            raise place.problem(f"there is no broker {broker}; there are {_some(self.racks)}")
        return broker

    def brokers(self, place: Place, brokers: Iterable[int]) -> tuple[int, ...]:
        """Give ids of brokers, of which each must be there and named once."""
        found: list[int] = []
        for index, broker in enumerate(brokers):
            if broker in found:
                raise place.at(index).problem(f"broker {broker} is named twice")
            found.append(self.broker(place.at(index), broker))
        if not found:
            raise place.problem("expected at least one broker")
        return tuple(found)

    def topic(self, place: Place, name: str) -> TopicSpec:
        """Give a topic that there is now."""
        if name not in self.topics:
            raise place.problem(f"there is no topic {name!r} then; there are {_some(self.topics)}")
        return self.topics[name]

    def new_topic(self, place: Place, name: str) -> str:
        """Give the name if it may be a topic's and there is no such topic now."""
        if not legal_topic_name(name):
            expected = "letters, digits, '.', '_' and '-', at most 249 of them"
            raise place.problem(f"{name!r} cannot be a topic's name: expected {expected}")
        if name in self.topics:
            raise place.problem(f"there is a topic {name!r} already")
        return name

    def partition(self, place: Place, topic: str, number: int) -> TopicPartition:
        """Give a partition that there is now."""
        count = len(self.topic(place, topic).replicas)
        if not 0 <= number < count:
            raise place.problem(f"{topic} has no partition {number}; it has 0 to {count - 1}")
        return TopicPartition(topic, number)

    def partitions(self, place: Place, words: Iterable[str]) -> tuple[TopicPartition, ...]:
        """Give the partitions that words name: all of a topic, or one as `orders:3`."""
        found: dict[TopicPartition, None] = {}
        for index, word in enumerate(words):
            found.update(dict.fromkeys(self._named(place.at(index), word)))
        if not found:
            raise place.problem("expected at least one topic, or partition such as orders:3")
        return tuple(found)

    def _named(self, place: Place, word: str) -> Iterable[TopicPartition]:
        topic, colon, number = word.partition(":")
        if not colon:
            return self.all_partitions([self.topic(place, topic)])
        if not number.isdecimal():
            raise place.problem(f"expected a topic, or a partition such as orders:3, got {word!r}")
        return [self.partition(place, topic, int(number))]

    @staticmethod
    def all_partitions(topics: Iterable[TopicSpec]) -> Iterable[TopicPartition]:
        """Give every partition of topics."""
        for topic in topics:
            for number in range(len(topic.replicas)):
                yield TopicPartition(topic.name, number)


def _some(names: Mapping[str, object] | Mapping[int, object]) -> str:
    """Name a few of those there are."""
    shown = [str(name) for name in names][:8]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return f"{', '.join(shown)}{more}" if shown else "none"
