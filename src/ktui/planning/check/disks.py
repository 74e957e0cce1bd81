"""Disks and log dirs: what of a plan fits, and the brokers that can be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ktui.cluster.broker import LogDir
from ktui.cluster.errors import ClusterError, Failure, NotAuthorized, Operation
from ktui.planning.check.findings import Finding, FindingKind, Severity
from ktui.quantities import as_count

A = TypeVar("A")


async def call_each_broker(
    operation: Operation, calls: Mapping[int, Coroutine[Any, Any, A]]
) -> tuple[Mapping[int, A], Sequence[Failure]]:
    """Call brokers, all at once: a slow one costs at most the adapter's call timeout."""
    answers: dict[int, A] = {}
    failures: dict[int, Failure] = {}

    async def one(broker: int, call: Coroutine[Any, Any, A]) -> None:
        try:
            answers[broker] = await call
        except ClusterError as error:
            denied = isinstance(error, NotAuthorized)
            failures[broker] = Failure(operation, str(error), broker, denied=denied)

    await asyncio.gather(*(one(broker, call) for broker, call in calls.items()))
    return answers, [failures[broker] for broker in sorted(failures)]


LOW = 0.1
"""The share of a disk below which free room counts as low."""


class Disk(msgspec.Struct, frozen=True):
    """The total of a broker's log dirs that can take new replicas: working and not cordoned.

    Bytes; None where the broker does not report them.
    """

    total: int | None = None
    room: int | None = None


def disk_of(log_dirs: Iterable[LogDir]) -> Disk:
    """Add up a broker's log dirs."""
    usable = [each for each in log_dirs if each.error is None and not each.cordoned]
    return Disk(_sum(d.total_bytes for d in usable), _sum(d.usable_bytes for d in usable))


def log_dir_warnings(
    gains: Mapping[int, int], log_dirs: Mapping[int, tuple[LogDir, ...]]
) -> Iterator[Finding]:
    """Warn of brokers that gain replicas but have log dirs that have failed."""
    for broker in sorted(gains):
        held = log_dirs.get(broker, ())
        replicas = as_count(gains[broker], "replica")
        if failed := [each for each in held if each.error is not None]:
            paths = ", ".join(f"{each.path} ({each.error})" for each in failed)
            text = f"broker {broker} gets {replicas}, and a log dir is offline: {paths}"
            yield warning(FindingKind.LOG_DIR_OFFLINE, text)


def warning(kind: FindingKind, sentence: str) -> Finding:
    """Return a warning about no partition in particular."""
    return Finding(Severity.WARNING, kind, (), sentence)


def _sum(values: Iterable[int | None]) -> int | None:
    total: int | None = None
    for value in values:
        if value is None:
            return None
        total = (total or 0) + value
    return total
