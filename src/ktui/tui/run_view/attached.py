"""A run that the view is attached to: followed by its journal, and asked things through it."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import attrgetter

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.partition import TopicPartition
from ktui.execution.errors import RunProblem
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.forecast.estimate import CopiedBytes, Estimate
from ktui.execution.forecast.waits import Waits
from ktui.execution.host.catalog import RunState, run_state
from ktui.execution.host.ownership import Holder, holder, this_process
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.commands import Asked, Command, SetLimits
from ktui.execution.journal.follower import RunFollower
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits, LimitsProblem, Mode, parse_limits
from ktui.progress.timeline import Event, Progress
from ktui.tui.run_view.rows import RunRows
from ktui.tui.run_view.run_events import called_off, news
from ktui.tui.run_view.throttle import Inflows, ThrottleNow, inflows_of, throttle_now
from ktui.tui.run_view.throttle_events import ThrottleNews

MOST_EVENTS = 10_000
_TELLING = 0.1
"""Share of the steps begun from which on the number of batches can be told."""


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the lines at the top tell of a run."""

    name: str
    state: RunState
    why: str = ""
    """Who paused it, or why the gate is shut."""
    cancel_gate: str = ""
    """Who had shut the cluster's cancel gate when its process looked last; empty while open."""
    limits: Limits = Limits()
    coming: Limits | None = None
    """What was asked for, and is not in force yet."""
    batch: int = 0
    batches: int | None = None
    partitions: int = 0
    counts: Mapping[State, int] = {}
    in_flight: int = 0
    copied: CopiedBytes = CopiedBytes()
    throttle: ThrottleNow = ThrottleNow()
    holder: Holder | None = None
    ended_at: datetime | None = None
    problem: str | None = None
    """What is wrong with its journal."""

    @property
    def over(self) -> int:
        """How many partitions have ended, one way or another."""
        return sum(count for state, count in self.counts.items() if state.ended)

    @property
    def owned(self) -> bool:
        """Whether a process carries it on."""
        return self.holder is not None and self.state is not RunState.ENDED


