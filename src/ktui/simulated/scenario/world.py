"""The names that a scenario may use: its brokers, and the topics at a moment of the story."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, Verdict
from ktui.inputfile import unknown_key
from ktui.planning.names import topic_name_problem
from ktui.simulated.controller import schema
from ktui.simulated.controller.configs import Configs
from ktui.simulated.controller.rules import rules_of
from ktui.simulated.layout import ClusterSpec, TopicSpec
from ktui.simulated.scenario.file import FieldPlace

MOST_PARTITIONS, MOST_REPLICAS = 300_000, 1_000_000
"""The largest cluster that can still be watched as it is played."""


class World:
    """Brokers, topics and their settings, against which a file is checked.

    Every check raises a FileProblem, with the line, for an unknown name or a value that the cluster
    would refuse.
    """

    def __init__(self, cluster: ClusterSpec) -> None:
        self.racks = {broker.id: broker.rack for broker in cluster.brokers}
        self.down = frozenset(broker.id for broker in cluster.brokers if broker.down)
        """The brokers that are down at the start."""
        self.topics: dict[str, TopicSpec] = {}
        self._settings = Configs(cluster, self.topics, rules_of(cluster.version))
        self._partitions = self._replicas = 0

    def check_room(self, place: FieldPlace, partitions: int, replicas: int) -> None:
        """Check that this many more partitions and replicas can be played."""
        for count, limit, noun in (
            (self._partitions + partitions, MOST_PARTITIONS, "partitions"),
            (self._replicas + replicas, MOST_REPLICAS, "replicas"),
        ):
            if count > limit:
                raise place.problem(f"that makes {count:,} {noun} in all; the limit is {limit:,}")

    def add(self, place: FieldPlace, topic: TopicSpec) -> None:
        """Add a created topic; Kafka must accept its settings."""
        here = place.at("configs")
        for key, value in topic.configs.items():
            if key not in schema.TOPIC:
                raise here.at(key).problem(unknown_key(key, schema.TOPIC))
            result = self._settings.create(topic.name, {key: value})
            if result.verdict is not Verdict.ACCEPTED:
                raise here.at(key).problem(result.message)
        self._settings.create(topic.name, topic.configs)
        self.topics[topic.name] = topic
        self._count(topic, 1)

    def remove(self, topic: TopicSpec) -> None:
        del self.topics[topic.name]
        self._settings.forget(topic.name)
        self._count(topic, -1)

    def configure(self, place: FieldPlace, change: ConfigChange) -> None:
        """Apply a changed setting; Kafka must accept it."""
        for result in self._settings.alter([change]).values():
            if result.verdict is not Verdict.ACCEPTED:
                raise place.problem(result.message)

    def _count(self, topic: TopicSpec, sign: int) -> None:
        self._partitions += sign * len(topic.replicas)
        self._replicas += sign * sum(map(len, topic.replicas))

    def broker(self, place: FieldPlace, broker: int) -> int:
        if broker not in self.racks:
            raise place.problem(f"there is no broker {broker}; known brokers: {_some(self.racks)}")
        return broker

    def brokers(self, place: FieldPlace, brokers: Iterable[int]) -> tuple[int, ...]:
        """Return ids of brokers. Each must exist and be named once."""
        named = tuple(brokers)
        if named and len({*named}) == len(named) and self.racks.keys() >= {*named}:
            return named  # a large file has very many, and this is quick
        found: list[int] = []
        for index, broker in enumerate(named):
            if broker in found:
                raise place.at(index).problem(f"broker {broker} is named twice")
            found.append(self.broker(place.at(index), broker))
        if not found:
            raise place.problem("expected at least one broker")
        return tuple(found)

    def topic(self, place: FieldPlace, name: str) -> TopicSpec:
        if name not in self.topics:
            known = _some(self.topics)
            raise place.problem(f"there is no topic {name!r} at this time; known topics: {known}")
        return self.topics[name]

    def new_topic(self, place: FieldPlace, name: str) -> str:
        """Return the name if it is a valid topic name that is not in use."""
        if problem := topic_name_problem(name):
            raise place.problem(problem)
        if name in self.topics:
            raise place.problem(f"there is a topic {name!r} already")
        return name

    def partition(self, place: FieldPlace, topic: str, number: int) -> TopicPartition:
        count = len(self.topic(place, topic).replicas)
        if not 0 <= number < count:
            raise place.problem(f"{topic} has no partition {number}; it has 0 to {count - 1}")
        return TopicPartition(topic, number)

    def partitions(self, place: FieldPlace, words: Iterable[str]) -> tuple[TopicPartition, ...]:
        """Return the partitions that words name: all of a topic, or one such as `orders:3`."""
        found: dict[TopicPartition, None] = {}
        for index, word in enumerate(words):
            found.update(dict.fromkeys(self._named(place.at(index), word)))
        if not found:
            raise place.problem("expected at least one topic, or partition such as orders:3")
        return tuple(found)

    def _named(self, place: FieldPlace, word: str) -> Iterable[TopicPartition]:
        topic, colon, number = word.partition(":")
        if not colon:
            return self.all_partitions([self.topic(place, topic)])
        if not number.isdecimal():
            raise place.problem(f"expected a topic, or a partition such as orders:3, got {word!r}")
        return [self.partition(place, topic, int(number))]

    @staticmethod
    def all_partitions(topics: Iterable[TopicSpec]) -> Iterable[TopicPartition]:
        for topic in topics:
            for number in range(len(topic.replicas)):
                yield TopicPartition(topic.name, number)


def _some(names: Mapping[str, object] | Mapping[int, object]) -> str:
    """List up to eight names, and the number of the others."""
    shown = [str(name) for name in names][:8]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return f"{', '.join(shown)}{more}" if shown else "none"
