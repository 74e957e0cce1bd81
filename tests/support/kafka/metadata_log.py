"""The controller's own record of events: its metadata log, read with Kafka's own tool."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.cluster.settings import (
    ALL,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    parse_throttled_list,
    throttled_entry,
)
from ktui.lab.layout import Lab, Node
from support.kafka.labs import is_before_43, tool_command

MAIN, MAIN_BEFORE_43 = "org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"
_RECOVERING = 1
_BESIDES = ("offset", "CreateTime")
_CREATED = "PARTITION_RECORD"
_CHANGES = (_CREATED, "PARTITION_CHANGE_RECORD")

Replicas = tuple[int, ...]


class PartitionRecord(msgspec.Struct, frozen=True):
    """A PARTITION_RECORD or PARTITION_CHANGE_RECORD; None for fields that a change leaves alone."""

    offset: int
    tp: TopicPartition
    replicas: Replicas | None
    adding: Replicas | None
    removing: Replicas | None
    isr: Replicas | None
    leader: int | None  # in a change, the new leader: its mere presence bumps the leader epoch
    created: bool
    unclean: bool
    """Whether the leader was elected although it was not in sync: it has to recover first."""


def partition_records(lab: Lab, topic: str) -> list[PartitionRecord]:
    """Return every record about the partitions of a topic, in the order of the log."""
    return partitions_among(dumped(lab), topic)


def partitions_among(
    records: Iterable[tuple[int, dict[str, Any]]], topic: str
) -> list[PartitionRecord]:
    """Pick the records about the partitions of a topic."""
    names: dict[str, str] = {}
    found = []
    for offset, record in records:
        data = record["data"]
        if record["type"] == "TOPIC_RECORD":
            names[data["topicId"]] = data["name"]
        elif record["type"] in _CHANGES and names.get(data["topicId"]) == topic:
            found.append(_partition(offset, topic, data, created=record["type"] == _CREATED))
    return found


class Alter(msgspec.Struct, frozen=True):
    """A reassignment that began, or that changed one in progress."""

    offset: int
    tp: TopicPartition
    target: Replicas
    adding: Replicas
    while_moving: bool  # whether the partition was already moving, to another target or back


class _Standing(msgspec.Struct, frozen=True):
    replicas: Replicas = ()
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> Replicas:
        return tuple(b for b in self.replicas if b not in self.removing)

    def after(self, record: PartitionRecord) -> _Standing:
        return _Standing(
            self.replicas if record.replicas is None else record.replicas,
            self.adding if record.adding is None else record.adding,
            self.removing if record.removing is None else record.removing,
        )


def alters(records: Iterable[PartitionRecord]) -> list[Alter]:
    """Return the alters in order; an alter that requests nothing new leaves no record.

    A cancel counts as an alter while the partition moves.
    """
    standing: dict[TopicPartition, _Standing] = {}
    found = []
    for record in records:
        tp = record.tp
        before = standing.get(tp, _Standing())
        now = standing[tp] = before.after(record)
        ended = before.moving and not now.moving and now.target == before.target
        if not (record.created or now == before or ended):
            found.append(Alter(record.offset, tp, now.target, now.adding, before.moving))
    return found


def elected(records: Iterable[PartitionRecord]) -> list[int]:
    """Return the leaders elected while the replicas stayed the same, in order."""
    changes = (record for record in records if not record.created)
    return [r.leader for r in changes if r.leader is not None and r.replicas is None]


def _partition(offset: int, topic: str, data: dict[str, Any], *, created: bool) -> PartitionRecord:
    def brokers(key: str) -> Replicas | None:
        return None if data.get(key) is None else tuple(data[key])

    leader = data.get("leader")
    return PartitionRecord(
        offset=offset,
        tp=TopicPartition(topic, data["partitionId"]),
        replicas=brokers("replicas"),
        adding=brokers("addingReplicas"),
        removing=brokers("removingReplicas"),
        isr=brokers("isr"),
        leader=None if leader == -2 else leader,  # the default: no change
        created=created,
        unclean=data.get("leaderRecoveryState") == _RECOVERING,
    )


def dumped(lab: Lab) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return every record of the log with its offset, as Kafka's tool prints it."""
    return ((offset, record) for offset, _, record in dumped_with_times(lab))


def dumped_with_times(lab: Lab) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield every record with its offset and its time in ms, from the longest controller log."""
    longest = max(lab.controllers, key=lambda controller: log_bytes(lab, controller))
    files = ",".join(map(str, _segments(lab, longest)))
    main = MAIN_BEFORE_43 if is_before_43(lab) else MAIN
    command = tool_command(lab, main, "--cluster-metadata-decoder", "--files", files)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        before, found, payload = line.partition("payload: ")
        if found and payload.startswith("{"):
            offset, at_ms = (before.split(f"{key}: ")[1].split()[0] for key in _BESIDES)
            yield int(offset), int(at_ms), json.loads(payload)


def log_bytes(lab: Lab, controller: Node) -> int:
    """Return the size of a controller's log in bytes; complete logs have the same size."""
    return sum(segment.stat().st_size for segment in _segments(lab, controller))


