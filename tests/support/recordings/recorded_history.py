"""Recordings of hand-made observations, whole and damaged."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ktui.cluster.observation import Observation
from ktui.recording.recorder import Recorder
from ktui.simulated.clock import VirtualClock
from support.simulated.observations import START


class _Shifted(VirtualClock):
    """A clock whose monotonic time starts at another second."""

    def __init__(self, from_s: float) -> None:
        super().__init__(START)
        self._from_s = from_s

    def monotonic(self) -> float:
        return super().monotonic() + self._from_s


def a_recording(
    folder: Path, history: Iterable[Observation], *, monotonic_from_s: float = 0.0, **how: Any
) -> Path:
    """Record observations at their own seconds, and return the folder.

    Args:
        folder: the folder to record into.
        history: observations as `an_observation` makes them, of START and later.
        monotonic_from_s: the second that the machine's monotonic clock showed at START.
        how: further arguments of the recorder.
    """
    clock = _Shifted(monotonic_from_s)
    recorder = Recorder(folder, clock, **{"program": "a test", **how})
    for seen in history:
        clock.pass_time(max(0.0, seen.monotonic_s - clock.monotonic()))
        recorder.poll(seen)
    recorder.close()
    assert recorder.problem is None
    return folder


def files_of(folder: Path) -> list[Path]:
    """Return the files of the recordings under a folder."""
    return sorted(folder.rglob("*.jsonl.gz"))


def damaged(file: Path, *, line: int) -> None:
    """Change a letter of a line, numbered from 1."""
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    text = lines[line - 1]
    lines[line - 1] = text[:20] + (b"x" if text[20:21] != b"x" else b"y") + text[21:]
    file.write_bytes(gzip.compress(b"".join(lines)))
