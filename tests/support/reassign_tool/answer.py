"""The answers of a program, and the state of a cluster after them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """What a program printed, and its exit code."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""


class PartitionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The replicas of a partition, and what becomes of them."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class ClusterState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tool that moves partitions can change on a cluster."""

    partitions: Mapping[str, PartitionState]
    throttles: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    """The throttle settings that are set, by `broker 1` or `topic orders`, and by key."""
