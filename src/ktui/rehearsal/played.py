"""What came of a plan on a twin: the run's journal, and what was seen beside it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime

import msgspec

from ktui.execution.run.events import JournalEntry
from ktui.progress.health import HealthCounts
from ktui.progress.timeline import Cause, Stall, StallKind

AFTERWARDS_S = 90.0
"""Seconds after a fault within which trouble shows, for copies that fall behind do so after 60 s
and a few polls. A twin is watched at least so long."""


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


class Lost(enum.Enum):
    """Why a broker does not serve."""

    DOWN = "down"
    HANGING = "hanging"
    """Its process is suspended."""
    DISK_FULL = "disk full"
    """It went down, and its disk has no room."""


class Aftermath(msgspec.Struct, frozen=True, kw_only=True):
    """What was true of a twin at the end of the time that counts to a fault."""

    until_s: float
    """Seconds from the start of the run until the next fault, or until nothing was watched."""
    lost: Mapping[int, Lost]
    """The brokers that do not serve, and do not come back by themselves."""
    slowed: Mapping[int, float]
    """The brokers that have only this share of their network and disk."""
    stalls: tuple[Stall, ...]
    """The alarms at the last poll: one of each kind, cause and broker."""
    unhealthy: Mapping[int | None, HealthCounts]
    """The unhealthy partitions of the cluster by the brokers that they lack: the lost ones, else
    those that lag. None has those whose old replicas are all in sync."""
    raised: Mapping[str, int]
    """What min.insync.replicas was at the start, of topics that are below a higher one now."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that has happened."""

    text: str
    at_s: float
    """Seconds from the start of the run."""
    after: Aftermath
    """That of the last fault is as of now while the twin is watched."""


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
