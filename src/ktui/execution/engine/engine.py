"""The engine: observe, decide, journal the intents, read again, act, journal the outcomes.

Anything may happen during an await: operators give commands, others change the cluster, time
passes. So every request rests on a read made for it, and on the run as it is then. Nothing is
awaited in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from ktui.cluster.clock import Clock, wait_for_first
from ktui.cluster.errors import ClusterError, describe_unreadable
from ktui.cluster.observation import Observation
from ktui.cluster.observer import ObservationSource
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterPorts, Verdict, WriteResult
from ktui.cluster.send_guard import Guard, Unguarded
from ktui.execution.engine.command_handler import CommandHandler
from ktui.execution.engine.decider import Decider
from ktui.execution.engine.node_probe import NodeProbe
from ktui.execution.engine.observed import Observed
from ktui.execution.engine.request_check import why_not_sent
from ktui.execution.engine.requests import RequestRead, Requests, not_sent
from ktui.execution.engine.turn import PendingRequest, Turn
from ktui.execution.errors import JournalProblem, RunProblem
from ktui.execution.journal.journal import Journal
from ktui.execution.run.event_text import pause_origin_text
from ktui.execution.run.events import (
    NOT_RECORDED,
    AnyRunEvent,
    Cancel,
    CancelGate,
    Continued,
    EngineLeft,
    JournalEntry,
    Outage,
    Owned,
    Paused,
    PauseOrigin,
    Recording,
    Request,
)
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_standing import changed_settings, name_resources
from ktui.execution.throttle.apply import ThrottleManager
from ktui.insights.prior import Prior

log = logging.getLogger(__name__)

LOOKS_A_TURN = 4
"""How often, at most, a turn polls other partitions because those it chose cannot begin."""
LONGEST_BACKOFF_S = 5.0
LOOK_STALE_S = 30.0
"""Seconds after which a decision is made again: it counted what others were adding at that time."""

LISTENS_S = 0.2
"""Seconds between two checks, while the engine waits, for a command or a reason to leave."""

T = TypeVar("T")

_ENDING_PAUSES = (PauseOrigin.SIGNAL, PauseOrigin.UNTIL, PauseOrigin.FAILURE)
"""The pauses that end the process once nothing is in flight. Only `resume` lifts them."""


class Engine:
    """Carries one run on until it has ended, or is to be left.

    Args:
        run: the fold of the journal so far.
        journal: the journal of the run, which this process owns.
        source: the observations of the cluster.
        cluster: the ports that read the cluster's settings, and change the cluster.
        clock: time.
        check_throttle: raises RunRefused if another run has a throttle, so that this one may not.
        gate_shut: returns who has shut the cluster's cancel gate; None while the gate is open.
        lost: returns why this process does not own the run any more; None while it does.
        guard: decides by who owns the cluster whether requests may be sent; None checks no owner.
        recording: returns whether the observations are recorded, and why not.
        earlier: returns the speed of earlier runs on a cluster, if known.
    """

    def __init__(  # noqa: PLR0913 - each is used at another place of a turn
        self,
        run: Run,
        journal: Journal,
        source: ObservationSource,
        cluster: ClusterPorts,
        clock: Clock,
        *,
        check_throttle: Callable[[], None] = lambda: None,
        gate_shut: Callable[[], str | None] = lambda: None,
        lost: Callable[[], str | None] = lambda: None,
        guard: Guard | None = None,
        recording: Callable[[], Recording] = lambda: NOT_RECORDED,
        earlier: Callable[[str], Prior | None] = lambda _cluster_id: None,
    ) -> None:
        self._run = run
        self._journal = journal
        self._source = source
        self._clock = clock
        cluster_id = None if run.started is None else run.started.cluster_id
        self._requests = Requests(cluster, clock, cluster_id)
        self._probe = NodeProbe(cluster.reader, clock)
        self._guard = guard or Unguarded()
        self._throttling = ThrottleManager(
            run,
            cluster,
            source,
            clock,
            self._record,
            heard=self._probe.heard,
            guard=self._guard,
        )
        self._check_throttle = check_throttle
        self._gate_shut = gate_shut
        self._lost = lost
        self._recording = recording
        self._prior = earlier(run.started.cluster_id) if run.started is not None else None
        self._failures = 0
        self._reads_to_cancel = 0
        """The number of reads made for cancels."""
        self._journal_accepts = True
        """Whether the journal accepts writes."""
        self._leaving = asyncio.Event()
        self._reason = ""

    async def carry_on(self, owner: Owned) -> None:
        """Carry the run on until it has ended or is left; `Run.ended` shows which.

        Raises:
            JournalProblem: the journal cannot be written, and nothing begins that is not in the
                journal. The throttles of the run are put back, or the error names them.
            RunProblem: this process does not own the run any more, or the cluster is another one.
        """
        decider = Decider(self._run, self._prior, self._probe.heard)
        try:
            await self._carry_on(owner, decider)
        except JournalProblem as problem:
            await self._restore_throttles(decider, problem)
        finally:
            await self._probe.aclose()

    async def _carry_on(self, owner: Owned, decider: Decider) -> None:
        commands = CommandHandler(
            self._run, self._journal, decider, self._record, self._check_throttle
        )
        if self._run.ended:
            commands.take_commands()  # a rollback reopens the run
        if self._run.ended:
            return
        self._record([owner, *self._lift_pauses()])
        while not self._leaving.is_set() and not self._run.ended:
            self._check_owned()  # also while there is nothing to write
            self._check_recording()
            commands.take_commands()
            if reason := commands.leave_reason or self._reason_to_leave():
                self.leave(reason)
                break
            await self._turn(decider, commands)
            await self._wait(decider.pause_s, commands)
        if not self._run.ended:
            await self._clean_up_throttles(decider)
            self._record([EngineLeft(reason=self._reason)])

    def leave(self, reason: str) -> None:
        """Leave the run at the next moment that allows it; what is in flight goes on."""
        self._reason = self._reason or reason
        self._leaving.set()

    def _lift_pauses(self) -> list[AnyRunEvent]:
        """Lift the pauses that concerned the previous process, but no pause of an operator."""
        return [Continued(by=by) for by in _ENDING_PAUSES if by in self._run.pauses.whole]

    def _reason_to_leave(self) -> str | None:
        goes_back = any(not self._run.pauses.stop(tp) for tp in self._run.called_off)
        if self._run.in_flight or goes_back:
            return None
        whole = self._run.pauses.whole
        reasons = (
            whole[by] or f"paused by {pause_origin_text(by)}"
            for by in _ENDING_PAUSES
            if by in whole
        )
        return next(reasons, None)

    async def _turn(self, decider: Decider, commands: CommandHandler) -> None:
        """Poll, decide, journal the intents, act, journal the outcomes."""
        for left in reversed(range(LOOKS_A_TURN + 1)):
            if not await self._take_in_poll(decider, commands):
                return
            commands.take_commands()  # commands that arrived meanwhile bind this decision
            if commands.leave_reason:
                self.leave(commands.leave_reason)
                return
            self._check_gate()
            await self._cancel(decider)
            self._throttling.look(decider.timelines)
            loosened = self._throttling.loosen(decider.seen)  # before any cut, or election
            await self._while_listening(loosened, decider, commands)
            hindered = self._throttling.hindered
            decided = decider.decide(may_look_again=left > 0, resting=hindered)
            if not decided.look_again:
                break
            self._record(decided.intents)
        self._record(decided.intents)
        await self._act(decided, decider, commands)
        loosened = self._throttling.loosen(decider.seen)  # a refused alter leaves none behind
        await self._while_listening(loosened, decider, commands)
        self._record(decider.end())

    def _check_recording(self) -> None:
        """Record that the recording goes on, or has stopped; the run goes on either way."""
        now = self._recording()
        if now != self._run.recording:
            self._record([now])

    def _check_gate(self) -> None:
        """Record that the cancel gate was shut or opened. The next decision follows that."""
        reason = self._gate_shut()
        now = CancelGate(shut=reason is not None, reason=reason or "")
        if now != self._run.cancel_gate:
            self._record([now])

    async def _take_in_poll(self, decider: Decider, commands: CommandHandler) -> bool:
        """Poll the cluster, record the news, and return whether a decision may follow."""
        seen = await self._while_listening(self._poll(decider), decider, commands)
        if self._has_lost():
            return False
        if seen is not None:
            self._record(decider.look(seen, unowned=self._guard.unknown))
        return seen is not None and not self._leaving.is_set()

    def _has_lost(self) -> bool:
        """Whether this engine has lost the cluster; the run is then left as it is."""
        if self._guard.lost is None:
            return False
        stay = "; its throttles stay set" if self._run.throttled.brokers else ""
        self.leave(f"{self._guard.lost}{stay}")
        return True

    async def _poll(self, decider: Decider) -> Observation | None:
        """Poll the cluster. While the cluster is lost, nothing is decided or given up."""
        self._probe.ask(decider.silent_brokers | self._throttling.silent_brokers)
        try:
            seen = await self._guard.beside(self._source.poll(decider.interest))
        except ClusterError as error:
            self._outage(str(error))
            return None
        except RunProblem:
            raise
        except Exception as error:  # an answer that no adapter expected must not end a run
            log.exception("the cluster's answer cannot be read")
            self._outage(describe_unreadable(error))
            return None
        self._failures = 0
        if self._run.outage is not None:
            self._record([Outage(lost=False)])
        return seen

    def _outage(self, reason: str) -> None:
        self._failures += 1
        if self._run.outage is None:
            self._record([Outage(lost=True, reason=reason)])

    async def _act(self, decided: Turn, decider: Decider, commands: CommandHandler) -> None:
        """Send one request after the other, each without what no longer holds."""
        tightened = self._throttling.tighten(decider.seen, decided.adding)
        await self._while_listening(tightened, decider, commands)
        if self._throttling.denied and PauseOrigin.FAILURE not in self._run.pauses.whole:
            reason = f"the throttle may not be set: {self._throttling.denied}"
            self._record([Paused(by=PauseOrigin.FAILURE, reason=reason)])
        for sending in decided.sendings:
            results = await self._send(sending, decided, decider, commands)
            self._record(decider.answered(sending.request, results))

    async def _send(
        self, sending: PendingRequest, decided: Turn, decider: Decider, commands: CommandHandler
    ) -> Mapping[TopicPartition, WriteResult]:
        """Read for a request, then send the part that still holds and was not called off."""
        read = await self._read_for(sending, decider, commands)
        commands.take_commands()
        self._check_gate()
        self._check_owned()
        if commands.leave_reason or self._leaving.is_set():
            return not_sent(sending, "the run is being left")
        if read.seen is None:
            return not_sent(sending, read.problem)
        if self._clock.monotonic() - decider.asked_s >= LOOK_STALE_S:
            return not_sent(sending, "the poll that it was decided by is too old")
        held = {
            **self._outdated(sending, decider.reading(read.seen)),
            **self._unthrottled(sending, decided, decider),
            **self._forbidden(sending, decided),
            **self._unowned(sending, decided),
        }
        kept = sending.without(held)
        if not kept.partitions:
            return held
        adding = [tp for tp in decided.adding if tp in kept.partitions]
        within_s = self._throttling.holds_for_s(decider.seen, adding)
        return {**held, **await self._requests.send(kept, read.seen, within_s=within_s)}

    async def _read_for(
        self, sending: PendingRequest, decider: Decider, commands: CommandHandler
    ) -> RequestRead:
        """Read for a request, and again if a cancel was read for meanwhile.

        The read for the cancel may be the newer one.
        """
        settings = sending.request is Request.ALTER
        while True:
            before = self._reads_to_cancel
            reading = self._requests.read(sending.partitions, settings=settings)
            read = await self._while_listening(self._guard.beside(reading), decider, commands)
            if self._reads_to_cancel == before:
                return read

    async def _while_listening(
        self, work: Coroutine[Any, Any, T], decider: Decider, commands: CommandHandler
    ) -> T:
        """Await work that may take long, and cancel partitions that are called off meanwhile."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await wait_for_first(asyncio.wait([task]), self._clock.sleep(LISTENS_S))
                if not task.done() and commands.is_asked:
                    commands.take_commands()
                    await self._cancel(decider)
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _cancel(self, decider: Decider) -> None:
        """Send the cancels that are due, before anything else is sent or awaited."""
        due = list(decider.cancels_due)
        self._reads_to_cancel += bool(due)
        read = await self._guard.beside(self._requests.read(due)) if due else RequestRead(None)
        if read.seen is None or self._guard.why_not(begins_step=False):
            return  # the next poll calls for the cancel again
        judged = decider.judge_cancels(decider.reading(read.seen))
        self._record(judged)
        cancels = [event.tp for event in judged if isinstance(event, Cancel)]
        if cancels:
            sending = PendingRequest(Request.CANCEL, dict.fromkeys(cancels))
            results = await self._requests.send(sending, read.seen)
            self._record(decider.answered(Request.CANCEL, results))

    def _outdated(
        self, sending: PendingRequest, observed: Observed
    ) -> Mapping[TopicPartition, WriteResult]:
        """Return refusals for partitions whose step no longer follows from the request's read."""
        tracks, limits = self._run.tracks, self._run.limits
        return {
            tp: WriteResult(Verdict.REFUSED, message=why)
            for tp in sending.partitions
            if (why := why_not_sent(sending.request, tracks[tp], observed, limits))
        }

    def _unthrottled(
        self, sending: PendingRequest, decided: Turn, decider: Decider
    ) -> Mapping[TopicPartition, WriteResult]:
        """Return refusals for partitions that would add replicas without the promised throttle."""
        if sending.request is not Request.ALTER:
            return {}
        adding = [tp for tp in decided.adding if tp in sending.partitions]
        return self._throttling.not_in_force(decider.seen, adding)

    def _forbidden(
        self, sending: PendingRequest, decided: Turn
    ) -> Mapping[TopicPartition, WriteResult]:
        """Return refusals for partitions that a command, the gate or the deadline forbids now."""
        tracks, shut = self._run.tracks, self._run.cancel_gate.shut
        off = {tp for tp in sending.partitions if tracks[tp].step_called_off}
        held = {tp for tp in sending.partitions if shut and tracks[tp].cancel is None}
        new = decided.begun & sending.partitions.keys()
        until = self._run.until
        late = {tp for tp in new if until is not None and self._clock.now() >= until}
        paused = {tp for tp in new if self._run.pauses.stop(tp)}
        return {
            **not_sent(
                sending.only(late - self._run.called_off.keys()),
                "the time given with --until has come",
            ),
            **not_sent(sending.only(paused), "it was paused before it was sent"),
            **not_sent(sending.only(off), "it was called off before it was sent"),
            **not_sent(sending.only(held), "the cancel gate was shut before it was sent"),
        }

    def _unowned(
        self, sending: PendingRequest, decided: Turn
    ) -> Mapping[TopicPartition, WriteResult]:
        """Return refusals for partitions that the last answer about the cluster's owner forbids."""
        tracks = self._run.tracks
        begins = {tp for tp in decided.begun if tracks[tp].cancel is None}
        held: dict[TopicPartition, WriteResult] = {}
        for begins_step in (True, False):
            if why := self._guard.why_not(begins_step=begins_step):
                those = {tp for tp in sending.partitions if (tp in begins) == begins_step}
                held |= not_sent(sending.only(those), why)
        return held

    def _check_owned(self) -> None:
        """Check that this process still owns the run, and that others can see what is done to it.

        Raises:
            RunProblem: another process may own the run, or others may read another journal.
        """
        if reason := self._lost():
            raise RunProblem(
                f"run {self._run.name} is no longer carried on by this process: {reason}"
            )

    async def _clean_up_throttles(self, decider: Decider) -> None:
        """Remove the throttles that nothing in flight needs, where the cluster answers."""
        if self._run.outage is None and decider.has_looked:
            await self._throttling.loosen(decider.seen, leaving=True)

    async def _restore_throttles(self, decider: Decider, problem: JournalProblem) -> None:
        """Put throttles back without a journal.

        The journal has those throttles as touched, so a resume reads them again.

        Raises:
            JournalProblem: names the throttles that could not be put back.
            RunProblem: this process does not own the run any more.
        """
        self._journal_accepts = False
        await self._clean_up_throttles(decider)
        if not (stays := changed_settings(self._run.throttled)):
            raise problem
        fix = f"Put it back: ktui resume {self._run.name}"
        raise JournalProblem(
            f"{problem}. Its throttle stays on {name_resources(stays)}. {fix}"
        ) from problem

    async def _wait(self, seconds: float, commands: CommandHandler) -> None:
        """Wait for the next turn, but return at once if a command arrives."""
        if self._failures:
            seconds = max(seconds, min(LONGEST_BACKOFF_S, 0.5 * 2.0 ** min(self._failures, 8)))
        until_s = self._clock.monotonic() + seconds
        while not (self._run.ended or self._leaving.is_set() or commands.is_asked):
            left_s = until_s - self._clock.monotonic()
            if left_s <= 0:
                return
            if self._guard.is_due:
                await self._guard.ask()
            await self._clock.sleep(min(left_s, LISTENS_S))

    def _record(self, events: Sequence[AnyRunEvent]) -> None:
        """Write events to the disk, and only then act on them."""
        if events:
            self._check_owned()
        entries = self._journal.append(events) if self._journal_accepts else self._unwritten(events)
        for entry in entries:
            self._run.apply(entry)

    def _unwritten(self, events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
        """Number the events that the journal cannot take."""
        now, seq = self._clock.now(), self._run.seq
        return [JournalEntry(seq + n, now, event) for n, event in enumerate(events, start=1)]