class AttachedRun:
    """One run, as its journal has it. The first `refresh` reads all of it, and may take long.

    Raises:
        JournalProblem: the journal cannot be opened.
    """

    def __init__(self, folder: RunDir, clock: Clock) -> None:
        self.folder = folder
        self._clock = clock
        self._follower = RunFollower(folder.journal, clock)
        self._commands = Journal.open(folder.journal, clock, read_only=True)
        self._begin()

    def _begin(self) -> None:
        self.rows = RunRows(self.run)
        self._estimate = Estimate(self.run, EarlierRuns.beside(self.folder))
        self.news: deque[Event] = deque(maxlen=MOST_EVENTS)
        """What has happened in the run, oldest first."""
        self.throttle_news = ThrottleNews(self.name)
        self._asked: list[tuple[frozenset[TopicPartition], Event]] = []
        """What operators called off, and the event that says so."""
        self.inflows: Inflows = {}
        """What comes into each broker by the steps in flight, as of the last look."""
        self._throttle = ThrottleNow()
        self._holder: Holder | None = None
        self._problem: str | None = None

    @property
    def name(self) -> str:
        """The run's name."""
        return self.folder.name

    @property
    def run(self) -> Run:
        """The run."""
        return self._follower.run

    def refresh(self) -> tuple[list[JournalEntry], set[TopicPartition]]:
        """Read what is new; give it, and the partitions whose rows tell otherwise now."""
        try:
            entries = self._follower.refresh()
            owner = holder(self.folder)
        except RunProblem as problem:
            self._problem = str(problem)
            return [], set()
        if self.rows.run is not self.run:  # the journal was replaced by what was whole of it
            self._begin()
            self._commands.close()
            self._commands = Journal.open(self.folder.journal, self._clock, read_only=True)
        self._holder, self._problem = owner, self._follower.damage
        touched = self.rows.take(entries)
        self._estimate.take(entries)
        self.news.extend(news(self.name, entries[-MOST_EVENTS:]))
        self._asked.extend(called_off(self.name, entries))
        self.throttle_news.take(entries)
        return entries, touched

    def events_of(self, tp: TopicPartition) -> list[Event]:
        """Give what has happened to a partition in the run, oldest first."""
        own = (event for event in self.news if event.tp == tp)
        asked = (event for partitions, event in self._asked if tp in partitions)
        return list(heapq.merge(own, asked, self.throttle_news.of(tp), key=attrgetter("at")))

    def look(self, progress: Progress) -> None:
        """Take in what is seen of the steps under way, and of what others move."""
        now = self._clock.now()
        self._estimate.look(now, progress.timelines)
        self.inflows = inflows_of(self.run, progress)
        self._throttle = throttle_now(self.run, progress, self.inflows)
        self.rows.waits = Waits(
            self.run,
            between=self.rows.between.values(),
            pace=self._estimate.pace,
            seen=progress.last,
            now=now,
            owned=self._holder is not None,
        )

    def ask(self, command: Command) -> int:
        """Ask something of the process that owns the run, and give the command's number.

        Raises:
            JournalProblem: the journal cannot be written.
        """
        me = this_process()
        with Journal.open(self.folder.journal, self._clock) as journal:
            return journal.ask(command, f"{me.user}@{me.host} ({me.pid})")

    def answer_to(self, number: int) -> Asked:
        """Give a command as it stands.

        Raises:
            JournalProblem: the journal cannot be read.
        """
        return self._commands.answer_to(number)

    def close(self) -> None:
        """Let go of the journal."""
        self._follower.close()
        self._commands.close()

    @property
    def status(self) -> RunStatus:
        """How the run is now."""
        run, state = self.run, run_state(self.run, self._holder)
        return RunStatus(
            name=self.name,
            state=state,
            why=_why(run, state),
            cancel_gate=run.cancel_gate.reason if run.cancel_gate.shut else "",
            limits=run.limits,
            coming=self._coming(),
            batch=run.batch,
            batches=_batches(run, self.rows),
            partitions=len(run.tracks),
            counts={each: run.counts[each] for each in State if run.counts[each]},
            in_flight=run.in_flight,
            copied=self._estimate.copied,
            throttle=self._throttle,
            holder=self._holder,
            ended_at=run.ended_at,
            problem=self._problem or run.damage,
        )

    def _coming(self) -> Limits | None:
        """Give the limits that were asked for and not answered yet."""
        try:
            asked = [each.command for each in self._commands.asked()]
        except RunProblem:
            return None
        return limits_after(self.run.limits, asked)


def limits_after(limits: Limits, commands: Sequence[Command | None]) -> Limits | None:
    """Give what limits some commands come to; None where they change nothing."""
    coming = limits
    for command in commands:
        if isinstance(command, SetLimits):
            try:
                coming = parse_limits(command.options, coming)
            except LimitsProblem:
                continue
    return None if coming == limits else coming


def _why(run: Run, state: RunState) -> str:
    if state is RunState.PAUSED:
        return run.pauses.reason or ""
    if state is RunState.GATED:
        return run.gate.reason if run.gate.shut else "the cancel gate; O opens it"
    return ""


def _batches(run: Run, rows: RunRows) -> int | None:
    """Estimate how many decisions, or waves, the run takes in all: as the steps begun tell."""
    if run.ended:
        return run.batch
    if run.limits.mode is Mode.WAVE and run.limits.partitions is not None:
        waiting = run.counts[State.QUEUED]
        return run.batch + -(-waiting // run.limits.partitions)
    steps = rows.steps_begun + rows.all_left
    if rows.steps_begun <= _TELLING * steps:
        return None
    return max(run.batch, round(run.batch * steps / rows.steps_begun))
