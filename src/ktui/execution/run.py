"""A run: the fold of its journal's events, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution.copies import Copies
from ktui.execution.events import (
    Answered,
    Cancel,
    Continued,
    Elect,
    Ended,
    Entry,
    Event,
    Gate,
    Left,
    LimitsChanged,
    NowIn,
    Outage,
    Owned,
    Paused,
    Planned,
    PlannedPart,
    Recovered,
    Replanned,
    Request,
    Started,
    StepBegun,
    StepOver,
)
from ktui.execution.options import RunOptions
from ktui.execution.pauses import Pauses
from ktui.execution.refusals import counts_against
from ktui.execution.states import UNWELL, State, sent
from ktui.execution.throttle_events import ThrottleEvent
from ktui.execution.throttled import Throttled
from ktui.execution.track import OpenStep, Track
from ktui.pacing.limits import Limits


class Owner(msgspec.Struct, frozen=True):
    """The process that took the run on last."""

    pid: int
    host: str
    user: str
    since: datetime


class Lost(msgspec.Struct, frozen=True):
    """Since when the run's process has had no answer from the cluster, and why."""

    since: datetime
    reason: str


class Run:
    """Everything that is known of a run; `apply` takes the next entry of its journal.

    Each event costs the same however many partitions there are (but for the parts of the plan).
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.started: Started | None = None
        self.started_at: datetime | None = None
        self.limits = Limits()
        self.limits_changed_at: int = 0
        """The batch after which the limits in force were set."""
        self.tracks: dict[TopicPartition, Track] = {}
        self.counts: Counter[State] = Counter()
        self.flying: dict[TopicPartition, Track] = {}
        """Those with a step in flight: the current batch, in the order in which they began."""
        self.troubled: dict[TopicPartition, Track] = {}
        """Those that are blocked, stalled, foreign, failed, gone or changed elsewhere."""
        self.batch = 0
        self.pauses = Pauses()
        self.gate = Gate(shut=False)
        self.outage: Lost | None = None
        self.owner: Owner | None = None
        self.until: datetime | None = None
        """No step is submitted that is not expected to end by then."""
        self.left: str | None = None
        """Why its last owner went, where it said so."""
        self.ended_at: datetime | None = None
        self.damage: str | None = None
        self.seq = 0
        self.at: datetime | None = None
        """When the last event happened."""
        self.copies = Copies()
        self.throttled = Throttled()

    @property
    def options(self) -> RunOptions:
        """What was chosen for it."""
        return self.started.options if self.started else RunOptions()

    @property
    def ended(self) -> bool:
        """Whether every partition has reached its end."""
        return self.ended_at is not None

    @property
    def complete(self) -> bool:
        """Whether all of its partitions are known: its start was not cut off."""
        return self.started is not None and len(self.tracks) == self.started.partitions

    @property
    def over(self) -> int:
        """How many partitions have ended, one way or another."""
        return sum(count for state, count in self.counts.items() if state.ended)

    @property
    def in_flight(self) -> int:
        """How many steps are in flight."""
        return len(self.flying)

    def apply(self, entry: Entry) -> None:
        """Take in the next entry."""
        self.seq, self.at = entry.seq, entry.at
        self._apply(entry.event, entry.at)
        if isinstance(entry.event, StepBegun | StepOver | NowIn | Replanned):
            self._count(self.tracks[entry.event.tp])

    def fold(self, entries: Iterable[Entry]) -> Run:
        """Take in many entries, and give the run itself."""
        for entry in entries:
            self.apply(entry)
        return self

    def _apply(self, event: Event, at: datetime) -> None:  # noqa: C901, PLR0912 - a case an event
        match event:
            case StepBegun():
                self._step(event, at)
            case Answered():
                self._answered(event)
            case StepOver():
                self._step_over(event, at)
            case NowIn():
                track = self.tracks[event.tp]
                track.replicas = event.replicas or track.replicas
                self._move(track, event.state, at, event.reason)
            case Elect():
                self._elect(event, at)
            case Cancel():
                self._cancel(event, at)
            case Replanned():
                self.tracks[event.tp].replicas = event.replicas
            case PlannedPart():
                self._plan(event.partitions, at)
            case Started():
                self.started, self.started_at, self.limits = event, at, event.limits
                self.throttled.rates = event.options.throttle
            case LimitsChanged():
                self.limits, self.limits_changed_at = event.new, event.batch
            case Paused() | Continued():
                self.pauses.apply(event)
            case Gate():
                self.gate = event
            case ThrottleEvent():
                self.throttled.apply(event)
            case Outage():
                self.outage = Lost(at, event.reason) if event.lost else None
            case Owned():
                self.owner, self.left = Owner(event.pid, event.host, event.user, at), None
                self.until, self.outage = event.until, None
                self.throttled.look_anew()
            case Left():
                self.left, self.outage = event.reason, None
            case Recovered():
                self.damage = event.lost
            case Ended():
                self.ended_at = at

    def _plan(self, partitions: Iterable[Planned], at: datetime) -> None:
        for planned in partitions:
            number, original = len(self.tracks), planned.original
            track = Track(planned, number, original, original, since=at)
            self.tracks[track.tp] = track
            self.counts[track.state] += 1
            self._count(track)

    def _step(self, event: StepBegun, at: datetime) -> None:
        track = self.tracks[event.tp]
        if not track.begun:
            track.original = event.before
        track.replicas = event.before
        track.steps += 1
        track.batch = self.batch = event.batch
        track.step = OpenStep(event, at)
        if event.alters:
            track.sent = event.replicas
        self.flying[event.tp] = track
        adds, drops = bool(event.adding), bool(event.removing) or event.elect is None
        self._move(track, sent(adds=adds, drops=drops), at)

    def _answered(self, event: Answered) -> None:
        track = self.tracks[event.tp]
        if event.request is not Request.CANCEL:
            track.refusals = track.refusals + 1 if counts_against(event) else 0
        if track.step is None:
            return
        if event.request is Request.ALTER:
            track.step.answered = event
        elif event.request is Request.ELECT:
            track.step.election = event
        elif event.verdict is Verdict.REFUSED:
            track.step.cancels = max(0, track.step.cancels - 1)

    def _elect(self, event: Elect, at: datetime) -> None:
        track = self.tracks[event.tp]
        if track.step is not None:
            track.step.elected_at = track.step.elected_at or at
        self._move(track, State.ELECTING, at)

    def _cancel(self, event: Cancel, at: datetime) -> None:
        track = self.tracks[event.tp]
        if track.step is not None:
            track.step.cancels += 1
        self._move(track, State.STOPPING, at, event.reason)

    def _step_over(self, event: StepOver, at: datetime) -> None:
        track = self.tracks[event.tp]
        track.replicas = event.replicas
        track.step = None
        self.flying.pop(event.tp, None)
        self._move(track, State.QUEUED, at, event.reason)

    def _move(self, track: Track, state: State, at: datetime, reason: str = "") -> None:
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
            track.step = None
            self.flying.pop(track.tp, None)

    def _count(self, track: Track) -> None:
        self.copies.count(track.planned, track.original, track.replicas, track.state)
