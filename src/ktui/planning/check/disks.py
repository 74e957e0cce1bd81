"""A plan's load on the disks of brokers, and warnings about unsuitable disks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ktui.cluster.broker import LogDir
from ktui.planning.check.findings import Finding, FindingKind, Severity
from ktui.quantities import as_bytes, as_count

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


class DiskLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A plan's effect on a broker's disks. Bytes; None where not known."""

    broker: int
    gains: int
    loses: int
    """The number of replicas that the broker loses; `gains` counts those added."""
    bytes_in: int | None
    bytes_out: int | None
    """Bytes of the replicas that the broker loses."""
    disk_bytes: int | None
    room_bytes: int | None
    """Free bytes now, in the log dirs that work and are not cordoned."""
    room_after_bytes: int | None
    """Free bytes afterwards; a negative figure is lacking."""
    room_at_peak_bytes: int | None
    """The least free bytes at one time, while some old replicas are still there."""


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


def disk_warnings(loads: Iterable[DiskLoad]) -> Iterator[Finding]:
    """Warn of brokers whose disks would have little or no room left."""
    for load in loads:
        if load.gains and (found := _room_warning(load)):
            yield found


def warning(kind: FindingKind, sentence: str) -> Finding:
    """Return a warning about no partition in particular."""
    return Finding(Severity.WARNING, kind, (), sentence)


def _room_warning(load: DiskLoad) -> Finding | None:
    after, peak, disk = load.room_after_bytes, load.room_at_peak_bytes, load.disk_bytes
    if after is None or peak is None or disk is None:
        return None
    least = min(after, peak)
    when = "" if after <= peak else " before old replicas leave it"
    gain = f"broker {load.broker} gets {as_bytes(load.bytes_in)}, has room for "
    if least <= 0:
        text = f"{gain}{as_bytes(load.room_bytes)} now, and would be full{when}"
        lacking = f": {as_bytes(-least)} too much" if least else ""
        return warning(FindingKind.DISK_FULL, f"{text}{lacking}")
    if least < LOW * disk:
        left = f"{as_bytes(least)}, {least / disk:.0%} of its disk"
        text = f"{gain}{as_bytes(load.room_bytes)} now, and would have {left}, left{when}"
        return warning(FindingKind.DISK_LOW, text)
    return None


def _sum(values: Iterable[int | None]) -> int | None:
    total: int | None = None
    for value in values:
        if value is None:
            return None
        total = (total or 0) + value
    return total
