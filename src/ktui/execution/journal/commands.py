"""What is asked of a run while it lives: rows of its journal, which the engine takes in turn."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ktui import __version__
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.events import By, OnConflict, Planned
from ktui.planning.throttle_rates import ThrottleRates


class SetLimits(msgspec.Struct, frozen=True, tag_field="command", tag="limits"):
    """Put other limits in force, from the next decision on."""

    options: dict[str, int | str | None]
    """By option, as `pacing.limits.limits_from` takes them; those not named stay."""


class SetThrottle(msgspec.Struct, frozen=True, tag_field="command", tag="throttle"):
    """Put other rates in force, at once and also for what is in flight."""

    rates: ThrottleRates


class LeaveThrottles(msgspec.Struct, frozen=True, tag_field="command", tag="leave_throttles"):
    """Leave the throttles that cannot be taken off where they are, once nothing is to be moved."""


class Pause(msgspec.Struct, frozen=True, tag_field="command", tag="pause"):
    """Submit nothing new: for some topics and partitions, or with none named for all."""

    by: By = By.OPERATOR
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()


class Continue(msgspec.Struct, frozen=True, tag_field="command", tag="continue"):
    """Lift pauses: of some topics and partitions, or with none named every one."""

    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()


class CallOff(msgspec.Struct, frozen=True, tag_field="command", tag="cancel"):
    """Stop some topics and partitions, roll them back or trim them; with none named everything."""

    kind: CancelKind
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()


class Add(msgspec.Struct, frozen=True, tag_field="command", tag="add"):
    """Have an extra plan join the run; it is in here as a whole, as it was held to the cluster."""

    plan: str
    """The file's name."""
    plan_sha256: str
    partitions: tuple[Planned, ...]
    on_conflict: OnConflict


class Leave(msgspec.Struct, frozen=True, tag_field="command", tag="leave"):
    """End the owning process at once; Kafka goes on with what is in flight, `resume` with all."""


Command = SetLimits | SetThrottle | LeaveThrottles | Pause | Continue | CallOff | Add | Leave


class Answer(msgspec.Struct, frozen=True):
    """What became of a command."""

    accepted: bool
    words: str
    """For people: what it did, or why it was refused and what to do instead."""
    batch: int | None = None
    """The first decision that it binds."""


class Asked(msgspec.Struct, frozen=True):
    """A command as it stands in the journal."""

    id: int
    at: datetime
    who: str
    """user@host (pid)."""
    command: Command | None
    """None for one that this version does not know, or knows only in part."""
    answer: Answer | None = None
    unknown: str = ""
    """What this version does not know of it: "`brokers` of this command"."""


def refusal(asked: Asked) -> Answer:
    """Return the answer to a command that this version does not know as a whole."""
    words = f"ktui {__version__}, which owns the run, does not know {asked.unknown}"
    return Answer(accepted=False, words=words)
