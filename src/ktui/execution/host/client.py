"""A run as any process sees it: read from its journal, asked, noted in, and its changes undone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

import msgspec

from ktui.cluster.clock import Clock, SystemClock
from ktui.execution import JournalProblem, RunProblem, RunRefused
from ktui.execution.host.catalog import find_run
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.ownership import Holder, holder, own_run, this_process
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import AddNote, Answer, Command, SetLimits, SetThrottle
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run.events import JournalEntry, LimitsChanged, Noted, Started, ThrottleChanged
from ktui.execution.run.parts import EventT, Remembered
from ktui.execution.run.run import Run
from ktui.execution.run.text import limit_changes_text
from ktui.execution.run.throttle_status import foreign_rates_text
from ktui.pacing.limits import CHOICES, NUMBERS, OF_ONE_BROKER, OF_RUN, Limits

PATIENCE_S = 30.0  # until an answer: an engine may be in the middle of polling a slow cluster
_PAUSE_S = 0.05


class StoredRun(msgspec.Struct, frozen=True):
    """A run as its journal has it."""

    run: Run
    entries: Sequence[JournalEntry]
    damage: str | None  # of the journal; everything before it was read


class BegunRun(msgspec.Struct, frozen=True):
    """A run whose journal has its first event."""

    run: Run
    begun: Started
    damage: str | None  # of the journal; everything before it was read


class RunClient:
    """A run for a process that does not own it: reads the journal, and sends commands."""

    def __init__(self, folder: RunDir, clock: Clock | None = None) -> None:
        self.folder = folder
        self.name = folder.name
        self._clock = clock or SystemClock()

    @classmethod
    def find(cls, state: StateDir, name: str) -> Self:
        """Raises UnknownRun, which suggests names; StateDirProblem: no readable directory."""
        return cls(find_run(state, name))

    @property
    def owner(self) -> Holder | None:
        return holder(self.folder)

    def read(self) -> StoredRun:
        with RunFollower(self.folder.journal, self._clock) as follower:
            entries = follower.refresh()
        return StoredRun(follower.run, entries, follower.damage)

    def read_begun(self) -> BegunRun:
        """Check that its first event is there. Raises RunProblem: nothing readable, or cut off."""
        found = self.read()
        begun = found.run.started
        if begun is None:
            cut = f"{self.folder.journal}: the start of the run was cut off, and nothing was sent"
            raise RunProblem(found.damage or cut)
        return BegunRun(found.run, begun, found.damage)

    def read_live(self) -> Run:
        """Read a run that can answer. RunRefused: it cannot; RunProblem: unreadable."""
        run, name = self.read().run, self.name
        if run.ended:
            raise RunRefused(f"run {name} has ended. See its outcome: ktui status {name}")
        refuse_exported(run)
        if self.owner is None:
            raise RunRefused(f"run {name} has no engine. Start one: ktui resume {name}")
        return run

    def first_entry(self) -> JournalEntry | None:
        with self._open(read_only=True) as journal:
            return journal.first()

    def unanswered(self) -> list[Command | None]:
        with self._open(read_only=True) as journal:
            return [asked.command for asked in journal.asked()]

    def ask(self, command: Command) -> int:
        """Write a command into the journal; return its number. Raises RunProblem."""
        with self._open() as journal:
            return journal.ask(command, this_process().short)

    def wait_for_answer(self, number: int) -> Answer:
        """Raises RunProblem: no answer came; the message says when the command takes effect."""
        with self._open(read_only=True) as journal:
            return self._answer(journal, number)

    def send(self, command: Command) -> tuple[int, Answer]:
        """Ask, and wait: return the command's number and answer. Raises RunProblem."""
        number = self.ask(command)
        return number, self.wait_for_answer(number)

    def _open(self, *, read_only: bool = False) -> Journal:
        return Journal.open(self.folder.journal, self._clock, read_only=read_only)

    def _answer(self, journal: Journal, number: int) -> Answer:
        until, name = time.monotonic() + PATIENCE_S, self.name
        while (answer := journal.answer_to(number).answer) is None:
            owner = self.owner
            if owner is None and journal.answer_to(number).answer is None:
                raise RunProblem(
                    f"the engine of run {name} ended before it answered. Your command is in the "
                    f"journal, and takes effect when you resume the run: ktui resume {name}"
                )
            if time.monotonic() >= until:
                raise RunProblem(
                    f"no answer within {PATIENCE_S:.0f} s from {owner}. Your command is in the "
                    "journal, and takes effect when that process reads it. See: ktui status "
                    f"{name}"
                )
            time.sleep(_PAUSE_S)
        return answer


