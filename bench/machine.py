"""How busy the machine and the JVMs of a lab are, sampled in a thread."""

from __future__ import annotations

import mmap
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.checks import check_count
from ktui.lab.layout import Lab
from ktui.lab.nodes import running

EVERY_S = 0.25
_PRESSURE = Path("/proc/pressure/io")
CPU_GROUPS = Path("/sys/fs/cgroup/cpu")
"""The control groups of Linux, version 1, which can limit a process's time."""
_COLLECTORS = tuple(f"sun.gc.collector.{number}.time" for number in range(3))
"""The young and the full collections, and the pauses of G1's concurrent cycles."""
_FREQUENCY = "sun.os.hrt.frequency"
_HEADER = struct.Struct("<4xBxxxiiqii")
"""After the magic: byte order, then used, overflow, time of change, first entry and entries."""
_ENTRY = struct.Struct("<iiiBBBxi")
_LONG = ord("J")


class Sample(msgspec.Struct, frozen=True):
    """The machine at one moment, in the seconds of `time.monotonic`."""

    at_s: float
    busy: int
    """Ticks of all CPUs that were not idle, since the machine started; and all ticks."""
    ticks: int
    gc_s: tuple[float, ...]
    """Seconds in which each JVM of the lab has stood still to collect garbage."""
    disk_s: float
    """Seconds in which some process waited for a disk, since the machine started."""
    held_s: tuple[float, ...]
    """Seconds in which each JVM of the lab had used up its share of the CPUs, and stood still."""


class Samples:
    """The samples of a period."""

    def __init__(self) -> None:
        self.all: list[Sample] = []

    def idle(self, since_s: float, until_s: float) -> float:
        """Return the share of the CPUs' time that was idle."""
        first, last = self._around(since_s, until_s)
        ticks = last.ticks - first.ticks
        return 1.0 if not ticks else 1 - (last.busy - first.busy) / ticks

    def gc_s(self, since_s: float, until_s: float) -> float:
        """Return the most seconds in which one JVM stood still to collect garbage."""
        first, last = self._around(since_s, until_s)
        return max(b - a for a, b in zip(first.gc_s, last.gc_s, strict=True))

    def held(self, since_s: float, until_s: float) -> float:
        """Return the largest share of the time in which one JVM had used up its share of CPU."""
        first, last = self._around(since_s, until_s)
        longest_s = max(b - a for a, b in zip(first.held_s, last.held_s, strict=True))
        return longest_s / max(last.at_s - first.at_s, 0.001)

    def disk(self, since_s: float, until_s: float) -> float:
        """Return the share of the time in which some process waited for a disk."""
        first, last = self._around(since_s, until_s)
        return (last.disk_s - first.disk_s) / max(last.at_s - first.at_s, 0.001)

    def _around(self, since_s: float, until_s: float) -> tuple[Sample, Sample]:
        before = [each for each in self.all if each.at_s <= since_s] or self.all[:1]
        after = [each for each in self.all if each.at_s >= until_s] or self.all[-1:]
        return before[-1], after[0]


@contextmanager
def sampled(lab: Lab | None) -> Iterator[Samples]:
    """Sample the machine until the end of the context, and the JVMs of a lab that lives so long."""
    pids = [] if lab is None else [process.pid for process in running(lab).values()]
    samples, stop = Samples(), threading.Event()

    def go_on() -> None:
        while not stop.wait(EVERY_S):
            samples.all.append(_sample(pids))

    samples.all.append(_sample(pids))
    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()
        samples.all.append(_sample(pids))


def _sample(pids: Sequence[int]) -> Sample:
    user, nice, system, idle, waiting, *rest = map(
        int, Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
    )
    busy = user + nice + system + sum(rest)
    ticks = busy + idle + waiting
    gc_s, held_s = tuple(map(_collecting_s, pids)), tuple(map(_held_s, pids))
    return Sample(time.monotonic(), busy, ticks, gc_s, _waited_for_disk_s(), held_s)


def _held_s(pid: int) -> float:
    """Return the seconds in which the control group of a process had used up its quota."""
    groups = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    split = (group.split(":", 2) for group in groups)
    paths = [path for _, names, path in split if "cpu" in names.split(",")]
    if not paths or not (stat := CPU_GROUPS / paths[0].lstrip("/") / "cpu.stat").exists():
        return 0.0
    counted = dict(line.split() for line in stat.read_text().splitlines())
    return int(counted["throttled_time"]) / 1e9


def _waited_for_disk_s() -> float:
    """Return the seconds by the kernel's pressure stall information (Documentation/accounting)."""
    try:
        some = _PRESSURE.read_text().partition("\n")[0]
    except FileNotFoundError:
        words = f"not measured: this kernel has no {_PRESSURE} (CONFIG_PSI, and psi=1)"
        raise SystemExit(words) from None
    return int(some.rpartition("=")[2]) / 1e6


def _collecting_s(pid: int) -> float:
    """Return the seconds of a JVM's pauses to collect garbage, by its performance counters.

    The file is HotSpot's `hsperfdata`, of version 2.0 on a little-endian machine.
    """
    files = list(Path("/tmp").glob(f"hsperfdata_*/{pid}"))  # noqa: S108 - where HotSpot puts it
    check_count("files of performance counters", len(files), 1)
    with files[0].open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        known = dict(_longs(data))
    ticks = sum(known.get(name, 0) for name in _COLLECTORS)
    return ticks / known[_FREQUENCY]


def _longs(data: mmap.mmap) -> Iterator[tuple[str, int]]:
    *_, first, entries = _HEADER.unpack_from(data)
    at = first
    for _ in range(entries):
        length, name_at, vector, kind, _, _, value_at = _ENTRY.unpack_from(data, at)
        if kind == _LONG and not vector:
            end = data.find(b"\0", at + name_at)
            name = data[at + name_at : end].decode()
            yield name, struct.unpack_from("<q", data, at + value_at)[0]
        at += length
