"""The commands to a live run: rows of its journal, which the engine handles in turn."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ktui import __version__
from ktui.cluster.partition import TopicPartition
from ktui.execution import JournalProblem
from ktui.execution.run.events import OnConflict, PauseOrigin, Planned
from ktui.execution.run.options import Schedule
from ktui.execution.run.states import CancelKind
from ktui.json_text import checked_moment, decode_untrusted, unknown_field
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


ENCODER = msgspec.json.Encoder()
_COMMANDS = msgspec.json.Decoder(Command)
_ANSWERS = msgspec.json.Decoder(Answer)


def stored_command(path: Path, row: tuple[Any, ...]) -> StoredCommand:
    """Decode a row of a journal's file. Raises JournalProblem: it cannot be read."""
    number, at, who, body, answer = row
    try:
        command, unknown = _command(body)
        return StoredCommand(
            number,
            checked_moment(datetime.fromisoformat(at.decode())),
            who.decode(),
            command,
            None if answer is None else decode_untrusted(_ANSWERS, answer),
            unknown,
        )
    except (ValueError, AttributeError, TypeError, msgspec.MsgspecError) as error:
        raise JournalProblem(f"{path}: command {number} cannot be read: {error}") from None


def _command(body: bytes) -> tuple[Command | None, str]:
    """No command is done in part: one with unknown parts is None, with what is unknown."""
    try:
        command: Command = decode_untrusted(_COMMANDS, body)
    except msgspec.DecodeError as error:  # the engine refuses it, and takes the next one
        return None, f"this command: {error}"
    if ENCODER.encode(command) == body:  # the quick way, for an extra plan may be long
        return command, ""
    field = unknown_field(body, command)
    return (command, "") if field is None else (None, f"`{field}` of this command")
