"""A plan's load on the disks of brokers, and warnings about unsuitable disks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ktui.cluster.broker import LogDir
from ktui.planning.check.findings import Finding, FindingKind, Severity
from ktui.quantities import as_count

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
