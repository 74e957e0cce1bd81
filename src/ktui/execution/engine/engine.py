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

from ktui.cluster.asking import LONGEST_BACKOFF_S
from ktui.cluster.clock import Clock, wait_at_most
from ktui.cluster.errors import ClusterError, describe_unreadable
from ktui.cluster.observation import Observation
from ktui.cluster.observer import ObservationSource
from ktui.cluster.ownership import SendGuard
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterPorts, WriteResult
from ktui.execution import JournalProblem, RunProblem
from ktui.execution.engine import requests
from ktui.execution.engine.command_handler import CommandHandler
from ktui.execution.engine.decider import Decider
from ktui.execution.engine.gates import ENDING_PAUSES, LeaveWhen, when_paused
from ktui.execution.engine.working_state import NodeProbe
from ktui.execution.journal.journal import EngineJournal
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
from ktui.execution.run.throttle_status import throttle_status
from ktui.execution.throttle.apply import ThrottleManager
from ktui.execution.throttle.objective import Figure, ObjectiveKeeper, no_figure
from ktui.execution.throttle.write_settings import SettingsWriter
from ktui.insights import Prior
from ktui.planning.throttle_rates import Objective
from ktui.progress.timeline import Timeline
from ktui.speed.shown import SpeedShown


class EventRecorder:
    """Write events to disk, and then apply them; `lost`: why this process lost the run."""

    def __init__(
        self, run: Run, journal: EngineJournal, clock: Clock, lost: Callable[[], str | None]
    ) -> None:
        self._run = run
        self._journal = journal
        self._clock = clock
        self._lost = lost
        self._accepted = True

    def record(self, events: Sequence[AnyRunEvent]) -> None:
        """Raises JournalProblem, or RunProblem: this process does not own the run any more."""
        if events:
            self.check_owned()
        entries = self._journal.append(events) if self._accepted else self._numbered(events)
        for entry in entries:
            self._run.apply(entry)

    def check_owned(self) -> None:
        """Raises RunProblem: others may own the run, or read another journal."""
        if reason := self._lost():
            raise RunProblem(
                f"run {self._run.name} is no longer carried on by this process: {reason}"
            )

    def give_up_journal(self) -> None:
        """The journal cannot be written: only apply events from now on."""
        self._accepted = False

    def _numbered(self, events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
        now, seq = self._clock.now(), self._run.seq
        return [JournalEntry(seq + n, now, event) for n, event in enumerate(events, start=1)]


log = logging.getLogger(__name__)

MOST_REPOLLS = 4  # how often a turn polls again because those it chose cannot begin
POLL_STALE_S = 30.0  # a decision is made again later: others' adding was counted then

LISTENS_S = 0.2  # between two looks for a command or a reason to leave, while waiting

T = TypeVar("T")


def usual_pause(usual_s: float) -> float:
    """Return the usual seconds before the next poll."""
    return usual_s


class Engine:
    """Carries one run on until it has ended, or is to be left.

    One object for each time that a process owns the run; `execute` is called once.

    Args:
        journal: the journal of the run, which this process owns.
        check_throttle: raises RunRefused if another run has a throttle, so that this one may not.
        gate_shut: returns who has shut the cluster's cancel gate; None while the gate is open.
        lost: returns why this process does not own the run any more; None while it does.
        guard: decides by who owns the cluster whether requests may be sent; None checks no owner.
        recording: returns whether the observations are recorded, and why not.
        news: returns events from beside the run, such as a failure of the command of --on-event.
        earlier: returns the speed of earlier runs on a cluster, if known.
        leave_when: returns, after each turn, why the run is to be left now; None to go on.
        forbids: returns why the command of --while, which may be empty, lets no step begin now;
            None if it lets them.
        figure: returns the figure of the run's objective in the last seconds.
        pause: returns the seconds to wait before the next poll while the run only waits for steps
            in flight; it is given the usual seconds.
    """

    def __init__(  # noqa: PLR0913 - each is used at another place of a turn
        self,
        run: Run,
        journal: EngineJournal,
        source: ObservationSource,
        cluster: ClusterPorts,
        clock: Clock,
        *,
        check_throttle: Callable[[], None] = lambda: None,
        gate_shut: Callable[[], str | None] = lambda: None,
        lost: Callable[[], str | None] = lambda: None,
        guard: SendGuard | None = None,
        recording: Callable[[], Recording] = lambda: NOT_RECORDED,
        news: Callable[[], Sequence[AnyRunEvent]] = tuple,
        earlier: Callable[[str], Prior | None] = lambda _cluster_id: None,
        leave_when: LeaveWhen = when_paused,
        forbids: Callable[[str], str | None] = lambda _command: None,
        figure: Callable[[Objective], Figure] = no_figure,
        pause: Callable[[float], float] = usual_pause,
    ) -> None:
        self._run = run
        self._leave_when = leave_when
        self._source = source
        self._clock = clock
        self._guard = guard or SendGuard(None, clock)
        self._gate_shut = gate_shut
        self._recording = recording
        self._news = news
        self._forbids = forbids
        self._pause = pause
        cluster_id = None if run.started is None else run.started.cluster_id
        prior = None if cluster_id is None else earlier(cluster_id)
        self._recorder = EventRecorder(run, journal, clock, lost)
        self._record = self._recorder.record
        self._probe = NodeProbe(cluster.reader, clock)
        self._decider = Decider(run, prior, self._probe.heard)
        self._commands = CommandHandler(run, journal, self._decider, self._record, check_throttle)
        settings = SettingsWriter(
            run.throttled,
            cluster,
            source,
            clock,
            self._record,
            heard=self._probe.heard,
            guard=self._guard,
        )
        self._throttling = ThrottleManager(run, settings, clock, self._record, self._guard)
        self._objective = ObjectiveKeeper(run, clock, figure)
        self._requests = requests.Requests(cluster, clock, cluster_id)
        self._last_check = requests.LastCheck(run, self._throttling, self._guard, clock)
        self._failures = 0  # of polls, in a row
        self._reads_to_cancel = 0  # made for cancels
        self._leaving = asyncio.Event()
        self._reason = ""

    @property
    def timelines(self) -> Mapping[TopicPartition, Timeline]:
        return self._decider.timelines

    @property
    def speed_shown(self) -> SpeedShown | None:
        return self._decider.speed_shown

    async def execute(self, owner: Owned) -> None:
        """Carry the run on until it has ended or is left; `Run.ended` shows which.

        Raises:
            JournalProblem: the journal cannot be written, and nothing begins that is not in the
                journal. The throttles of the run are put back, or the error names them.
            RunProblem: this process does not own the run any more, or the cluster is another one.
        """
        try:
            await self._carry_on(owner)
        except JournalProblem as problem:
            await self._restore_throttles(problem)
        finally:
            await self._probe.aclose()

    async def _carry_on(self, owner: Owned) -> None:
        if self._run.ended:
            self._commands.take_commands()  # a rollback reopens the run
        if self._run.ended:
            return
        # of the pauses, those that concerned the previous process; an operator's stay
        lifted = [Continued(by=by) for by in ENDING_PAUSES if by in self._run.pauses.whole]
        self._record([owner, *lifted])
        while not self._leaving.is_set() and not self._run.ended:
            self._recorder.check_owned()  # also while there is nothing to write
            if (recording := self._recording()) != self._run.recording:
                self._record([recording])
            self._record(self._news())
            self._commands.take_commands()
            if self._commands.leave_reason:
                self.leave(self._commands.leave_reason)
                break
            await self._turn()
            seen = self._decider.last_poll if self._decider.has_polled else None
            if (reason := self._leave_when(self._run, seen)) is not None:
                self.leave(reason)
            await self._wait(self._pause_s)
        if not self._run.ended:
            await self._clean_up_throttles()
            self._record([EngineLeft(reason=self._reason)])

    def leave(self, reason: str) -> None:
        """Leave the run at the next moment that allows it; what is in flight goes on."""
        self._reason = self._reason or reason
        self._leaving.set()

    async def _turn(self) -> None:
        for left in reversed(range(MOST_REPOLLS + 1)):
            if not await self._take_in_poll():
                return
            self._commands.take_commands()  # commands that arrived meanwhile bind this decision
            if self._commands.leave_reason:
                self.leave(self._commands.leave_reason)
                return
            self._check_gate()
            await self._cancel()
            self._throttling.update(self._decider.timelines)
            await self._loosen_throttles()  # before any cut, or election
            hindered = self._throttling.hindered
            decided = self._decider.decide(may_look_again=left > 0, unthrottleable=hindered)
            if not decided.look_again:
                break
            self._record(decided.intents)
        self._record(decided.intents)
        await self._act(decided)
        await self._loosen_throttles()  # a refused alter leaves none behind
        self._record(self._decider.end())

    async def _loosen_throttles(self) -> None:
        await self._while_listening(self._throttling.loosen(self._decider.last_poll))

    def _check_gate(self) -> None:
        reason = self._gate_shut()
        now = CancelGate(shut=reason is not None, reason=reason or "")
        if now != self._run.cancel_gate:
            self._record([now])

    async def _take_in_poll(self) -> bool:
        seen = await self._while_listening(self._poll())
        if self._has_lost():
            return False
        if seen is not None:
            forbidden = self._forbids(self._run.schedule.while_command)
            polled = self._decider.process_poll(
                seen, unowned=self._guard.unknown, forbidden=forbidden
            )
            self._record(polled)
            self._record(self._decider.keep_promise())
            self._record(self._objective.update(seen, self._decider.flows))
        return seen is not None and not self._leaving.is_set()

    def _has_lost(self) -> bool:
        if self._guard.lost is None:
            return False
        stay = "; its throttles stay set" if self._run.throttled.brokers else ""
        self.leave(f"{self._guard.lost}{stay}")
        return True

    async def _poll(self) -> Observation | None:
        """While the cluster is lost, nothing is decided or given up."""
        self._probe.ask(self._decider.silent_brokers | self._throttling.silent_brokers)
        try:
            seen = await self._guard.beside(self._source.poll(self._decider.interest))
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

    async def _act(self, decided: requests.Turn) -> None:
        """Send one request after the other, each without what no longer holds."""
        self._record(self._throttling.share(self._decider.last_poll, self._decider.flows))
        tightened = self._throttling.tighten(self._decider.last_poll, decided.adding)
        await self._while_listening(tightened)
        if self._throttling.denied and PauseOrigin.FAILURE not in self._run.pauses.whole:
            reason = f"the throttle may not be set: {self._throttling.denied}"
            self._record([Paused(by=PauseOrigin.FAILURE, reason=reason)])
        for sending in decided.sendings:
            results = await self._send(sending, decided)
            self._record(self._decider.process_answer(sending.request, results))

    async def _send(
        self, sending: requests.PendingRequest, decided: requests.Turn
    ) -> Mapping[TopicPartition, WriteResult]:
        read = await self._read_for(sending)
        self._commands.take_commands()
        self._check_gate()
        self._recorder.check_owned()
        if self._commands.leave_reason or self._leaving.is_set():
            return requests.not_sent(sending, "the run is being left")
        if read.seen is None:
            return requests.not_sent(sending, read.problem)
        polled = self._decider.last_poll
        if self._clock.monotonic() - polled.asked_s >= POLL_STALE_S:
            return requests.not_sent(sending, "the poll that it was decided by is too old")
        observed = self._decider.interpret(read.seen)
        held = self._last_check.refusals(sending, decided, observed, polled)
        kept = sending.only(sending.partitions.keys() - held.keys())
        if not kept.partitions:
            return held
        adding = [tp for tp in decided.adding if tp in kept.partitions]
        within_s = self._throttling.holds_for_s(polled, adding)
        return {**held, **await self._requests.send(kept, read.seen, within_s=within_s)}

    async def _read_for(self, sending: requests.PendingRequest) -> requests.RequestRead:
        """Read again if a cancel was read for meanwhile: that read may be the newer one."""
        settings = sending.request is Request.ALTER
        while True:
            before = self._reads_to_cancel
            reading = self._requests.read(sending.partitions, settings=settings)
            read = await self._while_listening(self._guard.beside(reading))
            if self._reads_to_cancel == before:
                return read

    async def _while_listening(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work that may take long, and cancel partitions that are called off meanwhile."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await wait_at_most(LISTENS_S, task, self._clock)
                if not task.done() and self._commands.has_commands:
                    self._commands.take_commands()
                    await self._cancel()
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _cancel(self) -> None:
        due = list(self._decider.cancels_due)
        self._reads_to_cancel += bool(due)
        read = requests.RequestRead(None)
        if due:
            read = await self._guard.beside(self._requests.read(due, to_cancel=True))
        if read.seen is None or self._guard.why_not(begins_step=False):
            return  # the next poll calls for the cancel again
        judged = self._decider.judge_cancels(self._decider.interpret(read.seen))
        self._record(judged)
        cancels = [event.tp for event in judged if isinstance(event, Cancel)]
        if cancels:
            sending = requests.PendingRequest(Request.CANCEL, dict.fromkeys(cancels))
            results = await self._requests.send(sending, read.seen)
            self._record(self._decider.process_answer(Request.CANCEL, results))

    async def _clean_up_throttles(self) -> None:
        if self._run.outage is None and self._decider.has_polled:
            await self._throttling.loosen(self._decider.last_poll, leaving=True)

    async def _restore_throttles(self, problem: JournalProblem) -> None:
        """Put throttles back although the journal, which has them as touched, cannot be written."""
        self._recorder.give_up_journal()
        await self._clean_up_throttles()
        if not (stays := throttle_status(self._run).stands_on):
            raise problem
        fix = f"Put it back: ktui resume {self._run.name}"
        raise JournalProblem(f"{problem}. Its throttle stays on {stays}. {fix}") from problem

    @property
    def _pause_s(self) -> float:
        usual_s = self._decider.pause_s
        return self._pause(usual_s) if self._decider.waits_for_steps else usual_s

    async def _wait(self, seconds: float) -> None:
        if self._failures:
            seconds = max(seconds, min(LONGEST_BACKOFF_S, 0.5 * 2.0 ** min(self._failures, 8)))
        until_s = self._clock.monotonic() + seconds
        while not (self._run.ended or self._leaving.is_set() or self._commands.has_commands):
            left_s = until_s - self._clock.monotonic()
            if left_s <= 0:
                return
            if self._guard.is_due:
                await self._guard.ask()
            await self._clock.sleep(min(left_s, LISTENS_S))
