"""A run: the fold of its journal's events, and of nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from ktui.cluster.errors import Means, means
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.run import events
from ktui.execution.run.options import NO_SCHEDULE, USUAL_POLL_S, RunOptions, Schedule
from ktui.execution.run.parts import ExtraPlans, Pauses, Remembered, counts_against
from ktui.execution.run.states import (
    UNWELL,
    CancelKind,
    State,
    state_when_cancelled,
    state_when_sent,
)
from ktui.execution.run.throttle_ledger import ThrottleLedger
from ktui.execution.run.track import CopyTotals, OpenStep, Track, new_track
from ktui.pacing.limits import Limits, Shape
from ktui.pacing.queue import LastMinute
from ktui.pacing.situation import raises_epoch


class Owner(msgspec.Struct, frozen=True):
    """The last process that owned the run."""

    pid: int
    host: str
    user: str
    since: datetime


class ClusterLost(msgspec.Struct, frozen=True):
    """An outage: since when the engine has had no answer from the cluster, and why."""

    since: datetime
    reason: str


def nothing_was_sent(
    request: events.Request, answer: events.Answered | WriteResult, track: Track
) -> bool:
    """Whether no request of a step was sent: not even its first one."""
    unsent = answer.verdict is Verdict.REFUSED and answer.code is None
    if not unsent or track.step is None or track.step.election is not None:
        return False
    return request is (events.Request.ALTER if track.step.begun.alters else events.Request.ELECT)


def remains_not_begun(
    request: events.Request, answer: events.Answered | WriteResult, track: Track
) -> bool:
    """Whether a partition still counts as not begun: its first step's request was not sent."""
    first = track.step is not None and track.step.first
    return first and nothing_was_sent(request, answer, track)


def _most(track: Track) -> int:
    held = track.replicas if track.step is None or track.sent is None else track.sent
    return len(held)


