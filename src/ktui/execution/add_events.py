"""How an extra plan joins a run, as its journal keeps it (KIP-236)."""

from __future__ import annotations

import enum

from ktui.cluster.partition import TopicPartition
from ktui.execution.run_event import RunEvent


class OnConflict(enum.StrEnum):
    """What becomes of a partition that the run is moving elsewhere."""

    ROLLBACK = "rollback"
    """It is rolled back first, then queued with its new target (KIP-236)."""
    KEEP = "keep"
    """The run's own target stays, and the extra plan's is dropped for it."""
    RETARGET = "retarget"
    """Its step in flight is cancelled, and it goes to the new target from where it is."""


class Added(RunEvent, frozen=True, kw_only=True, tag="added"):
    """An extra plan joins the run; `partitions` of it follow in `planned` events, all or none."""

    plan: str
    """The file's name."""
    plan_sha256: str
    partitions: int
    on_conflict: OnConflict
    command: int | None = None
    who: str = ""


class Joined(RunEvent, frozen=True, kw_only=True, tag="joined"):
    """Partitions that the run had before wait in its queue for what an extra plan wants of them.

    What the run did with them before is over.
    """

    partitions: tuple[TopicPartition, ...]


AddEvent = Added | Joined
