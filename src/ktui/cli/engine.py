"""`ktui engine`: the engine process of a run, which `ktui start` and `ktui resume` start."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from types import FrameType

import click

from ktui.cli.context.claim import ClusterHold, OwnerChoice, claim_request, no_ownership_option
from ktui.cli.context.cluster import Cluster, ClusterChoice, cluster_options
from ktui.cli.context.terminal import print_note
from ktui.cli.engine_log import (
    AfterPoll,
    EngineLog,
    JournalWait,
    RunMetrics,
    RunNotices,
    configure_log,
)
from ktui.cli.options import common
from ktui.cli.options.outward import metrics_file_option, on_event_option, run_recorded_option
from ktui.cli.record_prune import EngineRecording, record_run
from ktui.cluster.asking import PATIENCE
from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, ObservationSource, Observer, SourceWrapper
from ktui.cluster.ports import ClusterPorts
from ktui.execution import RunProblem
from ktui.execution.engine.engine import Engine
from ktui.execution.engine.gates import (
    LeaveSettled,
    LeaveSubmitted,
    LeaveWhen,
    Leaving,
    when_paused,
)
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.figures import CanaryFigure, own_figure
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.kept import KeptSpeed
from ktui.execution.host.operator_command import WhileCommand
from ktui.execution.host.ownership import CancelGateFile, Ownership, own_run
from ktui.execution.host.process import close_inherited, note_poll
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import Answer, LeaveThrottles, Pause, StopEngine
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, JournalEntry, Owned, PauseOrigin
from ktui.execution.run.options import USUAL_POLL_S
from ktui.execution.run.run import Run
from ktui.kafka.canary import Canary


class LoggedJournal(Journal):
    """A journal that also writes its notable events to the engine's log, and records its events.

    Commands that this version does not know, or knows only in part, are answered here. The engine
    takes all others.
    """

    listeners: Sequence[Callable[[Sequence[JournalEntry]], None]] = ()
    """Get the entries that were just written, in this order."""

    def append(self, events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
        entries = super().append(events)
        for listener in self.listeners:
            listener(entries)
        return entries


class SameClusterSource(SourceWrapper):
    """Polls a cluster as long as it is the run's; an address can come to lead to another one."""

    def __init__(self, source: ObservationSource, cluster_id: str) -> None:
        super().__init__(source)
        self._cluster_id = cluster_id

    async def poll(self, interest: Interest) -> Observation:
        observation = await super().poll(interest)
        if observation.cluster_id != self._cluster_id:
            raise RunProblem(
                f"the brokers belong to cluster {observation.cluster_id}, but the run belongs to "
                f"{self._cluster_id}. Nothing is sent"
            )
        return observation


@click.command("engine", hidden=True)
@click.argument("name", metavar="RUN")
@cluster_options
@common.state_dir_option
@click.option("--until", type=datetime.fromisoformat)
@run_recorded_option
@on_event_option
@metrics_file_option
@click.option("--leave", type=Leaving)
@no_ownership_option
def command(  # noqa: PLR0913 - an option each
    name: str,
    choice: ClusterChoice,
    *,
    state: StateDir,
    until: datetime | None,
    record: bool | None,
    on_event: str | None,
    metrics_file: str | None,
    leave: Leaving | None,
    no_ownership: bool,
) -> None:
    """Own RUN, and continue it until it ends or the engine is asked to leave."""
    close_inherited()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    run_dir, clock = state.run(name), SystemClock()
    configure_log(run_dir.log)
    cluster = choice.cluster()
    os.chdir("/")  # keep no folder in use
    wait = JournalWait()
    with (
        RunNotices(clock) as notices,  # these two outermost: they end once the lock is free
        RunMetrics(clock) as metrics,
        own_run(run_dir) as owned,
        LoggedJournal.recover(run_dir.journal, clock, wait) as journal,
    ):
        owned.watch_journal()
        run = read_run(journal, name)
        refuse_exported(run)
        reject_stale_commands(journal)
        if leave is Leaving.SETTLED:
            journal.ask(Pause(by=PauseOrigin.SIGNAL), owned.holder.short)
        notices.begin(run, run.options.on_event or "" if on_event is None else on_event)
        path = run.options.metrics_file if metrics_file is None else metrics_file
        metrics.begin(run, owned.holder, path, EarlierRuns.beside(state.run(name)))
        metrics.take(journal.entries())
        log = EngineLog(run)
        journal.listeners = (log.write, notices.take, metrics.take)
        with record_run(state, run, cluster.name, clock, record=record) as recorded:
            recorded.take(journal.entries())
            journal.listeners = (log.write, recorded.take, notices.take, metrics.take)
            going = _run_engine(
                run,
                journal,
                cluster,
                owned,
                until,
                state,
                recorded,
                notices,
                metrics,
                wait,
                leave_when=_leave_when(leave, clock),
                owns=not no_ownership,
            )
            asyncio.run(going)