class Run(msgspec.Struct, eq=False):
    """All that is known of a run; an event costs the same for many partitions (but `planned`)."""

    name: str
    started: events.Started | None = None
    started_at: datetime | None = None
    limits: Limits = Limits()
    racks: dict[int, str] = {}  # as of the start
    limits_changed_at: int = 0  # the last batch before the present limits
    limits_change: Remembered[events.LimitsChanged] | None = (
        None  # None if they are those of the start
    )
    throttle_change: Remembered[events.ThrottleChanged] | None = (
        None  # None if it is that of the start
    )
    tracks: dict[TopicPartition, Track] = {}
    counts: Counter[State] = msgspec.field(default_factory=Counter)
    tracks_in_flight: dict[TopicPartition, Track] = {}  # the batch, in the order of its steps
    troubled: dict[TopicPartition, Track] = {}  # in one of the states of `UNWELL`
    cancelling: dict[TopicPartition, Track] = {}  # cancelled by an operator, and not ended yet
    batch: int = 0
    cuts: LastMinute = msgspec.field(default_factory=LastMinute)  # raised leader epochs
    pauses: Pauses = msgspec.field(default_factory=Pauses)
    gate: events.StepGate = events.StepGate(shut=False)
    schedule: Schedule = NO_SCHEDULE
    cancel_gate: events.CancelGate = events.CancelGate(shut=False)
    ownership_off: bool = False  # --no-ownership: its engine does not check who owns the cluster
    recording: events.Recording = events.NOT_RECORDED
    notes: list[Remembered[events.Noted]] = []
    outage: ClusterLost | None = None
    owner: Owner | None = None
    until: datetime | None = None  # no step is submitted that is not expected to end by then
    left: str | None = None  # why its last engine exited; None if not known
    exported: events.Exported | None = None  # it goes on in another state directory
    ended_at: datetime | None = None
    open_requests: tuple[
        events.OpenRequest, ...
    ] = ()  # unanswered; they may take effect after the end
    damage: str | None = None
    seq: int = 0
    at: datetime | None = None  # of the last event
    copies: CopyTotals = msgspec.field(default_factory=CopyTotals)
    additions: ExtraPlans = msgspec.field(default_factory=ExtraPlans)
    throttled: ThrottleLedger = msgspec.field(default_factory=ThrottleLedger)

    def __post_init__(self) -> None:
        for tracks in (
            self.tracks_in_flight,
            self.troubled,
            self.cancelling,
            self.additions.waiting,
        ):
            tracks.update({tp: self.tracks[tp] for tp in tracks})

    @property
    def options(self) -> RunOptions:
        return self.started.options if self.started else RunOptions()

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    @property
    def complete(self) -> bool:
        """Whether all of its partitions are known; False if its creation was cut off."""
        return self.started is not None and len(self.tracks) >= self.started.partitions

    @property
    def over(self) -> int:
        return sum(count for state, count in self.counts.items() if state.ended)

    @property
    def in_flight(self) -> int:
        return len(self.tracks_in_flight)

    @property
    def open_steps(self) -> Iterator[tuple[Track, OpenStep]]:
        """The batch, in the order of its steps."""
        for track in self.tracks_in_flight.values():
            if track.step is not None:
                yield track, track.step

    @property
    def held_up(self) -> int:
        return sum(track.held_up_by != "" for track in self.tracks_in_flight.values())

    @property
    def with_extra_replicas(self) -> int:
        """How many partitions have more replicas than before the run and by its plan.

        A partition with a step in flight counts as if that step were over: Kafka ends it also
        while the run has no engine. Those that have ended keep what they have: the run takes
        nothing away from them any more.
        """
        tracks = self.tracks.values()
        return sum(
            _most(track) > max(len(track.original), len(track.target))
            for track in tracks
            if not track.state.ended
        )

    @property
    def left_to_kafka(self) -> bool:
        """Whether its engine leaves it once all is submitted, as that of `ktui reassign` does."""
        return self.started is not None and self.started.limits.shape is Shape.WHOLE

    @property
    def poll_s(self) -> float:
        """`ktui reassign` waits for its engine, and has the option for batches alone (KIP-1335)."""
        submits_batches = self.limits.partitions is not None and not self.pauses.whole
        if not self.left_to_kafka or submits_batches:
            return self.options.poll_s
        return min(USUAL_POLL_S, self.options.poll_s)

    def ends_by(self, now: datetime) -> datetime | None:
        ends = (self.until, self.schedule.closes_at(now))
        return min((end for end in ends if end is not None), default=None)

    @property
    def throttles(self) -> bool:
        return bool(self.throttled.rates) or self.schedule.by is not None

    @property
    def submitted(self) -> bool:
        return self.left_to_kafka and self.left is not None and self.all_begun

    @property
    def all_begun(self) -> bool:
        return self.in_flight + self.over == len(self.tracks)

    def apply(self, entry: events.JournalEntry) -> None:
        self.seq, self.at = entry.seq, entry.at
        self._apply(entry.event, entry.at)
        if isinstance(
            entry.event, events.StepBegun | events.StepOver | events.StateEntered | events.Replanned
        ):
            self.copies.count(self.tracks[entry.event.tp])

    def fold(self, entries: Iterable[events.JournalEntry]) -> Run:
        for entry in entries:
            self.apply(entry)
        return self

    def _apply(self, event: events.AnyRunEvent, at: datetime) -> None:  # noqa: C901, PLR0912, PLR0915 - a case an event
        match event:
            case events.StepBegun():
                self._step(event, at)
            case events.Answered():
                self._answered(event)
            case events.StepOver():
                self._step_over(event, at)
            case events.StateEntered():
                track = self.tracks[event.tp]
                track.replicas = event.replicas or track.replicas
                self._move(track, event.state, at, event.reason)
            case events.Elect():
                self._elect(event, at)
            case events.Cancel():
                self._cancel(event, at)
            case events.UrgencyChanged():
                self.tracks[event.tp].urgency = event.why
            case events.Replanned():
                self.tracks[event.tp].replicas = event.replicas
            case events.PlannedPart():
                self._plan(event.partitions, at)
            case events.Started():
                self.started, self.started_at, self.limits = event, at, event.limits
                self.racks = event.rack_of
                self.schedule = event.options.schedule
                self.throttled.set_rates(event.options.throttle)
            case events.LimitsChanged():
                self.limits, self.limits_changed_at = event.new, event.batch
                self.limits_change = Remembered(self.seq, at, event)
            case events.Paused() | events.Continued():
                self.pauses.apply(event)
            case events.CancelAsked():
                self.pauses.apply(event)
                self.additions.overrule(event)
                self.ended_at = None
                for tp in event.partitions:
                    self._mark_cancelled(self.tracks[tp], event.kind, at)
            case events.StepGate():
                self.gate = event
            case events.ScheduleChanged():
                self.schedule = event.new
                if event.new.by is None:
                    self.throttled.choose(None)
            case events.CancelGate():
                self.cancel_gate = event
            case events.Recording():
                self.recording = event
            case events.ThrottleEvent():
                self.throttled.apply(event)
                if isinstance(event, events.ThrottleChanged):
                    self.throttle_change = Remembered(self.seq, at, event)
            case events.Outage():
                self.outage = ClusterLost(at, event.reason) if event.lost else None
            case events.Owned():
                self.owner, self.left = Owner(event.pid, event.host, event.user, at), None
                self.until, self.outage = event.until, None
                self.ownership_off = event.ownership_off
                self.throttled.forget_unchanged()
            case events.EngineLeft():
                self.left, self.outage = event.reason, None
            case events.Exported():
                self.exported, self.outage = event, None
            case events.Imported() if self.started is not None:
                self.exported, self.owner, self.left = None, None, None
                self.started = msgspec.structs.replace(self.started, connection=event.connection)
            case events.Added() | events.Joined():
                self._add(event, at)
            case events.Noted():
                self.notes.append(Remembered(self.seq, at, event))
            case events.Recovered():
                self.damage = event.lost
            case events.Ended():
                self.ended_at, self.open_requests = at, event.open

    def _plan(self, partitions: Sequence[events.Planned], at: datetime) -> None:
        for planned in self.additions.take(partitions):
            if planned.tp in self.tracks:
                self.additions.wait(self.tracks[planned.tp], planned)
                continue
            track = new_track(planned, self.additions.number(), at)
            self.tracks[track.tp] = track
            self.counts[track.state] += 1
            self.copies.count(track)

    def _add(self, event: events.Added | events.Joined, at: datetime) -> None:
        if isinstance(event, events.Added):
            self.additions.expect(Remembered(self.seq, at, event))
            return
        for tp in event.partitions:
            track = self.tracks[tp] = self.tracks.pop(tp)  # moved behind the present ones
            self.additions.join(track)
            self.pauses.freed.discard(tp)
            self._move(track, State.QUEUED, at)
            self.copies.count(track)

    def _step(self, event: events.StepBegun, at: datetime) -> None:
        track = self.tracks[event.tp]
        if not track.begun:
            track.original = event.before
            track.led = event.leader if event.leader in event.before else None
        first, track.under_way = not track.under_way, True
        track.replicas = event.before
        track.steps += 1
        track.batch = self.batch = event.batch
        track.step = OpenStep(event, at, first)
        if event.alters:
            track.sent, track.open_alter, track.open_nodes = event.replicas, True, ()
            track.unanswered_cancels = 0
        self.tracks_in_flight[event.tp] = track
        if raises_epoch(event.step):
            self.cuts.add(at.timestamp())
        adds, drops = bool(event.adding), bool(event.removing) or event.elect is None
        self._move(track, state_when_sent(adds=adds, drops=drops), at)

    def _answered(self, event: events.Answered) -> None:
        track = self.tracks[event.tp]
        if event.request is events.Request.ALTER:
            track.open_alter = event.verdict is Verdict.UNKNOWN
            track.taken = track.taken or event.verdict is Verdict.ACCEPTED
        elif event.request is events.Request.CANCEL and event.verdict is not Verdict.UNKNOWN:
            track.unanswered_cancels = max(0, track.unanswered_cancels - 1)
        if event.verdict is Verdict.UNKNOWN and event.request is not events.Request.ELECT:
            track.open_nodes += () if event.node is None else (event.node,)
        if event.request is not events.Request.CANCEL:
            track.refusals = track.refusals + 1 if counts_against(event) else 0
        if track.step is None:
            return
        track.under_way = track.under_way and not remains_not_begun(event.request, event, track)
        if event.request is events.Request.ALTER:
            track.step.answered = event
        elif event.request is events.Request.ELECT:
            track.step.election = event
        elif event.verdict is Verdict.REFUSED and not means(event.code, Means.IN_FORCE):
            track.step.cancels = max(0, track.step.cancels - 1)

    def _elect(self, event: events.Elect, at: datetime) -> None:
        track = self.tracks[event.tp]
        if track.step is not None:
            track.step.elected_at = track.step.elected_at or at
        self._move(track, State.ELECTING, at)

    def _cancel(self, event: events.Cancel, at: datetime) -> None:
        track = self.tracks[event.tp]
        track.unanswered_cancels += 1
        if track.step is not None:
            track.step.cancels += 1
        self._move(track, State.STOPPING, at, event.reason)

    def _mark_cancelled(self, track: Track, kind: CancelKind, at: datetime) -> None:
        track.under_way = track.under_way and not track.state.ended
        track.cancel, track.refusals = kind, 0
        if track.step is not None:
            track.step.cancelled_by_operator = True
            self._move(track, State.STOPPING, at)
        elif track.begun:
            self._move(track, State.QUEUED, at)
        else:
            self._move(track, State.STOPPED, at)
        self.copies.count(track)

    def _step_over(self, event: events.StepOver, at: datetime) -> None:
        track = self.tracks[event.tp]
        track.replicas = event.replicas
        track.step = None
        self.tracks_in_flight.pop(event.tp, None)
        self._move(track, State.QUEUED, at, event.reason)

    def _move(self, track: Track, state: State, at: datetime, reason: str = "") -> None:
        state = state_when_cancelled(state, track.cancel)
        if state is not track.state:
            self.counts[track.state] -= 1
            self.counts[state] += 1
            track.state, track.since = state, at
        track.reason = reason
        if state in UNWELL:
            self.troubled[track.tp] = track
        else:
            self.troubled.pop(track.tp, None)
        if state.ended:
            track.step, track.urgency = None, None
            self.tracks_in_flight.pop(track.tp, None)
            self.cancelling.pop(track.tp, None)
            if state in UNWELL:
                self.additions.forget(track)
        elif track.cancel is not None:
            self.cancelling[track.tp] = track
