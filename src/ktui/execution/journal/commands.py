"""The commands to a live run: rows of its journal, which the engine handles in turn."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import UNSET, UnsetType

from ktui import __version__
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import OnConflict, PauseOrigin, Planned
from ktui.execution.run.options import Schedule
from ktui.execution.run.states import CancelKind
from ktui.pacing.limits import Limits, parse_broker_limits, parse_limits
from ktui.planning.throttle_rates import ThrottleRates


class SetLimits(msgspec.Struct, frozen=True, tag_field="command", tag="limits", omit_defaults=True):
    """Put new limits in force, from the next decision on."""

    options: dict[str, int | str | None]  # by option, for `parse_limits`; others stay
    brokers: dict[int, dict[str, int | str | None]] = {}  # for `parse_broker_limits`
    instead_of: Limits | None = None  # change nothing unless these are in force, as for an undo

    def applied_to(self, limits: Limits) -> Limits:
        """Raises LimitsProblem: one of its limits cannot be used."""
        return parse_broker_limits(self.brokers, parse_limits(self.options, limits))


class SetThrottle(
    msgspec.Struct, frozen=True, tag_field="command", tag="throttle", omit_defaults=True
):
    """Put new throttle rates in force, at once and also for the steps in flight."""

    rates: ThrottleRates
    instead_of: ThrottleRates | None = None  # only if these, of nobody else, are in force


class SetSchedule(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag="schedule"):
    """Let steps begin, or the run end, at other times from now on; what is not set stays."""

    start_at: datetime | UnsetType | None = UNSET
    window: str | UnsetType = UNSET
    while_command: str | UnsetType = UNSET
    by: datetime | UnsetType | None = UNSET

    def applied_to(self, schedule: Schedule) -> Schedule:
        """Raises ValueError: one of its times, or its window, cannot be used."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        given = {name: value for name, value in fields.items() if value is not UNSET}
        return msgspec.structs.replace(schedule, **given)


class LeaveThrottles(msgspec.Struct, frozen=True, tag_field="command", tag="leave_throttles"):
    """Abandon throttles that cannot be removed, once nothing is left to move; they stay set."""


class Pause(msgspec.Struct, frozen=True, tag_field="command", tag="pause"):
    """Submit no new steps of the named topics and partitions; with none named, of the whole run."""

    by: PauseOrigin = PauseOrigin.OPERATOR
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()


class Continue(msgspec.Struct, frozen=True, tag_field="command", tag="continue"):
    """Lift the pauses of the named topics and partitions; with none named, every pause."""

    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()


class CancelMoves(msgspec.Struct, frozen=True, tag_field="command", tag="cancel"):
    """Stop, roll back or trim the named topics and partitions; with none named, everything."""

    kind: CancelKind
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()


class Add(msgspec.Struct, frozen=True, tag_field="command", tag="add"):
    """Add an extra plan to the run; the command holds all of it, as checked against the cluster."""

    plan: str  # the name of the plan's file
    plan_sha256: str
    partitions: tuple[Planned, ...]
    on_conflict: OnConflict


class AddNote(msgspec.Struct, frozen=True, tag_field="command", tag="note"):
    """Add an operator's note to the events of the run."""

    text: str


class StopEngine(msgspec.Struct, frozen=True, tag_field="command", tag="leave"):
    """Stop the engine at once; Kafka finishes the steps in flight, `resume` does the rest."""


Command = (
    SetLimits
    | SetThrottle
    | SetSchedule
    | LeaveThrottles
    | Pause
    | Continue
    | CancelMoves
    | Add
    | AddNote
    | StopEngine
)


class Answer(msgspec.Struct, frozen=True):
    """The answer to a command."""

    accepted: bool
    words: str  # the effect, or why it was refused and what to do instead
    batch: int | None = None  # the first decision that the command binds


class StoredCommand(msgspec.Struct, frozen=True):
    """A command as stored in the journal."""

    id: int
    at: datetime
    who: str  # user@host (pid)
    command: Command | None  # None if this version does not know all of it
    answer: Answer | None = None
    unknown: str = ""  # what this version does not know: "`brokers` of this command"


def refuse_unknown(asked: StoredCommand) -> Answer:
    """Return the answer to a command that this version does not fully know."""
    words = f"ktui {__version__}, which owns the run, does not know {asked.unknown}"
    return Answer(accepted=False, words=words)
