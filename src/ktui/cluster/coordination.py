"""The groups and transactional ids that brokers coordinate, in Kafka's own topics."""

from __future__ import annotations

import enum
import struct

import msgspec

from ktui.cluster.errors import Operation

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_GROUPS_TOPIC = "__share_group_state"

INTERNAL_TOPICS = frozenset({GROUPS_TOPIC, TRANSACTIONS_TOPIC, SHARE_GROUPS_TOPIC})


TRANSACTIONS_NEED = 'Describe on the transactional ids "*"'
"""The permission that shows every transactional id, in Kafka's words."""
SHARE = "share"
STREAMS = "streams"
_SMALLEST_INT = -(2**31)


class CoordinatorKind(enum.StrEnum):
    """What a broker coordinates."""

    GROUP = "group"
    TRANSACTION = "transactional id"
    SHARE_GROUP = "share group"  # the state of a share group's deliveries

    @property
    def topic(self) -> str:
        return _KEPT[self][0]

    @property
    def operation(self) -> Operation:
        return _KEPT[self][1]


_KEPT = {
    CoordinatorKind.GROUP: (GROUPS_TOPIC, Operation.GROUPS),
    CoordinatorKind.TRANSACTION: (TRANSACTIONS_TOPIC, Operation.TRANSACTIONS),
    CoordinatorKind.SHARE_GROUP: (SHARE_GROUPS_TOPIC, Operation.SHARE_GROUPS),
}


class CoordinatedId(msgspec.Struct, frozen=True, gc=False):
    """A group, a transactional id, or a share group with one partition that it reads."""

    name: str  # cleaned for the terminal; so the hash cannot be computed from it
    hash: int  # the hash that finds its partition: `java_hash` of the id, or of `share_state_key`
    type: str = ""  # in lower case, as Kafka has it: `classic`, `consumer`, `share`, `streams`


class CoordinatedIds(msgspec.Struct, frozen=True):
    """The groups or transactional ids that one broker coordinates."""

    ids: tuple[CoordinatedId, ...]
    lacks: str = ""
    """The permission without which brokers may leave some out, in Kafka's words; empty if the
    principal has it."""


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode` of a text, which is over its UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for (unit,) in struct.iter_unpack(">H", units):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed


def share_state_key(group: str, topic_id: str, partition: int) -> str:
    """Return the key of a share group's state of one partition; `topic_id` in URL-safe base64."""
    return f"{group}:{topic_id}:{partition}"


def coordinating_partition(of: CoordinatedId, partitions: int) -> int:
    """Return the partition of the internal topic that keeps an id, by Kafka's `Utils.abs`."""
    return 0 if of.hash == _SMALLEST_INT else abs(of.hash) % partitions
