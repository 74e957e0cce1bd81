"""The groups and transactional ids that brokers coordinate, and where Kafka keeps each.

The leader of one partition of an internal topic coordinates an id. Which partition that is follows
from the id's hash and the topic's number of partitions.
"""

from __future__ import annotations

import enum
import struct

import msgspec

from ktui.cluster.errors import Operation
from ktui.cluster.internal_topics import GROUPS_TOPIC, TRANSACTIONS_TOPIC

TRANSACTIONS_NEED = 'Describe on the transactional ids "*"'
"""The permission that shows every transactional id, in Kafka's words."""
_SMALLEST_INT = -(2**31)


class CoordinatorKind(enum.StrEnum):
    """What a broker coordinates."""

    GROUP = "group"
    TRANSACTION = "transactional id"

    @property
    def topic(self) -> str:
        """The internal topic whose leaders are the coordinators."""
        return GROUPS_TOPIC if self is CoordinatorKind.GROUP else TRANSACTIONS_TOPIC

    @property
    def operation(self) -> Operation:
        """The read that lists them."""
        return Operation.GROUPS if self is CoordinatorKind.GROUP else Operation.TRANSACTIONS


class CoordinatedId(msgspec.Struct, frozen=True, gc=False):
    """A group or a transactional id."""

    name: str
    """Cleaned for the terminal; so the hash cannot be computed from it."""
    hash: int
    """The id's hash, as `java_hash` has it."""


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


def coordinating_partition(of: CoordinatedId, partitions: int) -> int:
    """Return the partition of the internal topic that keeps an id, as Kafka's `Utils.abs` has it.

    Args:
        of: the id.
        partitions: how many partitions the topic has; at least 1.
    """
    return 0 if of.hash == _SMALLEST_INT else abs(of.hash) % partitions
