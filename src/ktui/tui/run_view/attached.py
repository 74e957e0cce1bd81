"""The run that the view is attached to: its journal, what it has sent, and commands to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution import RunProblem
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.forecast.estimate import Estimate
from ktui.execution.forecast.run_details import estimate_as_seen
from ktui.execution.forecast.run_progress import RunProgress, run_progress, with_least, with_more
from ktui.execution.forecast.waits import Waits
from ktui.execution.host.catalog import RunState
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import Holder, holder
from ktui.execution.host.process import engine_death
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.commands import Command, SetLimits, StoredCommand
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run import events
from ktui.execution.run.events import JournalEntry, Request
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.text import describe_event
from ktui.execution.time_left.rest import LeastLeft
from ktui.pacing.limits import Limits, LimitsProblem, Mode
from ktui.progress import timeline
from ktui.progress.news import EventSeverity
from ktui.progress.timeline import Event, Progress, Timeline, in_time_order
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece
from ktui.tui.run_view.rows import RunRows
from ktui.tui.run_view.throttle import Inflows, ThrottleNews, ThrottleNow, run_inflows, throttle_now

ALTER, ELECT, CONFIGURE = (
    "AlterPartitionReassignments", "ElectLeaders", "IncrementalAlterConfigs",
)  # fmt: skip
MOST_SENT = 200
"""The requests that are kept: more than any terminal has lines for."""
_MARKS = {
    Verdict.ACCEPTED: Piece("✓", "in-sync"),
    Verdict.REFUSED: Piece("✗ not sent", "stalled"),  # without Kafka's name of an error
    Verdict.UNKNOWN: Piece("? no answer", "falling-behind"),
}
_OPEN = Piece("… no answer yet", "dim")


class SentRequest(msgspec.Struct):
    """A part of a request, about one partition, topic or broker, and the answer so far."""

    at: datetime
    api: str  # Kafka's name of the request
    what: str
    verdict: Verdict | None = None  # None while there is no answer
    why: str = ""  # Kafka's name of the error


class SentRequests:
    """The newest requests of one run, by the intents and answers in its journal."""

    def __init__(self) -> None:
        self.newest: deque[SentRequest] = deque(maxlen=MOST_SENT)
        self._open: dict[Hashable, SentRequest] = {}
        self.changes = 0  # how often any of them has changed: who has drawn them need not again

    def note_entries(self, entries: Sequence[JournalEntry]) -> None:
        # Each request has at most two entries; older ones could not be shown.
        for entry in entries[-2 * MOST_SENT :]:
            self._note(entry)

    def _note(self, entry: JournalEntry) -> None:
        match entry.event:
            case events.StepBegun(alters=True) as step:
                replicas = ",".join(map(str, step.replicas))
                self._sent(entry, (step.tp, Request.ALTER), ALTER, f"{step.tp} [{replicas}]")
            case events.Cancel() as cancel:
                self._sent(entry, (cancel.tp, Request.CANCEL), ALTER, f"{cancel.tp} cancel")
            case events.Elect() as elect:
                self._sent(entry, (elect.tp, Request.ELECT), ELECT, f"{elect.tp} {elect.leader}")
            case events.Configure(changes=changes):
                for resource in dict.fromkeys(change.resource for change in changes):
                    self._sent(
                        entry, resource, CONFIGURE, f"{resource.scope.value} {resource.name}"
                    )
            case events.Answered() as answer:
                self._answered((answer.tp, answer.request), answer.verdict, answer.code)
            case events.Configured() as answer:
                self._answered(answer.resource, answer.verdict, answer.code)

    def _sent(self, entry: JournalEntry, key: Hashable, api: str, what: str) -> None:
        request = SentRequest(entry.at, api, what)
        if len(self.newest) == MOST_SENT:
            oldest = self.newest[0]
            self._open = {k: each for k, each in self._open.items() if each is not oldest}
        self.changes += 1
        self.newest.append(request)
        self._open[key] = request

    def _answered(self, key: Hashable, verdict: Verdict, code: str | None) -> None:
        request = self._open.pop(key, None)
        if request is not None:
            self.changes += 1
            request.verdict, request.why = verdict, code or ""


def sent_lines(newest: Iterable[SentRequest]) -> list[list[Piece]]:
    """Draw a line for each request, the oldest first: what one request and answer share is one."""
    lines: list[list[Piece]] = []
    together: list[SentRequest] = []
    for each in newest:
        if together and _shared(each) != _shared(together[0]):
            lines.append(_line(together))
            together = []
        together.append(each)
    return [*lines, _line(together)] if together else lines


def _shared(request: SentRequest) -> tuple[str, str, Verdict | None, str]:
    return figures.as_time(request.at), request.api, request.verdict, request.why


def _line(together: Sequence[SentRequest]) -> list[Piece]:
    time, api, verdict, why = _shared(together[0])
    mark = _OPEN if verdict is None else _MARKS[verdict]
    return [
        Piece(f"{time} ", "dim"),
        mark._replace(text=f"✗ {why}") if why and verdict is Verdict.REFUSED else mark,
        Piece(f" {api} ", "header"),
        Piece(", ".join(each.what for each in together)),
    ]


_STATES = {
    **dict.fromkeys((State.FAILED, State.STALLED), EventSeverity.TROUBLE),
    **dict.fromkeys(
        (State.BLOCKED, State.REFUSED, State.CHANGED_ELSEWHERE, State.FOREIGN, State.TOPIC_GONE),
        EventSeverity.WARNING,
    ),
}


def shown_events(run: str, entries: Iterable[events.JournalEntry]) -> Iterator[timeline.Event]:
    """Yield the events worth showing: no requests that Kafka accepted, and no parts of the plan."""
    for entry in entries:
        event = entry.event
        answer = event.verdict if isinstance(event, events.Answered | events.Configured) else None
        if answer is not Verdict.ACCEPTED and not isinstance(event, events.PlannedPart):
            tp = getattr(event, "tp", None)
            what = f"run {run}: {describe_event(event)}"
            yield timeline.Event(entry.at, what, tp, severity=_severity(event))


def cancel_events(
    run: str, entries: Iterable[events.JournalEntry]
) -> Iterator[tuple[frozenset[TopicPartition], timeline.Event]]:
    """Yield the partitions of each cancel, with the event that reports it."""
    for entry in entries:
        if isinstance(entry.event, events.CancelAsked):
            (event,) = shown_events(run, [entry])
            yield frozenset(entry.event.partitions), event


def _severity(event: events.AnyRunEvent) -> EventSeverity:
    match event:
        case events.StateEntered(state=state):
            return _STATES.get(state, EventSeverity.NEWS)
        case events.Recovered():
            return EventSeverity.TROUBLE
        case events.SettingsGivenUp(reason="") | events.Recording(reason=""):
            return EventSeverity.NEWS
        case (
            events.CancelAsked()
            | events.Paused()
            | events.EngineLeft()
            | events.EventCommandFailed()
            | events.Answered()
            | events.Configured()
            | events.SettingsGivenUp()
            | events.SettingChanged()
            | events.StepOver(reached=False)
            | events.StepGate(shut=True)
            | events.CancelGate(shut=True)
            | events.Outage(lost=True)
            | events.Recording()
        ):
            return EventSeverity.WARNING
    return EventSeverity.NEWS


MOST_EVENTS = 10_000
MOST_BOUNDED, BOUNDED_EVERY = 1_000, timedelta(seconds=10)
"""What sets the pace is computed so often, for so many partitions: that takes 20 us for each."""
_ENOUGH_BEGUN = 0.1  # above this share of steps begun, the number of batches can be estimated


class RunStatus(RunProgress, frozen=True, kw_only=True):
    """A run as the lines at the top show it: its progress, and what only this view knows."""

    coming: Limits | None = None
    traffic: ThrottleNow = ThrottleNow()

    @property
    def why(self) -> str:
        match self.state:
            case RunState.PAUSED:
                return self.paused or ""
            case RunState.GATED | RunState.WAITING:
                return self.gate.reason if self.gate.shut else "the cancel gate; O opens it"
            case RunState.RESUMABLE:
                return self.left or ""
        return ""


class AttachedRun:
    """One run by its journal. The first `refresh` reads the whole journal, and may take long."""

    def __init__(self, folder: RunDir, clock: Clock) -> None:
        self.folder = folder
        self._clock = clock
        self._follower = RunFollower(folder.journal, clock)
        self._commands = Journal.open(folder.journal, clock, read_only=True)
        self._begin()

    def _begin(self) -> None:
        self.rows = RunRows(self.run)
        self._estimate = Estimate(self.run, EarlierRuns.beside(self.folder))
        self._kept: list[events.JournalEntry] | None = None
        self.events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self.throttle_news = ThrottleNews(self.name)
        self.sent = SentRequests()
        self._cancels: list[tuple[frozenset[TopicPartition], Event]] = []
        self.inflows: Inflows = {}
        self._throttle = ThrottleNow()
        self._timelines: Mapping[TopicPartition, Timeline] = {}
        self._least: LeastLeft | None = None
        self._least_at = datetime.min.replace(tzinfo=UTC)
        self._holder: Holder | None = None
        self._problem: str | None = None
        self._death = ""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def run(self) -> Run:
        return self._follower.run

    def refresh(self) -> tuple[list[events.JournalEntry], set[TopicPartition]]:
        try:
            entries = self._follower.refresh()
            owner = holder(self.folder)
        except RunProblem as problem:
            self._problem = str(problem)
            return [], set()
        if self.rows.run is not self.run:  # the journal was replaced by its intact part
            self._begin()
            self._commands.close()
            self._commands = Journal.open(self.folder.journal, self._clock, read_only=True)
        self._holder, self._problem = owner, self._follower.damage
        if entries or owner is not None:
            self._death = ""
        elif not self._death:
            self._death = engine_death(self.folder, self.run)
        touched = self.rows.apply_entries(entries)
        self._estimate.take(entries)
        if self._kept is not None:
            self._kept += entries
        self.events.extend(shown_events(self.name, entries[-MOST_EVENTS:]))
        self._cancels.extend(cancel_events(self.name, entries))
        self.throttle_news.note_entries(entries)
        self.sent.note_entries(entries)
        return entries, touched

    @property
    def now(self) -> datetime:
        return self._clock.now()

    def events_of(self, tp: TopicPartition) -> list[Event]:
        own = (event for event in self.events if event.tp == tp)
        cancels = (event for partitions, event in self._cancels if tp in partitions)
        return in_time_order(own, cancels, self.throttle_news.events_of(tp))

    def note_poll(self, progress: Progress) -> None:
        now, self._timelines = self.now, progress.timelines
        self._estimate.update(now, progress.timelines)
        self.inflows = run_inflows(self.run, progress)
        self._throttle = throttle_now(self.run, progress, self.inflows, self._throttle)
        self.rows.waits = Waits(
            self.run,
            between=self.rows.between_steps.values(),
            needed=self._estimate.time_needed(),
            seen=progress.last,
            now=now,
            owned=self._holder is not None,
        )

    def least_left(self) -> LeastLeft | None:
        """Compare the time left with the least that the limits allow: a second for 100,000."""
        return self._estimate.least_left()

    def expect_estimate(self) -> None:
        self._kept = []

    def recorded_estimate(self) -> Estimate | None:
        if self.run.ended or not self.folder.recording.is_dir():
            return None
        with Journal.open(self.folder.journal, self._clock, read_only=True) as journal:
            entries = list(journal.entries())
        earlier = EarlierRuns.beside(self.folder)
        return estimate_as_seen(self.folder, entries, earlier, self._clock)

    def use_estimate(self, estimate: Estimate | None) -> None:
        """Go on with an estimate that was made since `expect_estimate`; None for the own one."""
        kept, self._kept = self._kept, None
        if estimate is not None and kept is not None:
            last = estimate.run.seq
            estimate.follow(self.run)
            estimate.take(entry for entry in kept if entry.seq > last)
            self._estimate = estimate

    def ask(self, command: Command) -> int:
        return RunClient(self.folder, self._clock).ask(command)

    def answer_to(self, number: int) -> StoredCommand:
        return self._commands.answer_to(number)

    def close(self) -> None:
        self._follower.close()
        self._commands.close()

    @property
    def status(self) -> RunStatus:
        run, traffic, copied = self.run, self._throttle, self._estimate.copied
        if traffic.too_low:  # nobody knows when that is mended
            copied = msgspec.structs.replace(copied, left_s=None)
        progress = run_progress(
            run,
            self._holder,
            now=self.now,
            copied=copied,
            stages=self.rows.count_stages(self._timelines),
            problem=self._problem,
        )
        died = self._death if progress.state is RunState.RESUMABLE else ""
        progress = msgspec.structs.replace(
            progress, batches=_batches(run, self.rows), died=died or None
        )
        due = self.now - self._least_at >= BOUNDED_EVERY
        if due and progress.time_left is not None and len(run.tracks) <= MOST_BOUNDED:
            self._least, self._least_at = self._estimate.least_left(), self.now
        progress = with_least(progress, self._least)
        return with_more(RunStatus, progress, coming=self._coming(), traffic=traffic)

    def _coming(self) -> Limits | None:
        try:
            commands = [each.command for each in self._commands.asked()]
        except RunProblem:
            return None
        return limits_after(self.run.limits, commands)


def limits_after(limits: Limits, commands: Sequence[Command | None]) -> Limits | None:
    """Return the limits that commands lead to; None where they change nothing."""
    coming = limits
    for command in commands:
        if isinstance(command, SetLimits):
            try:
                coming = command.applied_to(coming)
            except LimitsProblem:
                continue
    return None if coming == limits else coming


def _batches(run: Run, rows: RunRows) -> int | None:
    """Estimate how many decisions, or waves, the run takes in all, by the steps begun."""
    if run.ended:
        return run.batch
    if run.limits.mode is Mode.WAVE and run.limits.partitions is not None:
        waiting = run.counts[State.QUEUED]
        return run.batch + -(-waiting // run.limits.partitions)
    steps = rows.steps_begun + rows.all_left
    if rows.steps_begun <= _ENOUGH_BEGUN * steps:
        return None
    return max(run.batch, round(run.batch * steps / rows.steps_begun))
