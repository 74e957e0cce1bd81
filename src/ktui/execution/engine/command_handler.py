"""The commands of operators and scripts, carried out between two polls."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ktui.execution import RunProblem, RunRefused
from ktui.execution.engine.add_plan import PlanAdder
from ktui.execution.engine.decider import Decider
from ktui.execution.journal import commands
from ktui.execution.journal.commands import Answer, StoredCommand, refuse_unknown
from ktui.execution.journal.journal import EngineJournal
from ktui.execution.run import events
from ktui.execution.run.plans import chunked
from ktui.execution.run.run import Run
from ktui.execution.run.scope import CancelScope
from ktui.execution.run.text import limit_changes_text, schedule_text, scope_text
from ktui.execution.run.throttle_status import (
    foreign_rates_text,
    lifted_text,
    setting_text,
    taken_over_text,
)
from ktui.execution.throttle.write_settings import Record
from ktui.pacing.limits import Limits, LimitsProblem, Mode
from ktui.planning.throttle_rates import ThrottleRates, no_such_brokers
from ktui.quantities import as_count

log = logging.getLogger(__name__)

DEFECT = "it cannot be carried out"  # begins the answer where ktui itself has failed


class CommandHandler:
    """Carries out the commands that wait in the journal, and answers each.

    Whatever a command holds, the engine goes on: what cannot be carried out is refused.

    If the process dies between carrying out a command and answering it, the next process repeats
    the command. Each command states the desired result, so the repetition changes nothing.
    """

    def __init__(
        self,
        run: Run,
        journal: EngineJournal,
        decider: Decider,
        record: Record,
        check_throttle: Callable[[], None],
    ) -> None:
        self._run = run
        self._journal = journal
        self._decider = decider
        self._record = record
        self._check_throttle = check_throttle
        self._adding = PlanAdder(run, decider, record)
        self._version: int | None = None
        self.leave_reason: str | None = None  # None while it is not left

    @property
    def has_commands(self) -> bool:
        return self._journal.data_version() != self._version

    def take_commands(self) -> None:
        """Carry out what has arrived since the last call, and queue what had to wait."""
        self._adding.queue_rested()
        version = self._journal.data_version()
        if version == self._version:
            return
        for asked in self._journal.asked():
            self._journal.answer(asked.id, self._answer_to(asked))
        self._version = version

    def _answer_to(self, asked: StoredCommand) -> Answer:
        """One that cannot be carried out is answered, so that no engine meets it again."""
        try:
            return self._carry_out(asked)
        except RunProblem:  # of the journal, or of who owns the run: no fault of the command
            raise
        except Exception as error:
            log.exception("command %d of %s cannot be carried out", asked.id, asked.who)
            words = (
                f"{DEFECT}, though a part of it may be in force; the run goes on: {error!r:.200}"
            )
            return Answer(accepted=False, words=words)

    def _carry_out(self, asked: StoredCommand) -> Answer:  # noqa: C901, PLR0911 - one case per command
        match asked.command:
            case commands.SetLimits():
                return self._set_limits(asked.command, asked)
            case commands.SetThrottle():
                return self._set_throttle(asked.command, asked)
            case commands.SetSchedule():
                return self._set_schedule(asked.command, asked)
            case commands.LeaveThrottles():
                return self._leave_throttles(asked)
            case commands.Pause() | commands.Continue() | commands.CancelMoves() as command if (
                unknown := self._unknown(command)
            ):
                return Answer(accepted=False, words=f"{unknown} is not in the run")
            case commands.Pause():
                return self._pause(asked.command, asked)
            case commands.Continue():
                return self._continue(asked.command, asked)
            case commands.CancelMoves():
                return self._mark_cancelled(asked.command, asked)
            case commands.Add():
                return self._adding.carry_out(asked.command, asked)
            case commands.AddNote():
                return self._note(asked.command, asked)
            case commands.StopEngine():
                self.leave_reason = f"{asked.who} asked for it"
                return Answer(accepted=True, words="the run is being left; `ktui resume` goes on")
            case None:
                return refuse_unknown(asked)

    def _set_limits(self, command: commands.SetLimits, asked: StoredCommand) -> Answer:
        old, in_flight = self._run.limits, self._run.in_flight
        try:
            new = command.applied_to(old)
        except LimitsProblem as problem:
            return Answer(accepted=False, words=str(problem))
        binds = self._decider.next_batch
        if unknown := no_such_brokers(_with_own(new) - _with_own(old), self._known_brokers()):
            return Answer(accepted=False, words=f"nothing is changed: {unknown}")
        if new == old:
            return Answer(accepted=True, words="these are in force already", batch=binds)
        if command.instead_of not in (None, old):
            now = limit_changes_text(command.instead_of, old)
            words = f"nothing is changed: the limits were changed meanwhile: {now}"
            return Answer(accepted=False, words=words)
        changed = events.LimitsChanged(
            old=old, new=new, batch=binds - 1, in_flight=in_flight, command=asked.id, who=asked.who
        )
        self._record([changed])
        self._decider.set_limits(new)
        stay = f"; {in_flight:,} in flight stay as they are" if in_flight else ""
        since = f"from decision {binds:,} on"
        if new.mode is Mode.WAVE:
            rest = "the rest of " if binds == self._run.batch else ""
            since = f"{rest}wave {binds:,} and what follows"
        words = f"in force: they bind {since}{stay}"
        return Answer(accepted=True, words=words, batch=binds)

    def _known_brokers(self) -> frozenset[int]:
        polled = self._decider.brokers
        tracks = self._run.tracks.values() if polled else ()
        return polled.union(*((*track.original, *track.target) for track in tracks))

    def _set_schedule(self, command: commands.SetSchedule, asked: StoredCommand) -> Answer:
        old = self._run.schedule
        try:
            new = command.applied_to(old)
        except ValueError as problem:
            return Answer(accepted=False, words=f"nothing is changed: {problem}")
        if new == old:
            return Answer(accepted=True, words="this is in force already")
        if new.by is not None and old.by is None and (refusal := self._refused_throttle()):
            return Answer(accepted=False, words=refusal)
        self._record([events.ScheduleChanged(old=old, new=new, command=asked.id, who=asked.who)])
        return Answer(accepted=True, words=f"in force: {schedule_text(new)}")

    def _set_throttle(self, command: commands.SetThrottle, asked: StoredCommand) -> Answer:
        old, new = self._run.throttled.rates, command.rates
        if self._run.throttled.is_kept(new):
            return Answer(accepted=True, words="this is in force already")
        if command.instead_of is not None and (since := self._throttle_since(command.instead_of)):
            return Answer(accepted=False, words=f"nothing is changed: {since}")
        if unknown := new.unknown_brokers(self._decider.brokers):
            return Answer(accepted=False, words=unknown)
        problem = self._run.options.figure_problem(new.objective)
        if refusal := problem or (self._refused_throttle() if new else None):
            return Answer(accepted=False, words=refusal)
        replaced = taken_over_text(self._run.throttled.foreign, new)
        self._record([events.ThrottleChanged(old=old, new=new, command=asked.id, who=asked.who)])
        if not new:
            return Answer(accepted=True, words="lifted: what was set is being put back")
        copying = as_count(self._run.in_flight, "step")
        lifted = lifted_text(old, new)
        words = (f"{new.words}, at once", f"{copying} in flight", lifted, replaced)
        return Answer(accepted=True, words="; ".join(filter(None, words)))

    def _throttle_since(self, rates: ThrottleRates) -> str:
        throttled = self._run.throttled
        if throttled.foreign:
            return foreign_rates_text(throttled.foreign)
        if throttled.rates != rates:
            return f"the throttle was changed meanwhile: {throttled.rates.words}"
        return ""

    def _refused_throttle(self) -> str | None:
        try:
            self._check_throttle()
        except RunRefused as refused:
            return str(refused)
        return None

    def _leave_throttles(self, asked: StoredCommand) -> Answer:
        left = self._run.throttled.changed
        if not left:
            return Answer(accepted=True, words="nothing of the run's throttle is left anywhere")
        if self._run.over < len(self._run.tracks):
            words = "it still moves partitions, and takes its throttle off when they are over"
            return Answer(accepted=False, words=words)
        reason = f"left behind, as {asked.who} asked"
        settings = self._run.throttled.ours
        self._record(
            [events.SettingsGivenUp(resource=r, keys=(key,), reason=reason) for r, key in settings]
        )
        named = "; ".join(setting_text(key, ours) for key, ours in left.items())
        return Answer(accepted=True, words=f"left behind, and no longer the run's: {named}")

    def _pause(self, command: commands.Pause, asked: StoredCommand) -> Answer:
        paused = events.Paused(
            by=command.by,
            topics=command.topics,
            partitions=command.partitions,
            command=asked.id,
            who=asked.who,
        )
        self._record([paused])
        self._decider.apply_pauses()
        scope = scope_text(command.topics, command.partitions)
        in_flight = 0 if scope else self._run.in_flight
        words = "paused: nothing new is submitted"
        words += f" for {scope}" if scope else ""
        words += f"; {in_flight:,} in flight will finish" if in_flight else ""
        return Answer(accepted=True, words=words)

    def _continue(self, command: commands.Continue, asked: StoredCommand) -> Answer:
        going = events.Continued(
            by=events.PauseOrigin.OPERATOR,
            topics=command.topics,
            partitions=command.partitions,
            command=asked.id,
            who=asked.who,
        )
        self._record([going])
        self._decider.apply_pauses()
        return Answer(accepted=True, words=self._continued_in_words(command))

    def _continued_in_words(self, command: commands.Continue) -> str:
        if reason := self._run.pauses.reason:
            return f"lifted; the whole run is paused still: {reason}"
        if (gate := self._run.cancel_gate).shut:
            by = f" by {gate.reason}" if gate.reason else ""
            return (
                f"lifted; the cluster's cancel gate is still shut{by}. Open it: ktui cancel "
                f"{self._run.name} --remove-cancel"
            )
        if self._run.gate.shut:
            return f"lifted; nothing begins yet: {self._run.gate.reason}"
        held = [tp.topic for tp in command.partitions if self._run.pauses.holds(tp)]
        return f"lifted; topic {held[0]} is paused still" if held else "it goes on"

    def _note(self, command: commands.AddNote, asked: StoredCommand) -> Answer:
        if all(note.event.command != asked.id for note in self._run.notes):
            self._record([events.Noted(text=command.text, command=asked.id, who=asked.who)])
        return Answer(accepted=True, words="the note is among its events")

    def _mark_cancelled(self, command: commands.CancelMoves, asked: StoredCommand) -> Answer:
        scope = CancelScope(self._run, command.kind, command.topics, command.partitions)
        affected = [tp for tp, effect in scope.effects.items() if not effect.idle]
        words = scope.words
        for part in chunked(affected):
            cancel = events.CancelAsked(
                kind=command.kind, partitions=part, command=asked.id, who=asked.who
            )
            self._record([cancel])
        self._record(self._decider.cancel(affected))
        return Answer(accepted=True, words=words)

    def _unknown(
        self, command: commands.Pause | commands.Continue | commands.CancelMoves
    ) -> str | None:
        topics = {tp.topic for tp in self._run.tracks} if command.topics else set()
        unknown = [
            *(f"topic {topic}" for topic in command.topics if topic not in topics),
            *(f"partition {tp}" for tp in command.partitions if tp not in self._run.tracks),
        ]
        return unknown[0] if unknown else None


def _with_own(limits: Limits) -> set[int]:
    return {each.broker for each in limits.brokers}
