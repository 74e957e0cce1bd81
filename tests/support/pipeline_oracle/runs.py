"""The history of each partition of a run, from the run's events."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import (
    AnyRunEvent,
    CancelAsked,
    Elect,
    Ended,
    Joined,
    JournalEntry,
    LimitsChanged,
    Started,
    StateEntered,
    StepBegun,
    StepOver,
    decode,
)
from ktui.execution.run.run import Run
from ktui.pacing.limits import Limits
from ktui.recording.segments import from_wall_ms
from support.pipeline_oracle.read import Happened, Partition


class RunStep(msgspec.Struct):
    """A step of a partition, with its begin and end."""

    run_id: str
    run: str
    began: int
    over: float = math.inf
    batch: int = 0
    alters: bool = True
    elects: bool = False

    def contains(self, t: int) -> bool:
        return self.began <= t <= self.over


class Moment(NamedTuple):
    """An event that concerns one partition."""

    t: int
    event: AnyRunEvent
    at_rest: bool
    """Whether nothing more will be done for the partition after the event."""


class OneOfRun(msgspec.Struct):
    """The history of one partition of a run."""

    tp: TopicPartition
    moments: list[Moment] = []
    steps: list[RunStep] = []
    limits: Limits | None = None
    """The limits in force at the partition's first step; None if they are unknown."""
    planned_t: int | None = None
    """When the partition's track was made."""
    before: int = 0
    """How many of the moments came before `planned_t`."""

    @property
    def at_rest(self) -> bool:
        return bool(self.moments) and self.moments[-1].at_rest


class RecordedRun(msgspec.Struct):
    """A run, as far as it was recorded."""

    cluster_id: str
    run_id: str
    name: str
    fold: Run
    partitions: dict[TopicPartition, OneOfRun] = {}
    last_t: int = 0
    began: int | None = None
    ended: int | None = None
    limit_changes: int = 0
    events: list[Happened] = []

    def key(self, tp: TopicPartition) -> Partition:
        """Return the incarnation of a partition that the run has moved."""
        track = self.fold.tracks.get(tp)
        topic_id = None if track is None else track.planned.topic_id
        return Partition(self.cluster_id, tp.topic, topic_id, tp.partition)

    def is_over(self, one: OneOfRun) -> bool:
        """Return whether nothing more will be done for a partition, as far as is known."""
        track = self.fold.tracks.get(one.tp)
        open_ = one.steps[-1].over == math.inf
        return not open_ and (track is None or track.state.ended)


def closes(event: AnyRunEvent) -> bool:
    """Return whether an event ends a step: the step is over, or its partition has ended."""
    return isinstance(event, StepOver) or (isinstance(event, StateEntered) and event.state.ended)


def runs_of(events: Iterable[Happened]) -> list[RecordedRun]:
    """Fold the events of each run."""
    by_run: defaultdict[tuple[str, str], list[Happened]] = defaultdict(list)
    for event in events:
        by_run[event.cluster_id, event.run_id].append(event)
    return [_run(sorted(each, key=lambda event: event.entry)) for each in by_run.values()]


def _run(events: list[Happened]) -> RecordedRun:
    first = events[0]
    run = RecordedRun(first.cluster_id, first.run_id, first.run, Run(first.run))
    run.events = events
    limits_known = False
    for happened in events:
        event, t = decode(happened.event), happened.t
        run.last_t = t
        if {*named(event)} <= run.fold.tracks.keys():
            run.fold.apply(JournalEntry(happened.entry, from_wall_ms(happened.at), event))
        elif isinstance(event, CancelAsked | Joined):
            continue  # the recording lacks the beginning of the journal
        limits_known = limits_known or isinstance(event, Started | LimitsChanged)
        run.limit_changes += isinstance(event, LimitsChanged)
        if isinstance(event, Started):
            run.began = t
        if isinstance(event, Ended):
            run.ended = t
        for tp in {*run.partitions, *run.fold.tracks, *named(event)}:
            one = run.partitions.setdefault(tp, OneOfRun(tp))
            if one.planned_t is None and tp in run.fold.tracks:
                one.planned_t, one.before = t, len(one.moments)
            _note(run, one, t, event)
            if isinstance(event, StepBegun) and len(one.steps) == 1 and event.tp == tp:
                one.limits = run.fold.limits if limits_known else None
    run.ended = run.ended if run.fold.ended else None
    return run


def named(event: AnyRunEvent) -> tuple[TopicPartition, ...]:
    """Return the partitions that an event is about."""
    if isinstance(event, CancelAsked | Joined):
        return event.partitions
    one: TopicPartition | None = getattr(event, "tp", None)
    return () if one is None else (one,)


def _note(run: RecordedRun, one: OneOfRun, t: int, event: AnyRunEvent) -> None:
    """Record an event that is about a partition, or brings it to rest."""
    concerns = one.tp in named(event)
    track = run.fold.tracks.get(one.tp)
    if track is not None:
        at_rest = track.state.ended
    else:
        at_rest = closes(event) and isinstance(event, StateEntered) if concerns else one.at_rest
    if not (concerns or isinstance(event, Ended) or at_rest != one.at_rest):
        return
    one.moments.append(Moment(t, event, at_rest))
    if isinstance(event, StepBegun):
        step = RunStep(run.run_id, run.name, t, batch=event.batch, alters=event.alters)
        step.elects = event.elect is not None
        one.steps.append(step)
    elif closes(event):
        for step in one.steps:
            step.over = t if step.over == math.inf else step.over


Wait = tuple[str, int, int, bool]
"""A state that only the run knows: its name, begin, end, and whether it was still lasting."""


def waits(run: RecordedRun, one: OneOfRun) -> Iterator[Wait]:
    """Yield a partition's waits, in no particular order."""
    for name, began, ended, still in (*_queued(run, one), *_electing(run, one), *_between(one)):
        yield name, began, max(began, ended), still


def _queued(run: RecordedRun, one: OneOfRun) -> Iterator[Wait]:
    since = one.planned_t
    for t, event, at_rest in one.moments[one.before :]:
        if isinstance(event, Joined):
            since = t if since is None else since
        if since is not None and (at_rest or isinstance(event, StepBegun | Ended)):
            yield "queued", since, t, False
            since = None
    if since is not None:
        yield "queued", since, run.last_t, True


def _electing(run: RecordedRun, one: OneOfRun) -> Iterator[Wait]:
    since: int | None = None
    for t, event, _ in one.moments:
        if isinstance(event, Elect):
            since = t if since is None else since
        elif since is not None and isinstance(event, StepOver | StateEntered):
            yield "electing", since, t, False
            since = None
    if since is not None:
        yield "electing", since, run.last_t, True


def _between(one: OneOfRun) -> Iterator[Wait]:
    since: int | None = None
    for t, event, at_rest in one.moments:
        if isinstance(event, StepBegun) and since is not None:
            yield "between steps", since, t, False
            since = None
        elif at_rest or isinstance(event, Joined):
            since = None
        elif isinstance(event, StepOver):
            since = t if since is None else since