def _leave_when(leave: Leaving | None, clock: Clock) -> LeaveWhen:
    match leave:
        case None:
            return when_paused
        case Leaving.SUBMITTED:
            return LeaveSubmitted(clock)
        case Leaving.SETTLED:
            return LeaveSettled(clock)


def read_run(journal: Journal, name: str) -> Run:
    """Return the run as its journal has it."""
    run = Run(name).fold(journal.entries())
    if not run.complete:
        raise RunProblem(
            f"{journal.path}: the journal does not have all partitions of the run. Its start was "
            "cut off, and nothing was sent. Start its plan again, with another --name"
        )
    return run


def reject_stale_commands(journal: Journal) -> None:
    """Reject commands that were meant for the previous engine process.

    These are the commands to leave, and to pause because of a signal it got. The command to leave
    throttles behind is also rejected: this process has not tried to remove them yet.
    """
    past = Answer(accepted=False, words="the engine that got this command has ended")
    for asked in journal.asked():
        match asked.command:
            case StopEngine() | LeaveThrottles() | Pause(by=PauseOrigin.SIGNAL):
                journal.answer(asked.id, past)


async def _run_engine(  # noqa: PLR0913, PLR0917 - what the command has made, each used once
    run: Run,
    journal: Journal,
    cluster: Cluster,
    owned: Ownership,
    until: datetime | None,
    state: StateDir,
    recorded: EngineRecording,
    notices: RunNotices,
    metrics: RunMetrics,
    wait: JournalWait,
    *,
    leave_when: LeaveWhen,
    owns: bool,
) -> None:
    if run.started is None:
        return
    check_throttle = partial(check_one_throttle, state, run.started.cluster_id, run.name)
    clock, reader, writer = SystemClock(), cluster.reader(), cluster.writer()
    choice = OwnerChoice(no_ownership=not owns)
    claim = claim_request(cluster, state, run.started.cluster_id, run.name, choice)
    hold = None if claim is None else ClusterHold(claim, clock)
    poll_s = min(run.poll_s, USUAL_POLL_S) if run.left_to_kafka else run.poll_s
    observer = Observer(reader, clock, patience_s=PATIENCE * poll_s)
    source = SameClusterSource(observer, run.started.cluster_id)
    owner = owned.holder
    canary = Canary(cluster.connection, run.name) if run.options.canary else None
    folder = state.run(run.name)
    kept = KeptSpeed(folder, clock, lambda: engine.speed_shown)
    try:
        engine = Engine(
            run,
            journal,
            metrics.through(
                AfterPoll(
                    AfterPoll(recorded.through(source), kept.write_if_due),
                    partial(note_poll, folder),  # shows that this process runs
                ),
                lambda: engine.timelines,
            ),
            ClusterPorts(reader, writer),
            clock,
            check_throttle=check_throttle,
            gate_shut=CancelGateFile(state, run.started.cluster_id).words,
            lost=owned.lost,
            guard=None if hold is None else hold.guard,
            recording=recorded.state,
            news=notices.failures,
            earlier=EarlierRuns(state),
            leave_when=leave_when,
            forbids=WhileCommand().forbids,
            figure=own_figure(run.options) if canary is None else CanaryFigure(canary),
        )
        leave_on_signals(engine.leave, wait)
        try:
            await engine.execute(
                Owned(
                    pid=owner.pid,
                    host=owner.host,
                    user=owner.user,
                    until=until,
                    ownership_off=hold is None,
                )
            )
        finally:
            kept.write()
    finally:
        if canary is not None:
            await _remove(canary)
        if hold is not None:
            await hold.end(ended=run.ended)
        await observer.aclose()
        await reader.aclose()
        await writer.aclose()


async def _remove(canary: Canary) -> None:
    """Delete the topic of a canary, or print that it stays."""
    try:
        await asyncio.to_thread(canary.close)
    except ClusterError as error:
        print_note(f"topic {canary.topic} stays: {error}. It is ktui's own; delete it")


def leave_on_signals(leave: Callable[[str], None], wait: JournalWait) -> None:
    """Let a signal end the process, even while it waits for its journal and no callback runs."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        reason = f"its process got {number.name}"
        loop.add_signal_handler(number, leave, reason)
        signal.signal(number, partial(_end_wait, wait))  # the loop's own handler does nothing


def _end_wait(wait: JournalWait, number: int, _frame: FrameType | None) -> None:
    wait.given_up = f"its process got {signal.Signals(number).name}"
