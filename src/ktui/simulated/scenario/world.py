"""The names that a scenario may use, and its cluster: brokers and what their machines can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, Verdict
from ktui.cluster.settings import broker_resource
from ktui.inputfile import unknown_key
from ktui.planning.plan import topic_name_problem
from ktui.simulated.controller import schema
from ktui.simulated.controller.configs import Configs, rules_of
from ktui.simulated.layout import VERSIONS, BrokerSpec, ClusterSpec, Tide, TopicSpec
from ktui.simulated.scenario.file import (
    BrokerPart,
    ClusterPart,
    FieldPlace,
    MachinePart,
    as_text,
    record_of,
)

MOST_PARTITIONS, MOST_REPLICAS = 300_000, 1_000_000
"""The largest cluster that can still be watched as it is played."""


class World:
    """What a file may name; each check raises a FileProblem, with the line."""

    def __init__(self, cluster: ClusterSpec) -> None:
        self.racks = {broker.id: broker.rack for broker in cluster.brokers}
        self.down = frozenset(broker.id for broker in cluster.brokers if broker.down)
        self.topics: dict[str, TopicSpec] = {}
        self._settings = Configs(cluster, self.topics, rules_of(cluster.version))
        self._partitions = self._replicas = 0

    def check_room(self, place: FieldPlace, partitions: int, replicas: int) -> None:
        for count, limit, noun in (
            (self._partitions + partitions, MOST_PARTITIONS, "partitions"),
            (self._replicas + replicas, MOST_REPLICAS, "replicas"),
        ):
            if count > limit:
                raise place.problem(f"that makes {count:,} {noun} in all; the limit is {limit:,}")

    def add(self, place: FieldPlace, topic: TopicSpec) -> None:
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
    shown = [str(name) for name in names][:8]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return f"{', '.join(shown)}{more}" if shown else "none"


MOST_BROKERS = 200
_KEYS_OF_SETTINGS = {
    schema.REBALANCE: "auto-leader-rebalance",
    schema.REBALANCE_INTERVAL: "rebalance-interval",
    schema.LAG_TIME: "replica-lag-time",
}


def read_cluster(place: FieldPlace, value: dict[str, Any]) -> ClusterSpec:
    """Read the section `cluster` of a file, still without topics."""
    part = place.convert(value, ClusterPart)
    version = str(part.version)
    if version not in VERSIONS:
        raise place.at("version").problem(f"expected one of {', '.join(VERSIONS)}, got {version}")
    if not part.tide.period_s:
        raise place.at("tide", "period").problem("expected more than 0 s")
    if not part.rebalance_interval_s:
        raise place.at("rebalance-interval").problem("expected more than 0 s")
    return record_of(
        ClusterSpec,
        part,
        brokers=_brokers(place, part),
        version=version,
        tide=record_of(Tide, part.tide),
        broker_configs=_settings(place.at("configs"), part),
    )


def with_topics(spec: ClusterSpec, topics: tuple[TopicSpec, ...]) -> ClusterSpec:
    """Return the cluster with these topics."""
    return msgspec.structs.replace(spec, topics=topics)


def check_broker_settings(place: FieldPlace, cluster: ClusterSpec, world: World) -> None:
    """Check the settings of single brokers, which Kafka must accept."""
    for index, broker in enumerate(cluster.brokers):
        for key, value in broker.configs.items():
            change = ConfigChange(broker_resource(broker.id), key, ConfigOp.SET, value)
            world.configure(place.at(index, "configs", key), change)


def _settings(place: FieldPlace, part: ClusterPart) -> dict[str, str]:
    """Check the static settings. A broker accepts settings that it does not know."""
    settings = {key: as_text(value) for key, value in part.configs.items()}
    for key, value in settings.items():
        if key in _KEYS_OF_SETTINGS:
            own = _KEYS_OF_SETTINGS[key]
            raise place.at(key).problem(
                f"not allowed in 'configs'; set it with {own!r} of 'cluster'"
            )
        if key in schema.BROKER and (problem := schema.BROKER[key].problem(key, value)):
            raise place.at(key).problem(problem)
        if key == schema.FETCH_BACKOFF and not value.isdecimal():
            raise place.at(key).problem(f"expected milliseconds, got {value!r}")
    return settings


def _brokers(place: FieldPlace, part: ClusterPart) -> tuple[BrokerSpec, ...]:
    here = place.at("brokers")
    parts = _listed(here, part.brokers) if isinstance(part.brokers, list) else _counted(part)
    if not 1 <= len(parts) <= MOST_BROKERS:
        raise here.problem(f"expected 1 to {MOST_BROKERS:,} brokers")
    ids: set[int] = set()
    for index, broker in enumerate(parts):
        if broker.id in ids:
            raise here.at(index).problem(f"broker {broker.id} is listed twice")
        ids.add(broker.id)
    return tuple(_broker(here, each, part, turn) for turn, each in enumerate(parts))


def _counted(part: ClusterPart) -> list[BrokerPart]:
    """Number the brokers from 1, up to one too many: enough to refuse any larger count."""
    assert isinstance(part.brokers, int)  # noqa: S101 - the caller has checked that it is no list
    return [BrokerPart(id=number) for number in range(1, min(part.brokers, MOST_BROKERS + 1) + 1)]


def _listed(place: FieldPlace, values: list[Any]) -> list[BrokerPart]:
    return [
        place.at(index).convert(value if isinstance(value, dict) else {"id": value}, BrokerPart)
        for index, value in enumerate(values)
    ]


def _broker(place: FieldPlace, own: BrokerPart, shared: ClusterPart, turn: int) -> BrokerSpec:
    """Fill in a broker's missing fields; brokers without a rack get the cluster's in turn."""
    rack = shared.racks[turn % len(shared.racks)] if shared.racks else None
    machine: dict[str, Any] = {}
    for name, key in zip(
        MachinePart.__struct_fields__, MachinePart.__struct_encode_fields__, strict=True
    ):
        value = getattr(shared if getattr(own, name) is None else own, name)
        if value is not None and value <= 0 and name != "copy_half_at":
            raise place.problem(f"{key} of broker {own.id}: expected more than 0")
        if value is not None:
            machine[name] = value
    own = msgspec.structs.replace(own, rack=own.rack or rack, **machine)
    configs = {key: as_text(value) for key, value in own.configs.items()}
    return record_of(BrokerSpec, own, configs=configs)