def _segments(lab: Lab, controller: Node) -> list[Path]:
    return sorted((lab.log_dirs(controller)[0] / "__cluster_metadata-0").glob("*.log"))


_TOPIC, _BROKER = 2, 4  # Kafka's numbers for the kinds of config resources
_LISTS = (FOLLOWER_REPLICAS, LEADER_REPLICAS)

Listed = frozenset[str]


class ListRecord(msgspec.Struct, frozen=True):
    """A change of a topic's list of throttled replicas."""

    offset: int
    key: str
    listed: Listed  # the entries of the list from then on


class ThrottleLog:
    """The history of a topic's partitions and lists, and of the brokers' rates."""

    def __init__(self, lab: Lab, topic: str) -> None:
        self._take(topic, list(dumped(lab)))

    @classmethod
    def among(cls, records: Sequence[tuple[int, dict[str, Any]]], topic: str) -> Self:
        """Build it from records of the log that were read already."""
        log = cls.__new__(cls)
        log._take(topic, records)
        return log

    def _take(self, topic: str, records: Sequence[tuple[int, dict[str, Any]]]) -> None:
        self.partitions = partitions_among(records, topic)
        self.lists: list[ListRecord] = []
        self.rates: defaultdict[int, list[tuple[int, str | None]]] = defaultdict(list)
        for offset, record in records:
            if record["type"] == "CONFIG_RECORD":
                self._setting(offset, record["data"], topic)

    def _setting(self, offset: int, data: dict[str, Any], topic: str) -> None:
        kind, name = data["resourceType"], data["resourceName"]
        if (kind, name) == (_TOPIC, topic) and data["name"] in _LISTS:
            self.lists.append(
                ListRecord(offset, data["name"], parse_throttled_list(data["value"] or ""))
            )
        elif kind == _BROKER and name and data["name"] == FOLLOWER_RATE:
            self.rates[int(name)].append((offset, data["value"]))

    def listed(self, offset: int, key: str, partition: int) -> Listed:
        """Return the entries of a partition just before a record."""
        before = [r.listed for r in self.lists if r.key == key and r.offset < offset]
        own = f"{partition}:"
        return frozenset(e for e in (before[-1] if before else ()) if e.startswith(own))

    def rate(self, offset: int, broker: int) -> str | None:
        """Return the rate of a broker just before a record."""
        before = [value for at, value in self.rates[broker] if at < offset]
        return before[-1] if before else None

    def in_sync(self, offset: int, partition: int) -> frozenset[int]:
        """Return the ISR of a partition just before a record."""
        before = [
            r.isr
            for r in self.partitions
            if r.tp.partition == partition and r.isr is not None and r.offset < offset
        ]
        return frozenset(before[-1] if before else ())


def held_to_the_rules(log: ThrottleLog, rate: str, *, most: int) -> int:
    """Check that each step was throttled before it began, and none when it cut or elected.

    Args:
        log: the log of a topic whose lists were empty before, and that only a run has moved.
        rate: the expected throttle of every broker that received a replica.
        most: how many replicas may have been in flight at once.

    Returns:
        The number of alters that add replicas.
    """
    _lists_only_what_comes(log, most)
    adding = 0
    for alter in alters(log.partitions):
        n = alter.tp.partition
        listed = log.listed(alter.offset, FOLLOWER_REPLICAS, n)
        assert listed == {throttled_entry(n, b) for b in alter.adding}, alter
        assert {log.rate(alter.offset, b) for b in alter.adding} <= {rate}, alter
        if not alter.adding:
            assert not log.listed(alter.offset, LEADER_REPLICAS, n), alter
        adding += bool(alter.adding)
    for election in filter(_elects, log.partitions):
        for key in _LISTS:
            assert not log.listed(election.offset, key, election.tp.partition), election
    return adding


def _lists_only_what_comes(log: ThrottleLog, most: int) -> None:
    """Check that the list never exceeds what is in flight, and has no replica already in sync."""
    before: Listed = frozenset()
    for record in log.lists:
        assert ALL not in record.listed
        if record.key == FOLLOWER_REPLICAS:
            assert len(record.listed) <= most, record
            for partition, broker in (map(int, e.split(":")) for e in record.listed - before):
                assert broker not in log.in_sync(record.offset, partition), record
            before = record.listed
    assert not before


def _elects(record: PartitionRecord) -> bool:
    return record.leader is not None and record.replicas is None and not record.created
