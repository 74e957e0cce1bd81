"""The throttles of a topic in the controller's own log, in order with the steps they are for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Self

import msgspec

from ktui.cluster.settings import (
    ALL,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    parse_throttled_list,
    throttled_entry,
)
from ktui.lab.layout import Lab
from support.kafka.metadata_log import PartitionRecord, alters, dumped, partitions_among

_TOPIC, _BROKER = 2, 4
"""Kafka's numbers for the kinds of config resources."""
_LISTS = (FOLLOWER_REPLICAS, LEADER_REPLICAS)

Listed = frozenset[str]


class ListRecord(msgspec.Struct, frozen=True):
    """A change of a topic's list of throttled replicas."""

    offset: int
    key: str
    listed: Listed
    """The entries of the list from then on."""


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
