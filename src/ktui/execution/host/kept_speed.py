"""What a run has shown of its cluster's speed, kept in its folder for the next run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, ObservationSource, SourceWrapper
from ktui.durable import write_whole
from ktui.execution.host.state_dir import RunDir
from ktui.inputfile import Unreadable, read_input
from ktui.speed.shown import SCHEMA_VERSION, SpeedShown, together

EVERY_S = 20.0
"""Seconds between two writes: an engine that is killed leaves what it knew at the last one."""
_MOST_BYTES = 16 * 1024**2

log = logging.getLogger(__name__)


class KeptSpeed:
    """Keeps what a run has shown so far. A file that cannot be written disturbs no run.

    Args:
        folder: the run's folder.
        clock: the clock of the polls.
        shown: returns what the present engine has seen; None before its first poll.
    """

    def __init__(
        self, folder: RunDir, clock: Clock, shown: Callable[[], SpeedShown | None]
    ) -> None:
        self._path, self._clock, self._shown = folder.speed, clock, shown
        self._before = read_kept(folder.speed)
        """What earlier engines of the run have seen."""
        self._written_s: float | None = None
        self._problem: str | None = None

    def through(self, source: ObservationSource) -> ObservationSource:
        """Return a source that keeps, now and then, what the polls before have shown."""
        return _KeepingSource(source, self)

    def write_if_due(self) -> None:
        """Write the file, unless it was written just now."""
        now_s = self._clock.monotonic()
        if self._written_s is None or now_s - self._written_s >= EVERY_S:
            self.write()

    def write(self) -> None:
        """Write the file, also if nothing was copied: then no one looks for it in the journal."""
        shown = self._shown()
        if shown is None:
            return
        self._written_s = self._clock.monotonic()
        whole = msgspec.json.encode(together(self._before, shown))
        try:
            write_whole(self._path, msgspec.json.format(whole, indent=1))
        except OSError as error:
            if error.strerror != self._problem:
                log.warning("%s: cannot be written: %s", self._path, error.strerror)
            self._problem = error.strerror


def read_kept(path: Path) -> SpeedShown | None:
    """Read the file of a run; None if there is none, or none that this version can read."""
    try:
        shown = msgspec.json.decode(read_input(path, _MOST_BYTES), type=SpeedShown)
    except (Unreadable, msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return shown if shown.schema_version <= SCHEMA_VERSION else None


class _KeepingSource(SourceWrapper):
    """Polls a cluster, and keeps what the polls have shown."""

    def __init__(self, source: ObservationSource, kept: KeptSpeed) -> None:
        super().__init__(source)
        self._kept = kept

    async def poll(self, interest: Interest) -> Observation:
        """Poll once.

        Raises:
            ClusterError: the cluster does not answer.
        """
        self._kept.write_if_due()
        return await super().poll(interest)
