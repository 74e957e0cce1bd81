"""What came of a plan on a twin: the run's journal, and what was seen beside it."""

from __future__ import annotations

import enum
from datetime import datetime

import msgspec

from ktui.execution.run.events import JournalEntry
from ktui.progress.health import HealthCounts
from ktui.progress.timeline import Cause, StallKind

AFTERWARDS_S = 60.0
"""Seconds after a fault in which its consequences are looked at."""


class EndedBy(enum.StrEnum):
    """How a rehearsal has ended."""

    RUN = "run"
    """The run has ended by itself."""
    LEFT = "left"
    """The engine has left the run, for instance at the time of --until."""
    STANDSTILL = "standstill"
    """Nothing has made headway for long, so nothing was waited for any more."""


class BrokerPeak(msgspec.Struct, frozen=True):
    """The most that one broker had to bear."""

    broker: int
    inflow: float
    """Bytes a second copied into it."""
    room: int
    """The least free bytes on its disk."""
    disk: int
    """The size of its disk, in bytes."""


class SeenStall(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which copies onto a broker made no headway, or too little."""

    kind: StallKind
    cause: Cause
    broker: int
    detail: str
    """The cause in words, with its figures; may be empty."""
    since_s: float
    """Seconds from the start of the run until it was seen first."""
    lasted_s: float
    partitions: int
    """The most partitions at one time."""

    @property
    def why(self) -> str:
        """The cause for people."""
        return self.detail or self.cause.value


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that has happened."""

    text: str
    at_s: float
    """Seconds from the start of the run."""
    health: HealthCounts | None = None
    """The unhealthy partitions of the cluster a minute later; None if it did not answer then."""


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, carried out on one twin."""

    entries: tuple[JournalEntry, ...]
    """The journal of the run."""
    began: datetime
    lasted_s: float
    """Seconds from the start to the end of the run, or to the last headway at a standstill."""
    ended_by: EndedBy
    why: str = ""
    """Why the run was left; empty if it has ended."""
    leader_epoch_bumps: int
    """Leader epochs that began on the plan's partitions, whatever the reason."""
    peaks: tuple[BrokerPeak, ...]
    """Of every broker, by its id."""
    stalls: tuple[SeenStall, ...]
    """In the order in which they began."""
    hits: tuple[Hit, ...]
    """The faults that have happened, in their order."""
    missed: tuple[str, ...] = ()
    """The faults whose moment never came."""
