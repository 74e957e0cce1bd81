"""What an operator asks of every plan that is made: which topics, and how much at most."""

from __future__ import annotations

import enum
from fnmatch import fnmatchcase

import msgspec

from ktui.cluster.coordination import INTERNAL_TOPICS
from ktui.planning.objective import is_canary


class Internal(enum.StrEnum):
    """When Kafka's own topics are moved."""

    FIRST = "first"
    LAST = "last"
    EXCLUDE = "exclude"


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that a plan may change, and the most that it may change; None for no bound."""

    topics: tuple[str, ...] = ()
    """Names, or shell patterns (`orders-*`); empty for all topics."""
    exclude: tuple[str, ...] = ()
    internal: Internal = Internal.LAST
    max_moves: int | None = None
    """Replicas that go to another broker."""
    max_bytes: int | None = None
    """Bytes that are copied."""
    max_leader_changes: int | None = None
    """Partitions whose preferred leader becomes another."""
    rack_aware: bool = True
    """Whether a partition never ends up on fewer racks than it is on."""
    keep_order: bool = False
    """Whether a new replica takes the place of the old one in the list, also as the leader."""

    def includes(self, topic: str) -> bool:
        """Return whether a plan may change a topic; that of a canary goes with its run."""
        if is_canary(topic) or (self.internal is Internal.EXCLUDE and topic in INTERNAL_TOPICS):
            return False
        if any(fnmatchcase(topic, pattern) for pattern in self.exclude):
            return False
        return not self.topics or any(fnmatchcase(topic, each) for each in self.topics)
