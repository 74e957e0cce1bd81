"""The setting that cordons log dirs of a broker (KIP-1066, from Kafka 4.3)."""

from __future__ import annotations

from collections.abc import Iterable

CORDONED = "cordoned.log.dirs"
"""A broker's setting: its log dirs that get no replicas of new partitions."""
EVERY = "*"
"""The value that stands for all log dirs of the broker."""
LOG_DIRS = ("log.dirs", "log.dir")
"""A broker's settings with the paths of its log dirs; the first that is set counts."""


def split_paths(value: str) -> tuple[str, ...]:
    """Split a list of paths as Kafka does, without blanks around its commas."""
    return tuple(part for part in map(str.strip, value.split(",")) if part)


def cordoned_paths(value: str, paths: Iterable[str]) -> frozenset[str]:
    """Return which of a broker's log dirs a value of the setting names."""
    named = split_paths(value)
    return frozenset(path for path in paths if EVERY in named or path in named)