LONGEST_NOTE = 500


def note_problem(text: str) -> str | None:
    """Return why a text is no note; None for one that can be written."""
    if not text.strip():
        return "a note needs some words"
    if len(text) > LONGEST_NOTE:
        return f"a note has {LONGEST_NOTE} characters at most; this text has {len(text):,}"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "the note is not UTF-8"
    return None


def write_note(client: RunClient, text: str, clock: Clock | None = None) -> None:
    """Note something in a run, live or not. RunRefused: no note, or no run here; RunProblem."""
    if (problem := note_problem(text)) is not None:
        raise RunRefused(problem)
    found = client.read_begun()
    refuse_exported(found.run)
    if found.damage is not None:
        fix = f"`ktui resume {client.name}` recovers what is whole"
        raise JournalProblem(f"{found.damage}. {fix}")
    if client.owner is None:
        journal = client.folder.journal
        with own_run(client.folder) as owned, Journal.open(journal, clock or SystemClock()) as here:
            here.append([Noted(text=text, who=owned.holder.short)])
        return
    _, answer = client.send(AddNote(text))
    if not answer.accepted:
        raise RunRefused(f"run {client.name}: refused: {answer.words}")


class Undo(msgspec.Struct, frozen=True):
    """The command that puts back what a change has replaced, unless that was changed again."""

    change: Remembered[LimitsChanged] | Remembered[ThrottleChanged]
    command: SetLimits | SetThrottle

    @property
    def words(self) -> str:
        event = self.change.event
        if isinstance(event, LimitsChanged):
            return limit_changes_text(event.new, event.old)
        return f"{event.new.words} -> {event.old.words}"


def undo_limits(run: Run) -> Undo:
    """Return the undo of the last change of the limits. RunRefused: none, or somebody else's."""
    change = _own(run, run.limits_change, "limits")
    old, new = change.event.old, change.event.new
    command = SetLimits(_differing(old, new), _differing_brokers(old, new), instead_of=new)
    return Undo(change, command)


def undo_throttle(run: Run) -> Undo:
    """Return the undo of the last throttle change. RunRefused: none, or others' rate."""
    change = _own(run, run.throttle_change, "throttle")
    old, new = change.event.old, change.event.new
    if run.throttled.foreign:
        since = foreign_rates_text(run.throttled.foreign)
        raise RunRefused(
            f"the throttle of run {run.name} is not put back: {since}. To set the run's over it: "
            f"ktui throttle {run.name} {old.typed}"
        )
    return Undo(change, SetThrottle(old, instead_of=new))


def undo_last(run: Run) -> Undo:
    """Return the undo of the last change of either. RunRefused: as the two above."""
    limits, throttle = run.limits_change, run.throttle_change
    if limits is None and throttle is None:
        raise RunRefused(
            f"neither the limits nor the throttle of run {run.name} were changed since its start: "
            "there is nothing to undo"
        )
    if throttle is None or (limits is not None and limits.seq > throttle.seq):
        return undo_limits(run)
    return undo_throttle(run)


def _own(run: Run, change: Remembered[EventT] | None, what: str) -> Remembered[EventT]:
    if change is None:
        verb = "were" if what == "limits" else "was"
        raise RunRefused(
            f"the {what} of run {run.name} {verb} not changed since its start: there is nothing to "
            "undo"
        )
    who = change.event.who
    if _operator(who) != _operator(this_process().short):
        raise RunRefused(
            f"the last change of the {what} of run {run.name} is not yours: "
            f"{who or 'no operator'} made it. To change it all the same, give the new value"
        )
    return change


def _operator(who: str) -> str:
    """Who a process belongs to, for it may have been another view: "ada@ops1"."""
    return who.rpartition(" (")[0]


def _differing(old: Limits, new: Limits) -> dict[str, int | str | None]:
    fields = {option: option.replace("-", "_") for option in (*NUMBERS, *CHOICES)}
    return {
        option: getattr(old, field)
        for option, field in fields.items()
        if getattr(old, field) != getattr(new, field)
    }


def _differing_brokers(old: Limits, new: Limits) -> dict[int, dict[str, int | str | None]]:
    brokers: dict[int, dict[str, int | str | None]] = {}
    for option in OF_ONE_BROKER:
        before, now = old.own_of(option), new.own_of(option)
        for broker in sorted({*before, *now}):
            value = before.get(broker, OF_RUN)
            if value != now.get(broker, OF_RUN):
                brokers.setdefault(broker, {})[option] = value
    return brokers
