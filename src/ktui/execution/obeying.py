"""The commands of operators and scripts, carried out between two looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ktui import __version__
from ktui.execution.commands import Answer, Asked, Continue, Leave, Pause, SetLimits
from ktui.execution.decider import Decider
from ktui.execution.events import By, Continued, Event, LimitsChanged, Paused
from ktui.execution.journal import Journal
from ktui.execution.run import Run
from ktui.pacing.limits import LimitsProblem, Mode, limits_from

Record = Callable[[Sequence[Event]], None]


class Obeying:
    """Takes the commands that wait in the journal, and answers each.

    A command that was carried out and not answered, because the process died in between, is
    carried out again by the next: each of them says how things are to be, so that changes nothing.
    """

    def __init__(self, run: Run, journal: Journal, decider: Decider, record: Record) -> None:
        self._run = run
        self._journal = journal
        self._decider = decider
        self._record = record
        self._version: int | None = None
        self.leave_reason: str | None = None
        """Why the run is to be left; None while it is not."""

    def take_commands(self) -> None:
        """Carry out what was asked since the last time."""
        version = self._journal.data_version()
        if version == self._version:
            return
        for asked in self._journal.asked():
            self._journal.answer(asked.id, self._carried_out(asked))
        self._version = version

    def _carried_out(self, asked: Asked) -> Answer:
        match asked.command:
            case SetLimits():
                return self._set_limits(asked.command, asked)
            case Pause() | Continue() as command if unknown := self._unknown(command):
                return Answer(accepted=False, words=f"{unknown} is not in the run")
            case Pause():
                return self._pause(asked.command, asked)
            case Continue():
                return self._go_on(asked.command, asked)
            case Leave():
                self.leave_reason = f"{asked.who} asked for it"
                return Answer(accepted=True, words="the run is being left; `ktui resume` goes on")
            case None:
                words = f"ktui {__version__}, which owns the run, does not know this command"
                return Answer(accepted=False, words=words)

    def _set_limits(self, command: SetLimits, asked: Asked) -> Answer:
        old, flying = self._run.limits, self._run.in_flight
        try:
            new = limits_from(command.options, old)
        except LimitsProblem as problem:
            return Answer(accepted=False, words=str(problem))
        binds = self._decider.next_batch
        if new == old:
            return Answer(accepted=True, words="these are in force already", batch=binds)
        changed = LimitsChanged(
            old=old,
            new=new,
            batch=binds - 1,
            in_flight=flying,
            command=asked.id,
            who=asked.who,
        )
        self._record([changed])
        self._decider.set_limits(new)
        stay = f"; {flying:,} in flight stay as they are" if flying else ""
        since = f"from decision {binds:,} on"
        if new.mode is Mode.WAVE:
            rest = "the rest of " if binds == self._run.batch else ""
            since = f"{rest}wave {binds:,} and what follows"
        words = f"in force: they bind {since}{stay}"
        return Answer(accepted=True, words=words, batch=binds)

    def _pause(self, command: Pause, asked: Asked) -> Answer:
        paused = Paused(
            by=command.by,
            topics=command.topics,
            partitions=command.partitions,
            command=asked.id,
            who=asked.who,
        )
        self._record([paused])
        self._decider.apply_pauses()
        flying = self._run.in_flight
        words = "paused: nothing new is submitted"
        if flying and not (command.topics or command.partitions):
            words += f"; {flying:,} in flight will finish"
        return Answer(accepted=True, words=words)

    def _go_on(self, command: Continue, asked: Asked) -> Answer:
        going = Continued(
            by=By.OPERATOR,
            topics=command.topics,
            partitions=command.partitions,
            command=asked.id,
            who=asked.who,
        )
        self._record([going])
        self._decider.apply_pauses()
        return Answer(accepted=True, words=self._going(command))

    def _going(self, command: Continue) -> str:
        """Say that it goes on, or which wider pause it still waits for."""
        if reason := self._run.pauses.reason:
            return f"lifted; the whole run is paused still: {reason}"
        held = [tp.topic for tp in command.partitions if self._run.pauses.holds(tp)]
        return f"lifted; topic {held[0]} is paused still" if held else "it goes on"

    def _unknown(self, command: Pause | Continue) -> str | None:
        """Name what of a command the run does not have."""
        topics = {tp.topic for tp in self._run.tracks} if command.topics else set()
        unknown = [
            *(f"topic {topic}" for topic in command.topics if topic not in topics),
            *(f"partition {tp}" for tp in command.partitions if tp not in self._run.tracks),
        ]
        return unknown[0] if unknown else None
